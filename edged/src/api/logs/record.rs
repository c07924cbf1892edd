//! Parses CRI log records, `<time> <stdout|stderr> <P|F[:…]> <content>`, and prints them. Pure.

use bytes::{BufMut, BytesMut};
use jiff::Timestamp;

use super::options::Options;

/// Digits of a second's fraction in a printed time.
const FRACTION_DIGITS: usize = 9;

/// A CRI log record.
#[derive(Debug, PartialEq, Eq)]
struct Record<'a> {
    time: &'a str,
    /// Whether the line continues in the next record.
    partial: bool,
    content: &'a [u8],
}

/// Parses a line without its newline; returns `None` if it is no record.
fn parse(line: &[u8]) -> Option<Record<'_>> {
    let mut parts = line.splitn(4, |byte| *byte == b' ');
    let time = std::str::from_utf8(parts.next()?).ok()?;
    if !matches!(parts.next()?, b"stdout" | b"stderr") {
        return None;
    }
    let partial = match parts.next()?.split(|byte| *byte == b':').next()? {
        b"P" => true,
        b"F" => false,
        _ => return None,
    };
    Some(Record {
        time,
        partial,
        content: parts.next()?,
    })
}

/// Returns the same time with nine digits of its fraction and its own UTC offset.
fn with_nanoseconds(time: &str) -> String {
    let end = time
        .rfind(['Z', '+', '-'])
        .filter(|end| *end > "2006-01-02".len())
        .unwrap_or(time.len());
    let (seconds, zone) = time.split_at(end);
    let (seconds, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
    format!("{seconds}.{fraction:0<FRACTION_DIGITS$.FRACTION_DIGITS$}{zone}")
}

/// Converts records to the text of a response.
#[derive(Debug)]
pub(super) struct Printer {
    timestamps: bool,
    since: Option<Timestamp>,
    /// How many bytes may still be written; `None` for no limit.
    left: Option<u64>,
    /// Whether the next record begins a line.
    at_line_start: bool,
}

impl Printer {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            timestamps: options.timestamps,
            since: options.since,
            left: options.limit,
            at_line_start: true,
        }
    }

    /// Reports whether the limit of bytes is reached.
    pub(super) fn is_full(&self) -> bool {
        self.left == Some(0)
    }

    /// Appends a line of the file, given without its newline, to `out`.
    pub(super) fn line(&mut self, line: &[u8], out: &mut BytesMut) {
        let Some(record) = parse(line) else { return };
        let Ok(time) = record.time.parse::<Timestamp>() else {
            return;
        };
        if self.since.is_some_and(|since| time < since) {
            return;
        }
        if self.timestamps && self.at_line_start {
            self.put(with_nanoseconds(record.time).as_bytes(), out);
            self.put(b" ", out);
        }
        self.put(record.content, out);
        if !record.partial {
            self.put(b"\n", out);
        }
        self.at_line_start = !record.partial;
    }

    fn put(&mut self, bytes: &[u8], out: &mut BytesMut) {
        let length = match &mut self.left {
            Some(left) => {
                let length = usize::try_from(*left)
                    .unwrap_or(usize::MAX)
                    .min(bytes.len());
                *left = left.saturating_sub(length as u64);
                length
            }
            None => bytes.len(),
        };
        out.put_slice(&bytes[..length]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &[&str] = &[
        "2016-10-06T00:17:09.669794202Z stdout F one",
        "2016-10-06T00:17:10.1Z stderr P two, ",
        "2016-10-06T00:17:11+02:00 stderr F:tag in parts",
        "not a record",
        "2016-10-06T00:17:12Z stdin F no stream",
        "2016-10-06T00:17:13Z stdout F ",
        "2016-10-06T02:17:14.5+02:00 stdout F  spaces  ",
    ];

    fn render(options: &Options) -> String {
        let (mut printer, mut out) = (Printer::new(options), BytesMut::new());
        LOG.iter()
            .for_each(|line| printer.line(line.as_bytes(), &mut out));
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[test]
    fn partial_records_are_joined_and_invalid_lines_skipped() {
        assert_eq!(
            render(&Options::default()),
            "one\ntwo, in parts\n\n spaces  \n"
        );
    }

    #[test]
    fn timestamps_have_nine_digits_and_are_at_line_starts() {
        let text = render(&Options {
            timestamps: true,
            ..Options::default()
        });
        let expected = "2016-10-06T00:17:09.669794202Z one\n2016-10-06T00:17:10.100000000Z two, in parts\n\
            2016-10-06T00:17:13.000000000Z \n2016-10-06T02:17:14.500000000+02:00  spaces  \n";
        assert_eq!(text, expected);
    }

    #[test]
    fn since_compares_timestamps_not_text() {
        let since = "2016-10-06T00:17:13.5Z".parse().ok();
        assert_eq!(
            render(&Options {
                since,
                ..Options::default()
            }),
            " spaces  \n"
        );
    }

    #[test]
    fn byte_limit_counts_output_and_cuts_within_a_line() {
        let limited = |limit, timestamps| {
            render(&Options {
                limit: Some(limit),
                timestamps,
                ..Options::default()
            })
        };
        assert_eq!(limited(6, false), "one\ntw");
        assert_eq!(limited(24, true), "2016-10-06T00:17:09.6697");
        assert_eq!(limited(10_000, false), render(&Options::default()));
    }
}
