//! Splits an expression into tokens.

use super::{
    Fault,
    strings::{self, Quoted},
    token::{KEYWORDS, SYMBOLS, Token, TokenKind},
};

/// Returns the tokens of `source`, the last of which is its end, and the faults of what is no token, which is skipped.
pub(super) fn tokens(source: &str) -> (Vec<Token>, Vec<Fault>) {
    let (mut tokens, mut faults) = (Vec::new(), Vec::new());
    let mut at = 0;
    while let Some(rest) = source.get(at..).filter(|rest| !rest.is_empty()) {
        let skipped = blank(rest);
        if skipped > 0 {
            at += skipped;
            continue;
        }
        match token(rest) {
            Ok((kind, length)) => {
                tokens.push(token_at(kind, at, at + length));
                at += length;
            }
            Err(length) => {
                let text = rest.get(..length).unwrap_or(rest);
                faults.push(Fault::syntax(
                    at,
                    format!("token recognition error at: '{}'", visible(text)),
                ));
                at += text.len();
            }
        }
    }
    tokens.push(token_at(TokenKind::End, source.len(), source.len()));
    (tokens, faults)
}

/// Writes the ends of lines in a text as errors do.
pub(super) fn visible(text: &str) -> String {
    text.replace('\n', "\\n")
        .replace('\r', "\\r")
        .replace('\t', "\\t")
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "expressions are shorter than 16 KiB"
)]
fn token_at(kind: TokenKind, start: usize, end: usize) -> Token {
    Token {
        kind,
        start: start as u32,
        end: end as u32,
    }
}

/// Returns the length of the white space or the comment at the beginning of `rest`.
fn blank(rest: &str) -> usize {
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    length_while(rest, |byte| {
        matches!(byte, b'\t' | b' ' | b'\r' | b'\n' | 0x0c)
    })
}

/// Returns the token at the beginning of `rest` and its length, or the length of what is no token.
fn token(rest: &str) -> Result<(TokenKind, usize), usize> {
    let first = rest.bytes().next().unwrap_or_default();
    if let Some(quoted) = strings::scan(rest) {
        return match quoted {
            Quoted::Whole { is_bytes, length } => Ok((
                if is_bytes {
                    TokenKind::Bytes
                } else {
                    TokenKind::String
                },
                length,
            )),
            Quoted::Broken(length) => Err(length),
        };
    }
    if first.is_ascii_alphabetic() || first == b'_' {
        let length = length_while(rest, |byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let word = rest.get(..length).unwrap_or_default();
        let keyword = KEYWORDS.iter().find(|(text, _)| *text == word);
        return Ok((
            keyword.map_or(TokenKind::Identifier, |(_, kind)| *kind),
            length,
        ));
    }
    if let Some(number) = number(rest) {
        return Ok(number);
    }
    if first == b'`' {
        return escaped_identifier(rest);
    }
    SYMBOLS
        .iter()
        .find(|(text, _)| rest.starts_with(text))
        .map(|(text, kind)| (*kind, text.len()))
        .ok_or_else(|| rest.chars().next().map_or(1, char::len_utf8))
}

/// An identifier between backticks.
fn escaped_identifier(rest: &str) -> Result<(TokenKind, usize), usize> {
    let inner = rest.get(1..).unwrap_or_default();
    let length = length_while(inner, |byte| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b'/' | b' ')
    });
    if length > 0 && inner.as_bytes().get(length) == Some(&b'`') {
        Ok((TokenKind::EscapedIdentifier, length + 2))
    } else {
        Err(1)
    }
}

/// A number at the beginning of `rest`: `12`, `0x1F`, either with `u` at its end, `1.5`, `.5`, `1e-3`.
fn number(rest: &str) -> Option<(TokenKind, usize)> {
    let byte = |at: usize| rest.as_bytes().get(at).copied().unwrap_or_default();
    let digits = |at: usize| {
        length_while(rest.get(at..).unwrap_or_default(), |byte| {
            byte.is_ascii_digit()
        })
    };
    let unsigned = |length: usize| match byte(length) {
        b'u' | b'U' => Some((TokenKind::Uint, length + 1)),
        _ => Some((TokenKind::Int, length)),
    };
    if let Some(hexadecimal) = rest.strip_prefix("0x") {
        let length = length_while(hexadecimal, |byte| byte.is_ascii_hexdigit());
        if length > 0 {
            return unsigned(2 + length);
        }
    }
    let whole = digits(0);
    let fraction = if byte(whole) == b'.' {
        digits(whole + 1)
    } else {
        0
    };
    if whole == 0 && fraction == 0 {
        return None;
    }
    let mantissa = whole + if fraction > 0 { 1 + fraction } else { 0 };
    let sign = usize::from(matches!(byte(mantissa + 1), b'+' | b'-'));
    let exponent = if matches!(byte(mantissa), b'e' | b'E') {
        digits(mantissa + 1 + sign)
    } else {
        0
    };
    if exponent > 0 {
        return Some((TokenKind::Float, mantissa + 1 + sign + exponent));
    }
    if fraction > 0 {
        return Some((TokenKind::Float, mantissa));
    }
    unsigned(whole)
}

/// Returns the length of the beginning of `text` whose bytes are all such.
fn length_while(text: &str, is_such: impl Fn(u8) -> bool) -> usize {
    text.bytes()
        .position(|byte| !is_such(byte))
        .unwrap_or(text.len())
}
