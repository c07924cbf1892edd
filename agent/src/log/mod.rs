//! The log of a program: lines for people, or one JSON object per line for log collectors.

use std::{
    borrow::Cow, collections::BTreeMap, error::Error, fmt, io::Write, panic::PanicHookInfo,
    sync::OnceLock, time::Duration,
};

use clap::ValueEnum;
use limits::LogThrottle;
use serde::Serialize;
use serde_json::Value;
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    filter::{ParseError, Targets},
    fmt::{FmtContext, FormatEvent, FormatFields, format::Writer},
    prelude::*,
    registry::{LookupSpan, Scope},
};
use wire::text::{printable_lines, with_causes};

mod cap;
mod color;
mod json_fields;
pub(crate) mod recent;
mod targets;
mod text_fields;

pub use self::cap::without_contents;
use self::{
    json_fields::JsonFields,
    recent::{IsWarning, RecentLines},
    text_fields::TextFields,
};

/// The format of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text lines, coloured on a terminal
    #[default]
    Text,
    /// One JSON object per line: timestamp, level, target, message, fields
    Json,
}

/// The format with which the log of this process was initialized.
static FORMAT: OnceLock<LogFormat> = OnceLock::new();

/// How often the number of suppressed lines is logged.
const SUPPRESSED_REPORT_INTERVAL: Duration = Duration::from_secs(600);

/// Initializes the log of this process, on stderr. The returned throttle counts the lines that were suppressed because one
/// place wrote too many.
///
/// # Errors
/// The filter is invalid.
///
/// # Panics
/// The log was initialized before.
pub fn init(filter: &str, format: LogFormat) -> Result<LogThrottle, ParseError> {
    let filter: Targets = targets::complete(filter).parse()?;
    let _ = FORMAT.set(format);
    let throttle = LogThrottle::default();
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    match format {
        LogFormat::Json => {
            let lines = lines
                .with_ansi(false)
                .event_format(JsonLines)
                .fmt_fields(JsonFields);
            tracing_subscriber::registry()
                .with(lines.with_filter(throttle.clone()))
                .with(RecentLines.with_filter(IsWarning))
                .with(filter)
                .with(without_contents())
                .init();
        }
        LogFormat::Text => {
            let lines = lines
                .with_ansi(color::is_wanted(&std::io::stderr()))
                .fmt_fields(TextFields);
            tracing_subscriber::registry()
                .with(lines.with_filter(throttle.clone()))
                .with(RecentLines.with_filter(IsWarning))
                .with(filter)
                .with(without_contents())
                .init();
        }
    }
    Ok(throttle)
}

/// Logs the number of suppressed lines; never returns.
pub async fn report_left_out(throttle: LogThrottle) {
    let mut ticks = tokio::time::interval(SUPPRESSED_REPORT_INTERVAL);
    loop {
        ticks.tick().await;
        for (at, lines) in throttle.left_out() {
            tracing::warn!(at, lines, "log lines suppressed");
        }
    }
}

/// Writes why `program` ends: the error and its causes in one line on stderr, which systemd shows.
pub fn fatal(program: &str, format: LogFormat, error: &anyhow::Error) {
    // the causes may contain text of peers
    let text = printable_lines(&with_causes(&**error));
    // a closed stderr is no error
    let _ = match format {
        LogFormat::Text => writeln!(std::io::stderr().lock(), "error: {text}"),
        LogFormat::Json => writeln!(std::io::stderr().lock(), "{}", Line::error(program, text)),
    };
}

/// Writes a panic as a JSON line of the log; returns false if the format is text, for which the default report is used.
pub fn report_panic(panic: &PanicHookInfo<'_>) -> bool {
    let is_json = FORMAT.get() == Some(&LogFormat::Json);
    if is_json {
        let message = panic
            .payload_as_str()
            .unwrap_or("a panic without a message")
            .to_owned();
        let mut line = Line::error("panic", message);
        if let Some(location) = panic.location() {
            line.fields
                .insert("location".into(), location.to_string().into());
        }
        let _ = writeln!(std::io::stderr().lock(), "{line}");
    }
    is_json
}

/// A line of the log.
#[derive(Serialize)]
struct Line<'a> {
    timestamp: String,
    level: &'a str,
    target: &'a str,
    message: String,
    fields: BTreeMap<Cow<'a, str>, Value>,
}

impl<'a> Line<'a> {
    fn new(level: &'a str, target: &'a str) -> Self {
        let timestamp = format!("{:.6}", clock::now());
        Self {
            timestamp,
            level,
            target,
            message: String::new(),
            fields: BTreeMap::new(),
        }
    }

    fn error(target: &'a str, message: String) -> Self {
        Self {
            message,
            ..Self::new("ERROR", target)
        }
    }
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl Line<'_> {
    fn set(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::String(message)) => self.message = message,
            (name, value) => drop(self.fields.insert(name.into(), value)),
        }
    }
}

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, value.into());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.set(field, with_causes(value).into());
    }
}

/// Formats events as JSON.
struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let metadata = event.metadata();
        let mut line = Line::new(metadata.level().as_str(), metadata.target());
        for span in context.event_scope().into_iter().flat_map(Scope::from_root) {
            line.fields
                .extend(json_fields::of_span::<N>(&span.extensions()));
        }
        event.record(&mut line);
        writeln!(writer, "{line}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use testkit::LogBuffer;

    use super::*;

    #[test]
    fn an_event_is_one_line_of_json_with_its_fields_and_the_causes_of_an_error() {
        let (buffer, error) = (
            LogBuffer::default(),
            anyhow::anyhow!("no \"route\"\n").context("no answer"),
        );
        let error: Box<dyn Error> = error.into();
        let writer = buffer.clone();
        let lines = tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .event_format(JsonLines);
        let lines = lines.fmt_fields(JsonFields);
        let subscriber =
            tracing_subscriber::registry().with(lines.with_writer(move || writer.clone()));
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(node = "edge-1", tries = 3_u64, buffer_is = %7, ok = false, "{} gone", "link");
            tracing::error!(target: "a::b", error = &*error, part = ?Some(1));
            let _outer = tracing::error_span!("agent", node = "edge-2").entered();
            let _inner = tracing::info_span!("pod", number = 7).entered();
            tracing::info!(number = 8, "within");
        });
        let text = buffer.text();
        let mut lines = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let (first, second) = (lines.next().unwrap(), lines.next().unwrap());
        let third = lines.next().unwrap();
        assert_eq!(
            (&third["message"], &third["fields"]),
            (&json!("within"), &json!({"node": "edge-2", "number": 8}))
        );
        assert_eq!(lines.next(), None);
        first["timestamp"]
            .as_str()
            .unwrap()
            .parse::<jiff::Timestamp>()
            .unwrap();
        assert_eq!(
            (&first["level"], &first["target"], &first["message"]),
            (
                &json!("WARN"),
                &json!("agent::log::tests"),
                &json!("link gone")
            )
        );
        let fields = json!({"buffer_is": "7", "node": "edge-1", "ok": false, "tries": 3});
        assert_eq!(first["fields"], fields);
        assert_eq!(
            (&second["level"], &second["target"]),
            (&json!("ERROR"), &json!("a::b"))
        );
        assert_eq!(
            second["fields"],
            json!({"error": "no answer: no \"route\"\n", "part": "Some(1)"})
        );
        assert_eq!(second["message"], "");
    }
}
