//! The latest warnings and errors of this process, for `edge-agent status`.

use std::{borrow::Cow, collections::VecDeque, sync::LazyLock};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::{
    Layer,
    layer::{Context, Filter},
};
use wire::text::printable_lines;

use super::Line;

/// The most lines that are stored.
const MAX_LINES: usize = 50;
/// The most bytes of a line's text; a longer one is truncated.
const MAX_TEXT_BYTES: usize = 1024;

/// The field with the number of occurrences of a repeated fault (`limits::Repeated`).
const TIMES: &str = "times";
/// The field with the random delay before the next attempt.
const RETRY: &str = "retry_in";

static RECENT: LazyLock<Mutex<VecDeque<RecentLine>>> = LazyLock::new(Mutex::default);

/// A warning or an error of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecentLine {
    /// When it was last logged.
    pub(crate) time: String,
    /// `WARN` or `ERROR`.
    pub(crate) level: String,
    /// The module.
    pub(crate) target: String,
    /// The message with its fields.
    pub(crate) text: String,
    /// How often it happened.
    pub(crate) count: u64,
}

/// Returns the latest warnings and errors, the oldest first.
pub(crate) fn lines() -> Vec<RecentLine> {
    RECENT.lock().iter().cloned().collect()
}

/// Stores warnings and errors.
pub(super) struct RecentLines;

impl<S: Subscriber> Layer<S> for RecentLines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let mut line = Line::new(metadata.level().as_str(), metadata.target());
        event.record(&mut line);
        push(&mut RECENT.lock(), recent_line(line));
    }
}

/// Accepts warnings and errors.
pub(super) struct IsWarning;

impl<S> Filter<S> for IsWarning {
    fn enabled(&self, metadata: &tracing::Metadata<'_>, _: &Context<'_, S>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn max_level_hint(&self) -> Option<tracing::level_filters::LevelFilter> {
        Some(tracing::level_filters::LevelFilter::WARN)
    }
}

fn recent_line(line: Line<'_>) -> RecentLine {
    let value = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut text = line.message;
    // a warning about a repeated fault has the number of its occurrences
    let times = line.fields.iter().find(|(name, _)| *name == TIMES);
    let count = times.and_then(|(_, times)| times.as_u64()).unwrap_or(1);
    let is_stable = |name: &str| name != TIMES && name != RETRY;
    for (name, field) in line.fields.iter().filter(|(name, _)| is_stable(name)) {
        let name: &Cow<'_, str> = name;
        text.push_str(&format!(" {name}={}", value(field)));
    }
    // parts of it may come from peers
    let mut text = printable_lines(&text).replace('\n', " ");
    if text.len() > MAX_TEXT_BYTES {
        text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
        text.push('…');
    }
    RecentLine {
        time: line.timestamp,
        level: line.level.to_owned(),
        target: line.target.to_owned(),
        text,
        count,
    }
}

/// Adds a line. An equal one is replaced, so that a fault that repeats does not hide others.
fn push(lines: &mut VecDeque<RecentLine>, mut line: RecentLine) {
    let is_equal = |one: &RecentLine| (&one.target, &one.text) == (&line.target, &line.text);
    if let Some(place) = lines.iter().position(is_equal)
        && let Some(earlier) = lines.remove(place)
    {
        line.count = line.count.max(earlier.count + 1);
    }
    if lines.len() >= MAX_LINES {
        lines.pop_front();
    }
    lines.push_back(line);
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::prelude::*;

    use super::*;

    #[test]
    fn warnings_are_stored_with_their_fields_and_repetitions_are_counted() {
        let layer = RecentLines.with_filter(IsWarning);
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, || {
            for _ in 0..3 {
                tracing::warn!(
                    pod = "a\u{1b}[2J",
                    tries = 2,
                    "failed to start pod of this test"
                );
            }
            tracing::info!("pod of this test started");
        });
        let found = lines();
        let ours: Vec<&RecentLine> = found
            .iter()
            .filter(|line| line.text.contains("of this test"))
            .collect();
        assert_eq!(ours.len(), 1, "{found:?}");
        let text = "failed to start pod of this test pod=a\u{fffd}[2J tries=2";
        assert_eq!((ours[0].text.as_str(), ours[0].count), (text, 3));
        assert_eq!(ours[0].level, "WARN");
    }

    #[test]
    fn repeated_faults_are_one_line_each_with_their_number() {
        let mut all = VecDeque::new();
        for (error, times) in [("a", Some(1)), ("b", None), ("a", Some(12)), ("b", None)] {
            let mut line = Line::new("WARN", "agent");
            line.message = format!("failed to test error={error}");
            if let Some(times) = times {
                line.fields.insert(TIMES.into(), Value::from(times));
            }
            push(&mut all, recent_line(line));
        }
        let found: Vec<_> = all
            .iter()
            .map(|line| (line.text.as_str(), line.count))
            .collect();
        let expected = [
            ("failed to test error=a", 12),
            ("failed to test error=b", 2),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn lines_and_their_lengths_are_limited() {
        let mut all = VecDeque::new();
        for number in 0..200 {
            let mut line = Line::new("ERROR", "agent");
            line.message = format!("{number} {}", "ä".repeat(2000));
            push(&mut all, recent_line(line));
        }
        assert_eq!(all.len(), MAX_LINES);
        assert!(all.iter().all(|line| line.text.len() <= MAX_TEXT_BYTES + 3));
        assert!(all[0].text.starts_with("150 "));
    }
}
