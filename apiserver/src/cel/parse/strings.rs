//! Literals in quotes: strings and bytes, raw or with escapes, in one or three quotes.

/// The result of reading a literal in quotes.
pub(super) enum Quoted {
    /// A literal of this length in bytes.
    Whole { is_bytes: bool, length: usize },
    /// No literal: it has no end, or an escape that does not exist. The length of what was read.
    Broken(usize),
}

/// The parts of a literal.
struct Parts<'a> {
    is_raw: bool,
    is_bytes: bool,
    /// The text between the quotes, escapes included.
    content: &'a str,
    /// The length of the whole, in bytes.
    length: usize,
}

/// Returns the literal at the beginning of `rest`; `None` if there is no quote.
pub(super) fn scan(rest: &str) -> Option<Quoted> {
    match split(rest)? {
        Ok(parts) => Some(Quoted::Whole {
            is_bytes: parts.is_bytes,
            length: parts.length,
        }),
        Err(length) => Some(Quoted::Broken(length)),
    }
}

/// Returns the text that a literal stands for.
///
/// # Errors
/// Fails for an escape that names no character.
pub(super) fn string(literal: &str) -> Result<String, String> {
    String::from_utf8(bytes(literal)?).map_err(|_| "invalid unicode code point".to_owned())
}

/// Returns the bytes that a literal stands for.
///
/// # Errors
/// Fails for an escape that names no character, or names one in bytes.
pub(super) fn bytes(literal: &str) -> Result<Vec<u8>, String> {
    let Some(Ok(parts)) = split(literal) else {
        return Err("unable to unescape string".to_owned());
    };
    let content = parts.content.replace("\r\n", "\n").replace('\r', "\n");
    let mut written = Vec::with_capacity(content.len());
    let mut rest = content.as_str();
    while let Some((before, escape)) = rest.split_once('\\').filter(|_| !parts.is_raw) {
        written.extend_from_slice(before.as_bytes());
        let length = unescape(escape, parts.is_bytes, &mut written)?;
        rest = escape.get(length..).unwrap_or_default();
    }
    written.extend_from_slice(rest.as_bytes());
    Ok(written)
}

/// Splits the literal at the beginning of `rest`; `None` if there is no quote, the length of what was read if it is broken.
fn split(rest: &str) -> Option<Result<Parts<'_>, usize>> {
    let is_bytes = rest.starts_with(['b', 'B']);
    let unprefixed = rest.get(usize::from(is_bytes)..)?;
    let is_raw = unprefixed.starts_with(['r', 'R']);
    let quoted = unprefixed.get(usize::from(is_raw)..)?;
    let before = rest.len() - quoted.len();
    let quote = quoted
        .get(..1)
        .filter(|quote| matches!(*quote, "'" | "\""))?;
    let triple = quote.repeat(3);
    let parts = |quote: &str, length: usize| Parts {
        is_raw,
        is_bytes,
        content: quoted
            .get(quote.len()..quote.len() + length)
            .unwrap_or_default(),
        length: before + length + 2 * quote.len(),
    };
    if let Some(content) = quoted.strip_prefix(triple.as_str())
        && let Ok(length) = end(content, &triple, is_raw)
    {
        return Some(Ok(parts(&triple, length)));
    }
    // three quotes without an end begin with the empty string
    let content = quoted.get(1..)?;
    Some(match end(content, quote, is_raw) {
        Ok(length) => Ok(parts(quote, length)),
        Err(length) => Err(before + 1 + length),
    })
}

/// Returns the place of the closing quote in `content`, or the length of what was read before something else was missing.
fn end(content: &str, quote: &str, is_raw: bool) -> Result<usize, usize> {
    let mut at = 0;
    while let Some(char) = content.get(at..).and_then(|rest| rest.chars().next()) {
        let rest = content.get(at..).unwrap_or_default();
        if rest.starts_with(quote) {
            return Ok(at);
        }
        if quote.len() == 1 && matches!(char, '\n' | '\r') {
            return Err(at + 1);
        }
        at += match char {
            '\\' if !is_raw => {
                let escape = rest.get(1..).unwrap_or_default();
                let wrong = escape.chars().next().map_or(0, char::len_utf8);
                1 + escape_length(escape).ok_or(at + 1 + wrong)?
            }
            char => char.len_utf8(),
        };
    }
    Err(content.len())
}

/// Returns the length of an escape after its backslash; `None` if it does not exist.
fn escape_length(escape: &str) -> Option<usize> {
    let first = escape.chars().next()?;
    let digits = |from: usize, count: usize, radix: u32| {
        let digits = escape.get(from..from + count)?;
        let is_digit = |char: char| char.is_digit(radix);
        digits.chars().all(is_digit).then_some(from + count)
    };
    match first {
        'a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '"' | '\'' | '\\' | '?' | '`' => Some(1),
        'x' | 'X' => digits(1, 2, 16),
        'u' => digits(1, 4, 16),
        'U' => digits(1, 8, 16),
        '0'..='3' => digits(0, 3, 8),
        _ => None,
    }
}

/// Appends what an escape stands for, and returns its length after the backslash.
fn unescape(escape: &str, is_bytes: bool, written: &mut Vec<u8>) -> Result<usize, String> {
    let unable = || "unable to unescape string".to_owned();
    let length = escape_length(escape).ok_or_else(unable)?;
    let text = escape.get(..length).unwrap_or_default();
    let simple = match text {
        "a" => Some(0x07),
        "b" => Some(0x08),
        "f" => Some(0x0c),
        "n" => Some(b'\n'),
        "r" => Some(b'\r'),
        "t" => Some(b'\t'),
        "v" => Some(0x0b),
        other if length == 1 => other.bytes().next(),
        _ => None,
    };
    if let Some(byte) = simple {
        written.push(byte);
        return Ok(length);
    }
    if is_bytes && text.starts_with(['u', 'U']) {
        return Err(unable());
    }
    let code = match text.strip_prefix(['x', 'X', 'u', 'U']) {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => u32::from_str_radix(text, 8),
    };
    let code = code.map_err(|_| unable())?;
    match u8::try_from(code) {
        Ok(byte) if is_bytes => written.push(byte),
        _ => {
            let char =
                char::from_u32(code).ok_or_else(|| "invalid unicode code point".to_owned())?;
            written.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    Ok(length)
}
