//! Records of a log as CRI has them, `<time> <stdout|stderr> <P|F[:…]> <content>`, and what is shown of them. Pure.

use bytes::{BufMut, BytesMut};
use jiff::Timestamp;

use super::options::Options;

/// Digits of a second's fraction that are shown.
const FRACTION: usize = 9;

/// One record.
#[derive(Debug, PartialEq, Eq)]
struct Record<'a> {
    time: &'a str,
    /// Whether the line goes on in the next record.
    partial: bool,
    content: &'a [u8],
}

/// From a line without its end; `None`: it is no record.
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
    Some(Record { time, partial, content: parts.next()? })
}

/// The same time with all nine digits of its fraction, and its own offset.
fn fixed(time: &str) -> String {
    let end = time.rfind(['Z', '+', '-']).filter(|end| *end > "2006-01-02".len()).unwrap_or(time.len());
    let (seconds, zone) = time.split_at(end);
    let (seconds, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
    format!("{seconds}.{fraction:0<FRACTION$.FRACTION$}{zone}")
}

/// Makes text of records.
#[derive(Debug)]
pub(super) struct Printer {
    timestamps: bool,
    since: Option<Timestamp>,
    /// Bytes that may still be written.
    left: Option<u64>,
    /// Whether a record begins a line.
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

    /// Whether nothing more may be written.
    pub(super) fn is_full(&self) -> bool {
        self.left == Some(0)
    }

    /// Adds what is shown of a line of the file, which has no line end.
    pub(super) fn line(&mut self, line: &[u8], out: &mut BytesMut) {
        let Some(record) = parse(line) else { return };
        let Ok(time) = record.time.parse::<Timestamp>() else { return };
        if self.since.is_some_and(|since| time < since) {
            return;
        }
        if self.timestamps && self.at_line_start {
            self.put(fixed(record.time).as_bytes(), out);
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
                let length = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
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

    fn shown(options: &Options) -> String {
        let (mut printer, mut out) = (Printer::new(options), BytesMut::new());
        LOG.iter().for_each(|line| printer.line(line.as_bytes(), &mut out));
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[test]
    fn parts_of_a_line_are_put_together_and_what_is_no_record_is_not_shown() {
        assert_eq!(shown(&Options::default()), "one\ntwo, in parts\n\n spaces  \n");
    }

    #[test]
    fn times_have_nine_digits_and_stand_where_lines_begin() {
        let text = shown(&Options { timestamps: true, ..Options::default() });
        let expected = "2016-10-06T00:17:09.669794202Z one\n2016-10-06T00:17:10.100000000Z two, in parts\n\
            2016-10-06T00:17:13.000000000Z \n2016-10-06T02:17:14.500000000+02:00  spaces  \n";
        assert_eq!(text, expected);
    }

    #[test]
    fn older_records_are_left_out_by_their_instant() {
        let since = "2016-10-06T00:17:13.5Z".parse().ok();
        assert_eq!(shown(&Options { since, ..Options::default() }), " spaces  \n");
    }

    #[test]
    fn the_limit_counts_what_is_shown_and_cuts_within_a_line() {
        let limited =
            |limit, timestamps| shown(&Options { limit: Some(limit), timestamps, ..Options::default() });
        assert_eq!(limited(6, false), "one\ntw");
        assert_eq!(limited(24, true), "2016-10-06T00:17:09.6697");
        assert_eq!(limited(10_000, false), shown(&Options::default()));
    }
}
