//! Cleans peers' texts for terminals and logs, so that they cannot move the cursor, colour lines or hide other text.

use std::{error::Error, fmt::Display, iter::successors};

use time::OffsetDateTime;

/// The replacement for a character that is not shown.
const HIDDEN: char = '\u{FFFD}';

/// Replaces control characters, with which escape sequences begin, and marks that change the writing direction.
pub fn printable(text: &str) -> String {
    text.chars()
        .map(|letter| if is_shown(letter) { letter } else { HIDDEN })
        .collect()
}

/// Cleans a text of several lines; line ends and tabs stay.
pub fn printable_lines(text: &str) -> String {
    let shown = |letter: char| matches!(letter, '\n' | '\t') || is_shown(letter);
    text.chars()
        .map(|letter| if shown(letter) { letter } else { HIDDEN })
        .collect()
}

/// Returns the first `limit` bytes of a response as printable text.
pub fn printable_bytes(bytes: &[u8], limit: usize) -> String {
    printable(String::from_utf8_lossy(&bytes[..bytes.len().min(limit)]).trim())
}

fn is_shown(letter: char) -> bool {
    let turns = matches!(letter, '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}');
    !letter.is_control() && !turns && !matches!(letter, '\u{2028}' | '\u{2029}')
}

/// The longest part of a message's words that is repeated in a log or an answer, characters.
const MAX_WORD: usize = 200;

/// Returns the beginning of a peer's text, as much as may be repeated in a log or an answer.
pub fn short(text: &str) -> String {
    text.chars().take(MAX_WORD).collect()
}

/// Returns the beginning of a peer's text, cleaned for a terminal or a log.
pub fn printable_short(text: impl Display) -> String {
    printable(&short(&text.to_string()))
}

/// Returns a number with its noun, which takes an `s` in the plural.
pub fn count(number: impl Display + PartialEq + From<u8>, noun: &str) -> String {
    let ending = if number == 1.into() { "" } else { "s" };
    format!("{number} {noun}{ending}")
}

