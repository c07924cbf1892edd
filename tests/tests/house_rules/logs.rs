//! Log lines are found by searching for them: a warning begins with what failed, and carries the error in a field.

use super::{is_test, none, root, sources};

/// How a message of `warn!` or `error!` may begin, before a verb.
const FAILURES: [&str; 2] = ["failed to ", "cannot "];
/// What the first clause of all other messages says of the noun that it begins with. Good news ("restored") is `info!`.
const STATES: [&str; 41] = [
    "closed",
    "damaged",
    "denied",
    "detected",
    "disabled",
    "dropped",
    "ended",
    "evicted",
    "exceeded",
    "expired",
    "exposed",
    "failed",
    "full",
    "hangs",
    "ignored",
    "interrupted",
    "invalid",
    "lost",
    "malformed",
    "not found",
    "not responding",
    "not running",
    "offline",
    "panicked",
    "postponed",
    "reached",
    "refused",
    "rejected",
    "removed",
    "set aside",
    "skipped",
    "stalled",
    "suppressed",
    "taken over",
    "timed out",
    "too large",
    "truncated",
    "under resource pressure",
    "unsupported",
    "used",
    "violated",
];
/// Words that a message of any level does not begin with.
const NO_NOUNS: [&str; 17] = [
    "a", "an", "the", "it", "its", "this", "that", "these", "those", "there", "they", "what",
    "which", "who", "whoever", "nobody", "not",
];
/// Words and phrases that no message contains; `docs/README.md` is written with the usual ones as well.
const BANNED: [&str; 22] = [
    "anew",
    "be had",
    "beyond",
    "cut short",
    "goes on",
    "gone",
    "is no matter",
    "is no more",
    "is over",
    "kept",
    "left out",
    "let be",
    "made",
    "nobody",
    "so long",
    "so many",
    "stands",
    "taken away",
    "taken back",
    "told",
    "what",
    "whoever",
];
/// Names of fields that contain an error, which is called `error`, or the `reason` of a refusal.
const UNNAMED_ERRORS: [&str; 8] = [
    "why", "failure", "fault", "refusal", "refused", "damage", "err", "cause",
];

/// A call of a macro of `tracing`.
#[derive(Debug, Default)]
struct LogLine {
    is_warning: bool,
    fields: Vec<String>,
    message: String,
}

impl LogLine {
    /// Reads the arguments of a macro.
    fn parse(arguments: &str, is_warning: bool) -> Self {
        let mut line = Self {
            is_warning,
            ..Self::default()
        };
        for argument in split(arguments) {
            let argument = argument.trim();
            match name_and_value(argument) {
                Some((name, _)) => line.fields.push(name.trim().trim_matches('"').to_owned()),
                None if argument.starts_with('"') => {
                    line.message = unwrap_literal(argument.trim_matches('"'));
                    // what follows are arguments of the text
                    break;
                }
                None => {
                    let name = argument.trim_start_matches(['%', '?']);
                    let name = name.rsplit('.').next().unwrap_or(name);
                    line.fields.push(name.to_owned());
                }
            }
        }
        line
    }

    fn has_field(&self, name: &str) -> bool {
        self.fields.iter().any(|field| field == name)
    }

    /// Returns the rule that the line breaks.
    fn fault(&self) -> Option<&'static str> {
        let clause = self
            .message
            .split([';', ':', '(', ','])
            .next()
            .unwrap_or_default();
        let first = clause.split(' ').next().unwrap_or_default().to_lowercase();
        if NO_NOUNS.contains(&first.as_str()) {
            return Some("begins without a noun");
        }
        if BANNED.iter().any(|phrase| has_words(&self.message, phrase)) {
            return Some("has a word that is not used");
        }
        if !self.is_warning {
            return None;
        }
        if self
            .fields
            .iter()
            .any(|field| UNNAMED_ERRORS.contains(&field.as_str()))
        {
            return Some("has an error in a field that is not called error (of a refusal: reason)");
        }
        if let Some(rest) = FAILURES
            .iter()
            .find_map(|words| self.message.strip_prefix(words))
        {
            return self.fault_of_failure(rest);
        }
        let is_state = |state: &&str| {
            clause
                .match_indices(*state)
                .any(|(at, _)| at > 0 && has_words(&clause[at - 1..], state))
        };
        if first.ends_with("ing") {
            Some("begins with a gerund")
        } else if !STATES.iter().any(is_state) {
            Some("says neither what failed nor what state something is in")
        } else {
            None
        }
    }

    /// Returns the rule that a line about a failure breaks; `rest` follows `failed to` or `cannot`.
    fn fault_of_failure(&self, rest: &str) -> Option<&'static str> {
        let says_cause = rest.contains(": ") || rest.contains(" in time");
        let is_policy = self.message.starts_with("cannot ");
        let begins_lower = rest.starts_with(|letter: char| letter.is_lowercase() || letter == '{');
        if !begins_lower {
            Some("has no verb after the first words")
        } else if self.has_field("reason") && !self.has_field("error") {
            Some("has its error in the field reason")
        } else if !is_policy && !says_cause && !self.has_field("error") {
            Some("has neither the field error nor a cause behind a colon")
        } else {
            None
        }
    }
}

/// Whether `text` has `phrase` as whole words.
fn has_words(text: &str, phrase: &str) -> bool {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '{';
    text.match_indices(phrase).any(|(at, _)| {
        !text[..at].ends_with(is_word) && !text[at + phrase.len()..].starts_with(is_word)
    })
}

/// The text of a literal that a backslash continues on the next line.
fn unwrap_literal(literal: &str) -> String {
    let mut parts = literal.split("\\\n");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.trim_start())
}

