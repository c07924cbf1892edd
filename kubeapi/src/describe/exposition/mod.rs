//! Writes metrics as text, in the exposition format of Prometheus, version 0.0.4
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>). Pure.
//!
//! Written by hand, since names and timestamps must be those of the API server and the kubelet: the well-maintained libraries write
//! OpenMetrics, in which a counter's family is named without `_total`, and have no timestamps.

use std::fmt::Write;

use jiff::Timestamp;

mod histogram;

pub use self::histogram::Histogram;

/// The media type of the text.
pub const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A label's name and value.
pub type Label<'a> = (&'static str, &'a str);

/// The text that is being written.
#[derive(Debug, Default)]
pub struct Text(String);

/// All samples of one metric name, written one after the other. A name without samples is not written.
#[derive(Debug)]
pub struct Family<'a> {
    text: &'a mut String,
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    begun: bool,
}

impl Text {
    /// Begins a counter, which only grows.
    pub fn counter(&mut self, name: &'static str, help: &'static str) -> Family<'_> {
        self.family(name, "counter", help)
    }

    /// Begins a gauge, which goes up and down.
    pub fn gauge(&mut self, name: &'static str, help: &'static str) -> Family<'_> {
        self.family(name, "gauge", help)
    }

    /// Begins a histogram of durations.
    pub fn histogram(&mut self, name: &'static str, help: &'static str) -> Family<'_> {
        self.family(name, "histogram", help)
    }

    fn family(&mut self, name: &'static str, kind: &'static str, help: &'static str) -> Family<'_> {
        Family {
            text: &mut self.0,
            name,
            kind,
            help,
            begun: false,
        }
    }

    /// Returns the whole text. Each name must have been begun only once.
    pub fn into_string(self) -> String {
        self.0
    }
}

impl Family<'_> {
    /// Writes the `HELP` and `TYPE` lines once.
    fn begin(&mut self) {
        if !self.begun {
            // Writing to a `String` does not fail.
            let _ = writeln!(
                self.text,
                "# HELP {} {}\n# TYPE {} {}",
                self.name, self.help, self.name, self.kind
            );
            self.begun = true;
        }
    }

    /// Writes a sample without a timestamp, which means now.
    pub fn sample(&mut self, labels: &[Label<'_>], value: f64) {
        self.write("", labels, None, value, None);
    }

    /// Writes a sample with a timestamp.
    pub fn sample_at(&mut self, labels: &[Label<'_>], value: f64, at: Timestamp) {
        self.write("", labels, None, value, Some(at));
    }

    /// Writes all series of a histogram.
    pub fn buckets(&mut self, labels: &[Label<'_>], histogram: &Histogram) {
        for (bound, count) in histogram.cumulative() {
            self.write(
                "_bucket",
                labels,
                Some(&bound.to_string()),
                number(count),
                None,
            );
        }
        self.write(
            "_bucket",
            labels,
            Some("+Inf"),
            number(histogram.count()),
            None,
        );
        self.write("_sum", labels, None, histogram.sum(), None);
        self.write("_count", labels, None, number(histogram.count()), None);
    }

    fn write(
        &mut self,
        suffix: &str,
        labels: &[Label<'_>],
        bound: Option<&str>,
        value: f64,
        at: Option<Timestamp>,
    ) {
        self.begin();
        let (text, name) = (&mut *self.text, self.name);
        let _ = write!(text, "{name}{suffix}");
        let mut separator = '{';
        for (label, value) in labels
            .iter()
            .copied()
            .chain(bound.map(|bound| ("le", bound)))
        {
            let _ = write!(text, "{separator}{label}=\"");
            escape(text, value);
            text.push('"');
            separator = ',';
        }
        if separator == ',' {
            text.push('}');
        }
        let _ = write!(text, " {value}");
        if let Some(at) = at {
            let _ = write!(text, " {}", at.as_millisecond());
        }
        text.push('\n');
    }
}

fn escape(text: &mut String, value: &str) {
    for letter in value.chars() {
        match letter {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            other => text.push(other),
        }
    }
}

/// Returns a count as a sample's value: exact up to 2^53, as everywhere in Prometheus.
#[allow(clippy::cast_precision_loss, reason = "samples are doubles")]
pub fn number(count: u64) -> f64 {
    count as f64
}

/// Converts nanoseconds to seconds.
pub fn seconds(nanos: u64) -> f64 {
    number(nanos) / 1e9
}

/// Converts a time to Unix seconds.
pub fn unix(at: Timestamp) -> f64 {
    std::time::Duration::try_from(at.duration_since(Timestamp::UNIX_EPOCH))
        .unwrap_or_default()
        .as_secs_f64()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn families_are_written_as_scrapers_read_them() {
        let mut text = Text::default();
        text.gauge("unused", "Nothing.");
        let mut family = text.counter("a_total", "All a.");
        family.sample(&[], 3.0);
        family.sample_at(
            &[("pod", "p\"\\\n"), ("z", "")],
            0.25,
            Timestamp::from_millisecond(1_500).unwrap(),
        );
        let mut histogram = Histogram::new(&[0.5, 1.0]);
        histogram.observe(Duration::from_millis(750));
        text.histogram("b_seconds", "All b.")
            .buckets(&[("c", "d")], &histogram);
        insta::assert_snapshot!(text.into_string(), @r#"
        # HELP a_total All a.
        # TYPE a_total counter
        a_total 3
        a_total{pod="p\"\\\n",z=""} 0.25 1500
        # HELP b_seconds All b.
        # TYPE b_seconds histogram
        b_seconds_bucket{c="d",le="0.5"} 0
        b_seconds_bucket{c="d",le="1"} 1
        b_seconds_bucket{c="d",le="+Inf"} 1
        b_seconds_sum{c="d"} 0.75
        b_seconds_count{c="d"} 1
        "#);
    }

    #[test]
    fn large_figures_are_written_in_full() {
        let mut text = Text::default();
        text.gauge("g", "G.")
            .sample(&[], number(9_007_199_254_740_992));
        assert!(text.into_string().ends_with("g 9007199254740992\n"));
    }
}
