//! The fields of a line for people: as tracing-subscriber writes them, but for errors, whose causes stand behind them in one text.

use std::{error::Error, fmt};

use tracing::field::{Field, Visit};
use tracing_subscriber::{
    field::{RecordFields, VisitOutput},
    fmt::{
        FormatFields,
        format::{DefaultVisitor, Writer},
    },
};
use wire::text::{printable_lines, with_causes};

/// Formats the fields of a line.
pub(super) struct TextFields;

impl<'w> FormatFields<'w> for TextFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut visitor = TextVisitor(DefaultVisitor::new(writer, true));
        fields.record(&mut visitor);
        visitor.0.finish()
    }
}

struct TextVisitor<'w>(DefaultVisitor<'w>);

impl Visit for TextVisitor<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.record_debug(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.record_str(field, value);
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        // the causes may contain text of peers
        let text = printable_lines(&with_causes(value));
        self.0.record_debug(field, &format_args!("{text}"));
    }
}

#[cfg(test)]
mod tests {
    use testkit::LogBuffer;
    use tracing_subscriber::prelude::*;

    use super::*;

    #[test]
    fn the_causes_of_an_error_are_told_once_behind_it() {
        let buffer = LogBuffer::default();
        let writer = buffer.clone();
        let lines = tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .without_time()
            .with_target(false);
        let lines = lines
            .fmt_fields(TextFields)
            .with_writer(move || writer.clone());
        let cause = std::io::Error::other("closed\u{1b}[2J");
        let error = anyhow::anyhow!(cause)
            .context("IO error: closed\u{1b}[2J")
            .context("no link");
        let error: Box<dyn Error> = error.into();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), || {
            tracing::warn!(times = 2, name = "a b", error = &*error, "not yet");
        });
        assert_eq!(
            buffer.text(),
            " WARN not yet times=2 name=\"a b\" error=no link: IO error: closed\u{fffd}[2J\n"
        );
    }
}