/// The length of the string literal that `text` begins with.
fn literal(text: &str) -> usize {
    let mut escaped = false;
    let end = text.char_indices().skip(1).find(|(_, letter)| {
        let ends = *letter == '"' && !escaped;
        escaped = *letter == '\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}

/// Positions of characters of `text` that are outside literals and brackets that begin in it, until a bracket closes that does not.
fn top_level(text: &str) -> (Vec<(usize, char)>, usize) {
    let (mut found, mut depth, mut at) = (Vec::new(), 0_usize, 0);
    while let Some(letter) = text[at..].chars().next() {
        match letter {
            '"' => {
                at += literal(&text[at..]);
                continue;
            }
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth == 0 => return (found, at),
            ')' | ']' | '}' => depth -= 1,
            letter if depth == 0 => found.push((at, letter)),
            _ => {}
        }
        at += letter.len_utf8();
    }
    (found, at)
}

/// The arguments of a macro; `text` follows its bracket.
fn split(text: &str) -> Vec<&str> {
    let (letters, end) = top_level(text);
    let mut arguments = Vec::new();
    let mut begin = 0;
    for (at, _) in letters.into_iter().filter(|(_, letter)| *letter == ',') {
        arguments.push(&text[begin..at]);
        begin = at + 1;
    }
    arguments.push(&text[begin..end]);
    arguments
}

/// The two sides of `name = value` and `target: value`.
fn name_and_value(argument: &str) -> Option<(&str, &str)> {
    let (letters, _) = top_level(argument);
    letters
        .into_iter()
        .find(|(at, letter)| match letter {
            '=' => true,
            ':' => {
                argument[..*at].chars().all(char::is_alphabetic)
                    && !argument[at + 1..].starts_with(':')
            }
            _ => false,
        })
        .map(|(at, _)| (&argument[..at], &argument[at + 1..]))
}

/// The log lines of a source, without those of its tests, each with its line number.
fn log_lines(text: &str) -> Vec<(usize, LogLine)> {
    let text = text
        .split("#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or_default();
    let mut found = Vec::new();
    for (name, is_warning) in [
        ("warn!(", true),
        ("error!(", true),
        ("info!(", false),
        ("debug!(", false),
    ] {
        for (at, _) in text.match_indices(name) {
            let before = text[..at].chars().next_back();
            if before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_') {
                continue;
            }
            let number = text[..at].matches('\n').count() + 1;
            found.push((number, LogLine::parse(&text[at + name.len()..], is_warning)));
        }
    }
    found
}

#[test]
fn log_lines_begin_with_what_failed_and_have_the_error_in_a_field() {
    let (mut count, mut wrong) = (0, Vec::new());
    let is_shipped = |path: &std::path::Path| {
        let of_tests = ["tests", "e2e", "bench", "fuzz", "simulated", "testkit"];
        !is_test(path)
            && !of_tests
                .iter()
                .any(|member| path.starts_with(root().join(member)))
    };
    for (path, text) in sources().into_iter().filter(|(path, _)| is_shipped(path)) {
        for (number, line) in log_lines(&text) {
            count += 1;
            if let Some(fault) = line.fault() {
                let path = path.strip_prefix(root()).unwrap_or(&path);
                wrong.push(format!(
                    "{}:{number}: {fault}: {:?}",
                    path.display(),
                    line.message
                ));
            }
        }
    }
    assert!(count > 400, "{count} log lines were found");
    none(
        "a log line is `failed to VERB NOUN`, `cannot VERB NOUN` or `NOUN STATE`, with the error in the field `error`",
        wrong,
    );
}

#[test]
fn log_rule_accepts_and_rejects_lines() {
    for (good, arguments) in [
        (true, r#"error, "failed to watch pods; retrying""#),
        (true, r#"%peer, "connection to CloudHub lost""#),
        (
            true,
            r#""failed to send message: it is larger than the cloud accepts""#,
        ),
        (true, r#""failed to write all messages in time; resending""#),
        (
            true,
            r#"times, error = error as &dyn Error, "failed to {what}; retrying""#,
        ),
        (
            true,
            r#"target: "audit", "audit-violations" = found, "Pod Security audit level violated""#,
        ),
        (
            true,
            r#"device = %id, error = why, "cannot apply a desired value; correct the device's object""#,
        ),
        (false, r#""watching pods""#),
        (false, r#""failed to watch pods""#),
        (false, r#""it is tried again""#),
        (false, r#""not stopped""#),
        (false, r#""the node is short of {resource}""#),
        (false, r#"why, "failed to call webhook; skipped""#),
        (false, r#"%failure, "connection lost""#),
        (false, r#"reason = error.text(), "failed to read pods""#),
        (false, r#""{what}""#),
        (false, r#"%server, "connection to CloudHub restored""#),
        (
            false,
            r#""queued messages for the cloud can be written again""#,
        ),
        (false, r#""stream tunnel not started: it is disabled""#),
        (false, r#""record left out""#),
    ] {
        let line = LogLine::parse(arguments, true);
        assert_eq!(
            line.fault().is_none(),
            good,
            "{arguments}: {:?}",
            line.fault()
        );
    }
    for (good, arguments) in [
        (true, r#"%address, "MetaServer listening""#),
        (true, r#"pod, "waiting for another agent to stop""#),
        (false, r#""a device is gone""#),
        (false, r#""the stream tunnel stands""#),
        (false, r#""mapper was told of its devices""#),
    ] {
        let line = LogLine::parse(arguments, false);
        assert_eq!(
            line.fault().is_none(),
            good,
            "{arguments}: {:?}",
            line.fault()
        );
    }
}
