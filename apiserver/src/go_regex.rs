//! Regular expressions as Go reads them (RE2), which those of others are written for: `\d`, `\w` and `\s` are of ASCII alone, and a
//! class has no classes in it.

use regex::{Regex, RegexBuilder};

/// Reads a pattern whose compiled form takes at most `limit` bytes. It runs in time linear to the text.
pub(crate) fn compile(pattern: &str, limit: usize) -> Result<Regex, regex::Error> {
    let mut builder = RegexBuilder::new(&translate(pattern));
    builder
        .size_limit(limit)
        .dfa_size_limit(limit)
        .nest_limit(128)
        .build()
}

/// The pattern in the words of the crate `regex`.
fn translate(pattern: &str) -> String {
    let mut written = String::with_capacity(pattern.len() + 16);
    let mut in_class = false;
    // `]` as the first in a class is no end
    let mut is_first = false;
    let mut chars = pattern.chars().peekable();
    while let Some(char) = chars.next() {
        let was_first = std::mem::take(&mut is_first);
        match char {
            '\\' => match chars.next() {
                Some(escaped) => written.push_str(&class(escaped, in_class)),
                None => written.push('\\'),
            },
            '[' if !in_class => {
                (in_class, is_first) = (true, true);
                written.push('[');
                if let Some(not) = chars.next_if_eq(&'^') {
                    written.push(not);
                }
            }
            '[' if chars.peek() == Some(&':') => {
                // a named class, to its end
                written.push('[');
                for char in chars.by_ref() {
                    written.push(char);
                    if char == ']' {
                        break;
                    }
                }
            }
            ']' if in_class && was_first => written.push_str("\\]"),
            ']' => {
                in_class = false;
                written.push(']');
            }
            '[' | '&' | '~' if in_class => {
                written.push('\\');
                written.push(char);
            }
            char => written.push(char),
        }
    }
    written
}

/// What stands after a backslash.
fn class(escaped: char, in_class: bool) -> String {
    let (not, name) = match escaped {
        'd' => ("", "digit"),
        'D' => ("^", "digit"),
        'w' => ("", "word"),
        'W' => ("^", "word"),
        's' => ("", "space"),
        'S' => ("^", "space"),
        'b' if !in_class => return "(?-u:\\b)".to_owned(),
        other => return format!("\\{other}"),
    };
    if in_class {
        format!("[:{not}{name}:]")
    } else {
        format!("[[:{not}{name}:]]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_in_go() {
        // pattern, text, whether it matches
        let cases = [
            (r"^\d+$", "123", true),
            (r"^\d+$", "١٢٣", false),
            (r"^\w+$", "a_1", true),
            (r"^\w+$", "é", false),
            (r"^\W$", "é", true),
            (r"^[\w.-]+$", "a.b-c", true),
            (r"^[^\d\s]+$", "ab", true),
            (r"^[^\d\s]+$", "a b", false),
            (r"^[\D]+$", "a", true),
            (r"^[[:alpha:]]+$", "ab", true),
            (r"^[a[b]+$", "a[b", true),
            (r"^[]a]+$", "]a", true),
            (r"^[^]a]+$", "]", false),
            (r"^[a&&b]+$", "a&b", true),
            (r"^[a~~b]+$", "a~", true),
            (r"\bab\b", "x ab y", true),
            (r"^\p{L}+$", "é", true),
            (r"^\x41\.\[\\$", r"A.[\", true),
            ("^é.$", "éü", true),
            (r"^a{2,3}$", "aaa", true),
        ];
        for (pattern, text, expected) in cases {
            let compiled = compile(pattern, 1 << 20).unwrap();
            assert_eq!(
                compiled.is_match(text),
                expected,
                "{pattern} {text} {}",
                translate(pattern)
            );
        }
        for wrong in ["(", "[a", "a**(?=b)", "(?<=a)b", "[z-a]", "a\\"] {
            assert!(compile(wrong, 1 << 20).is_err(), "{wrong}");
        }
    }
}
