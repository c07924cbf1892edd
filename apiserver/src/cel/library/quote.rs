//! Texts in quotation marks.

/// Returns a text as `strings.quote` writes it.
pub(super) fn quote(text: &str) -> String {
    write_quoted(text, |_| false)
}

/// Returns a text as Go writes it (`%q`).
pub(super) fn go_quoted(text: &str) -> String {
    write_quoted(text, char::is_control)
}

fn write_quoted(text: &str, is_escaped: impl Fn(char) -> bool) -> String {
    let mut written = String::with_capacity(text.len() + 2);
    written.push('"');
    for char in text.chars() {
        match char {
            '\x07' => written.push_str("\\a"),
            '\x08' => written.push_str("\\b"),
            '\x0c' => written.push_str("\\f"),
            '\n' => written.push_str("\\n"),
            '\r' => written.push_str("\\r"),
            '\t' => written.push_str("\\t"),
            '\x0b' => written.push_str("\\v"),
            '\\' => written.push_str("\\\\"),
            '"' => written.push_str("\\\""),
            char if is_escaped(char) && char.is_ascii() => {
                written.push_str(&format!("\\x{:02x}", u32::from(char)));
            }
            char if is_escaped(char) => written.push_str(&format!("\\u{:04x}", u32::from(char))),
            char => written.push(char),
        }
    }
    written.push('"');
    written
}