/// Returns a duration as an age, in one unit, as kubectl does.
pub fn age(seconds: i64) -> String {
    match seconds.max(0) {
        seconds @ 0..120 => format!("{seconds}s"),
        seconds @ 120..7200 => format!("{}m", seconds / 60),
        seconds @ 7200..172_800 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// What separates the cause and the cure in the text of an error.
const CURE: &str = "; ";

/// Returns an error and its causes in one line, then their cures: a text may be `what is wrong; cure`. A cause is skipped if its text is
/// part of the text before it: many errors repeat the text of their cause.
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let split = |text: &str| {
        let (what, cure) = text.split_once(CURE).unwrap_or((text, ""));
        (what.to_owned(), cure.to_owned())
    };
    let (mut what, mut cure) = split(&own_text(error));
    for cause in successors(error.source(), |&cause| cause.source()) {
        let cause = own_text(cause);
        let (inner, inner_cure) = split(&cause);
        if cure.contains(&cause) || (what.contains(&inner) && cure.contains(&inner_cure)) {
            continue;
        }
        what = format!("{what}: {inner}");
        cure = match (inner_cure.is_empty(), cure.is_empty()) {
            (true, _) => cure,
            (_, true) => inner_cure,
            _ => format!("{inner_cure}{CURE}{cure}"),
        };
    }
    match cure.is_empty() {
        true => what,
        false => format!("{what}{CURE}{cure}"),
    }
}

/// Returns an error's text without the `Debug` text of its cause, which kube's errors repeat: `ApiError: text: Conflict (Status { … })`.
fn own_text(error: &(dyn Error + 'static)) -> String {
    let text = readable_times(error.to_string());
    match error.source() {
        Some(cause) if text.ends_with(')') => text
            .strip_suffix(&format!(" ({cause:?})"))
            .map_or_else(|| text.clone(), str::to_owned),
        _ => text,
    }
}

/// Replaces the seconds since 1970 in rustls's texts about certificates, which mark the first of them with `(UNIX)`.
fn readable_times(text: String) -> String {
    const MARK: &str = " (UNIX)";
    const BEFORE: [&str; 3] = [
        "verification time ",
        "not valid after ",
        "not valid before ",
    ];
    if !text.contains(MARK) {
        return text;
    }
    BEFORE.iter().fold(text.replace(MARK, ""), |text, before| {
        let Some((start, rest)) = text.split_once(before) else {
            return text;
        };
        let end = rest.find(|letter: char| !letter.is_ascii_digit());
        let (seconds, rest) = rest.split_at(end.unwrap_or(rest.len()));
        let time = seconds.parse().ok();
        let time = time.and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok());
        let time = time.map_or_else(
            || seconds.to_owned(),
            |time| {
                let (hour, minute, second) = time.to_hms();
                format!("{} {hour:02}:{minute:02}:{second:02} UTC", time.date())
            },
        );
        format!("{start}{before}{time}{rest}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_noun_is_in_the_plural_except_after_one() {
        assert_eq!(
            [0, 1, 2].map(|number| count(number, "node")),
            ["0 nodes", "1 node", "2 nodes"]
        );
    }

    #[test]
    fn what_a_peer_says_moves_no_cursor() {
        for (said, shown) in [
            ("token expired", "token expired"),
            ("naïve – ok", "naïve – ok"),
            (
                "\u{1b}[2J\u{1b}]0;title\u{7}done",
                "\u{fffd}[2J\u{fffd}]0;title\u{fffd}done",
            ),
            (
                "a\r\nb\tc\u{9b}31m",
                "a\u{fffd}\u{fffd}b\u{fffd}c\u{fffd}31m",
            ),
            ("x\u{202e}y\u{2066}z", "x\u{fffd}y\u{fffd}z"),
        ] {
            assert_eq!(printable(said), shown);
        }
        assert_eq!(printable_short("a\r".repeat(200)), "a\u{fffd}".repeat(100));
        assert_eq!(printable_lines("a\n\tb\u{1b}[1m"), "a\n\tb\u{fffd}[1m");
        assert_eq!(
            printable_bytes(b" refused\x1b[1m and more \n", 9),
            "refused\u{fffd}"
        );
    }

    #[test]
    fn a_cause_is_told_once() {
        #[derive(Debug)]
        struct Link(&'static str, Option<Box<Link>>);
        impl Display for Link {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.0)
            }
        }
        impl Error for Link {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                self.1.as_deref().map(|cause| cause as _)
            }
        }
        let chain = |texts: [&'static str; 3]| {
            let last = texts
                .into_iter()
                .rev()
                .fold(None, |cause, text| Some(Box::new(Link(text, cause))));
            with_causes(&*last.unwrap())
        };
        assert_eq!(
            chain(["no link", "IO error: closed", "closed"]),
            "no link: IO error: closed"
        );
        assert_eq!(
            chain(["closed", "closed", "by the peer"]),
            "closed: by the peer"
        );
        assert_eq!(
            chain(["a link", "no route", "no network"]),
            "a link: no route: no network"
        );
        assert_eq!(
            chain([
                "no store; choose another one",
                "no lock; mount its disk; retry",
                "read-only"
            ]),
            "no store: no lock: read-only; mount its disk; retry; choose another one"
        );
        assert_eq!(
            chain([
                "cannot read: no file; choose one",
                "no file; choose one",
                "no file"
            ]),
            "cannot read: no file; choose one"
        );
        assert_eq!(
            chain(["no link; join again: closed", "closed", "closed"]),
            "no link; join again: closed"
        );
        assert_eq!(
            chain([
                "no link",
                "ApiError: gone: NotFound (Link(\"gone: NotFound\", None))",
                "gone: NotFound"
            ]),
            "no link: ApiError: gone: NotFound"
        );
    }

    #[test]
    fn times_in_errors_of_certificates_are_readable() {
        let of_rustls = "certificate expired: verification time 1795000000 (UNIX), but certificate is not valid after 1794000000 (1000000 seconds ago)";
        let expected = "certificate expired: verification time 2026-11-18 11:06:40 UTC, but certificate is not valid after \
                        2026-11-06 21:20:00 UTC (1000000 seconds ago)";
        assert_eq!(readable_times(of_rustls.to_owned()), expected);
        assert_eq!(
            readable_times("not valid after 17".to_owned()),
            "not valid after 17"
        );
    }
}
