//! Messages are matched exhaustively where they are handled: no arm catches all that is left, so that the compiler names every place that a
//! new kind of message must be added to.

use super::{is_test, none, root, sources};

/// The text with comments and what stands between quotes blanked out, so that brackets can be counted.
fn code(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let literal = match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '"' => quoted_length(rest),
            // a character, and no lifetime
            '\'' if rest[1..].starts_with('\\') => {
                2 + rest[2..].find('\'').map_or(0, |end| end + 1)
            }
            '\'' if rest.chars().nth(2) == Some('\'') => {
                rest.chars().take(3).map(char::len_utf8).sum()
            }
            _ => 0,
        };
        if literal == 0 {
            code.push(first);
            rest = &rest[first.len_utf8()..];
        } else {
            code.extend(
                rest[..literal]
                    .chars()
                    .map(|letter| if letter == '\n' { '\n' } else { ' ' }),
            );
            rest = &rest[literal..];
        }
    }
    code
}

/// The length of the string literal that `text` begins with.
fn quoted_length(text: &str) -> usize {
    let mut escaped = false;
    let end = text.char_indices().skip(1).find(|(_, letter)| {
        let ends = *letter == '"' && !escaped;
        escaped = *letter == '\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}

/// Where `wanted` stands first in `text`, outside all brackets that begin in it.
fn outside(text: &str, wanted: &[&str]) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, letter) in text.char_indices() {
        if depth == 0 && wanted.iter().any(|wanted| text[at..].starts_with(wanted)) {
            return Some(at);
        }
        match letter {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth == 0 => return None,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// The patterns of the arms of a `match`; `text` is what follows its opening brace.
fn patterns(mut text: &str) -> Vec<&str> {
    let mut patterns = Vec::new();
    while let Some(end) = outside(text, &["=>"]) {
        patterns.push(text[..end].trim());
        text = text[end + 2..].trim_start();
        if text.starts_with('{') {
            let Some(end) = outside(&text[1..], &["}"]) else {
                break;
            };
            text = text[end + 2..].trim_start().trim_start_matches(',');
        } else {
            let Some(end) = outside(text, &[","]) else {
                break;
            };
            text = &text[end + 1..];
        }
    }
    patterns
}

/// The lines of the `match`es over an enum called `name` that have an arm for whatever is left.
fn catch_alls(text: &str, name: &str) -> Vec<usize> {
    let code = code(text);
    let matches = code.match_indices("match ").filter(|(at, _)| {
        code[..*at]
            .chars()
            .next_back()
            .is_none_or(|before| !before.is_alphanumeric() && before != '_')
    });
    let found = matches.filter(|(at, _)| {
        let Some(begin) = outside(&code[*at..], &["{"]) else {
            return false;
        };
        let patterns = patterns(&code[at + begin + 1..]);
        let is_over = patterns
            .iter()
            .any(|pattern| pattern.trim_start_matches(['(', '&']).starts_with(name));
        let is_catch_all = |pattern: &&str| {
            pattern
                .chars()
                .all(|letter| letter.is_lowercase() || letter == '_' || letter.is_ascii_digit())
        };
        is_over && patterns.iter().any(is_catch_all)
    });
    found
        .map(|(at, _)| code[..at].matches('\n').count() + 1)
        .collect()
}

/// Where the agent decides what becomes of a message. Elsewhere it takes one kind of answer and refuses all others.
const DOWNSTREAM: [&str; 3] = [
    "agent/src/metamanager/task/mod.rs",
    "agent/src/metamanager/devices.rs",
    "agent/src/metamanager/unhandled/mod.rs",
];

#[test]
fn messages_are_matched_exhaustively() {
    let mut found = Vec::new();
    for (path, text) in sources().iter().filter(|(path, _)| !is_test(path)) {
        let code = text
            .split("#[cfg(test)]\nmod tests {")
            .next()
            .unwrap_or_default();
        let is_downstream = DOWNSTREAM.iter().any(|file| root().join(file) == *path);
        for name in ["Upstream::", "Downstream::"]
            .into_iter()
            .take(1 + usize::from(is_downstream))
        {
            let lines = catch_alls(code, name);
            found.extend(
                lines
                    .into_iter()
                    .map(|line| format!("{}:{line}", path.display())),
            );
        }
    }
    for file in DOWNSTREAM {
        assert!(root().join(file).exists(), "{file}");
    }
    none("a match over messages has an arm for each kind", found);
}

#[test]
fn an_arm_that_catches_all_is_found() {
    let text = "fn a(body: Upstream) {\n match body {\n Upstream::Ack { .. } => { '{'; \"}\" }\n // _ =>\n REST => {}\n}\n}";
    for (rest, lines) in [
        ("_", vec![2]),
        ("other", vec![2]),
        ("Upstream::Shutdown", vec![]),
    ] {
        assert_eq!(
            catch_alls(&text.replace("REST", rest), "Upstream::"),
            lines,
            "{rest}"
        );
    }
    assert_eq!(
        catch_alls(
            "match (body, a) { (Upstream::Shutdown, _) => 1, _ => 2 }",
            "Upstream::"
        ),
        [1]
    );
    assert!(
        catch_alls(
            "match a { Some(_) => Upstream::Shutdown, _ => b }",
            "Upstream::"
        )
        .is_empty()
    );
}
