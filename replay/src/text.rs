//! Splits a text into parts that have a meaning of their own, and parts that differ from session to session: times, ids, the node's name,
//! generated names. Pure.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

/// The length of a UUID.
const UUID: usize = 36;
/// Shorter hexadecimal words are no ids.
const MIN_HEX: usize = 16;
/// A certificate is another one in each cloud.
const CERTIFICATE: [&str; 2] = ["BEGIN CERTIFICATE-----", "-----END CERTIFICATE"];
/// The largest certificate in PEM, bytes.
const MAX_CERTIFICATE: usize = 64 * 1024;
/// The volume of a service account's token, with five random letters. Its name has no `generateName`.
const TOKEN_VOLUME: &str = "kube-api-access-";
const RANDOM_LETTERS: usize = 5;
/// A longer word is no name of an object.
const MAX_NAME: usize = 253;

/// The names of one recording that another one may have differently.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    /// The node.
    pub(crate) node: String,
    /// Generated names, each with a text that is the same for its counterpart.
    pub(crate) generated: Arc<HashMap<String, String>>,
}

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token<'t> {
    /// A part with a meaning.
    Plain(&'t str),
    /// A UUID, a long hexadecimal number, or a certificate.
    Id(&'t str),
    /// A time in RFC 3339.
    Time(&'t str),
    /// The name of the node.
    Node(&'t str),
    /// A generated name, by the text of its counterpart.
    Generated(&'t str, &'t str),
}

/// Returns the parts of a text.
pub(crate) fn tokens<'t>(text: &'t str, names: &'t Names) -> Vec<Token<'t>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let (mut at, mut plain) = (0, 0);
    while at < bytes.len() {
        if !bytes[at].is_ascii_alphanumeric() {
            at += 1;
            continue;
        }
        // here begins a word
        let rest = &text[at..];
        let special = special(rest, &text[..at], names);
        let size = match special {
            Some(token) => {
                if plain < at {
                    found.push(Token::Plain(&text[plain..at]));
                }
                found.push(token);
                token.source().len()
            }
            None => word_length(rest.as_bytes(), |byte| byte.is_ascii_alphanumeric()),
        };
        at += size;
        if special.is_some() {
            plain = at;
        }
    }
    if plain < text.len() {
        found.push(Token::Plain(&text[plain..]));
    }
    found
}

/// Returns the text with a fixed text for each part that differs from session to session.
pub(crate) fn canonical<'t>(text: &'t str, names: &'t Names) -> Cow<'t, str> {
    // most texts are short and have neither an id, a time nor a name
    let has_name = !names.generated.is_empty() || text.contains(&names.node);
    if text.len() < MIN_HEX && !has_name {
        return text.into();
    }
    let parts = tokens(text, names);
    match parts[..] {
        [] => "".into(),
        [Token::Plain(all)] => all.into(),
        _ => parts.into_iter().map(Token::canonical).collect(),
    }
}

impl<'t> Token<'t> {
    /// Returns the part as it is in the text.
    pub(crate) fn source(self) -> &'t str {
        match self {
            Self::Plain(text)
            | Self::Id(text)
            | Self::Time(text)
            | Self::Node(text)
            | Self::Generated(text, _) => text,
        }
    }

    fn canonical(self) -> &'t str {
        match self {
            Self::Plain(text) | Self::Generated(_, text) => text,
            Self::Id(_) => "<id>",
            Self::Time(_) => "<time>",
            Self::Node(_) => "<node>",
        }
    }
}

fn special<'t>(rest: &'t str, before: &str, names: &'t Names) -> Option<Token<'t>> {
    let bytes = rest.as_bytes();
    let is_word_end = |size: usize| bytes.get(size).is_none_or(|byte| !is_word(*byte));
    let node = names.node.len();
    if node > 0 && rest.starts_with(&names.node) && is_word_end(node) && !before.ends_with('-') {
        return Some(Token::Node(&rest[..node]));
    }
    if let Some(size) = time_length(bytes) {
        return Some(Token::Time(&rest[..size]));
    }
    if is_uuid(bytes) {
        return Some(Token::Id(&rest[..UUID]));
    }
    // with a limit, or a text of many beginnings would take quadratic time
    if rest.starts_with(CERTIFICATE[0])
        && let Some(end) = rest[..rest.floor_char_boundary(MAX_CERTIFICATE)].find(CERTIFICATE[1])
    {
        return Some(Token::Id(&rest[..end]));
    }
    let size = word_length(&bytes[..bytes.len().min(MAX_NAME + 1)], is_word);
    if size == TOKEN_VOLUME.len() + RANDOM_LETTERS && rest.starts_with(TOKEN_VOLUME) {
        return Some(Token::Id(&rest[..size]));
    }
    if !names.generated.is_empty()
        && size <= MAX_NAME
        && let Some(name) = names.generated.get(&rest[..size])
    {
        return Some(Token::Generated(&rest[..size], name));
    }
    let size = word_length(bytes, |byte| byte.is_ascii_alphanumeric());
    let word = &bytes[..size];
    let is_id = size >= MIN_HEX
        && word.iter().all(u8::is_ascii_hexdigit)
        && word.iter().any(u8::is_ascii_digit)
        // the digest of an image has a meaning
        && !before.ends_with("sha256:");
    is_id.then(|| Token::Id(&rest[..size]))
}

/// Reports whether a byte is one of a name without dots.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

fn word_length(bytes: &[u8], is_part: impl Fn(u8) -> bool) -> usize {
    let end = bytes.iter().position(|byte| !is_part(*byte));
    end.unwrap_or(bytes.len())
}

fn is_uuid(bytes: &[u8]) -> bool {
    let Some(uuid) = bytes.get(..UUID) else {
        return false;
    };
    let is_end = bytes.get(UUID).is_none_or(|byte| !is_word(*byte));
    let is_right = |(place, byte): (usize, &u8)| match place {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    is_end && uuid.iter().enumerate().all(is_right)
}

/// Returns the length of a time at the begin of a text.
fn time_length(bytes: &[u8]) -> Option<usize> {
    const PATTERN: &[u8] = b"0000-00-00T00:00:00";
    let begin = bytes.get(..PATTERN.len())?;
    let is_right = |(byte, wanted): (&u8, &u8)| match wanted {
        b'0' => byte.is_ascii_digit(),
        wanted => byte == wanted,
    };
    if !begin.iter().zip(PATTERN).all(is_right) {
        return None;
    }
    let mut size = PATTERN.len();
    if bytes.get(size) == Some(&b'.') {
        size += 1 + word_length(&bytes[size + 1..], |byte| byte.is_ascii_digit());
    }
    match bytes.get(size)? {
        b'Z' => Some(size + 1),
        b'+' | b'-' => (bytes.len() >= size + 6).then_some(size + 6),
        _ => None,
    }
    // an offset that is cut within a character is none
    .filter(|size| bytes[..*size].is_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names {
            node: "edge-1".to_owned(),
            generated: Arc::new(HashMap::from([(
                "web-x7k2p".to_owned(),
                "web-*0".to_owned(),
            )])),
        }
    }

    #[test]
    fn a_text_without_ids_times_and_names_stays() {
        for (text, expected) in [
            ("", ""),
            ("default/pod/p1", "default/pod/p1"),
            ("null/node/edge-1", "null/node/<node>"),
            (
                "edge-10 my-edge-1 edge-1.local",
                "edge-10 my-edge-1 <node>.local",
            ),
            ("at 2026-11-29T12:35:30.821Z.", "at <time>."),
            ("2026-11-29T12:35:30+01:00", "<time>"),
            ("2026-11-29T12:35:30+0ä", "2026-11-29T12:35:30+0ä"),
            ("2026-11-29", "2026-11-29"),
            (
                "pods/7f2c1f3e-4b1d-4c39-9c3c-0242ac120002/etc-hosts",
                "pods/<id>/etc-hosts",
            ),
            ("p1.18ec84390ed503db", "p1.<id>"),
            ("web-x7k2p.18ec84390ed503db", "web-*0.<id>"),
            ("web-x7k2q", "web-x7k2q"),
            (
                "nginx@sha256:00000000000000000000000000000001",
                "nginx@sha256:00000000000000000000000000000001",
            ),
            ("abcdefabcdefabcdef", "abcdefabcdefabcdef"),
            ("kube-api-access-lcgvn", "<id>"),
            (
                "-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n",
                "-----<id>-----END CERTIFICATE-----\n",
            ),
            ("-----BEGIN CERTIFICATE-----", "-----BEGIN CERTIFICATE-----"),
            ("kube-api-access-control", "kube-api-access-control"),
            ("ä7f2c1f3e4b1d4c39", "ä<id>"),
        ] {
            assert_eq!(canonical(text, &names()), expected);
        }
    }

    #[test]
    fn tokens_are_the_whole_text() {
        for text in ["", "ä edge-1 2026-11-29T12:35:30Z ö", "a-b web-x7k2p", "--"] {
            let names = names();
            let parts = tokens(text, &names);
            let all: String = parts.into_iter().map(Token::source).collect();
            assert_eq!(all, text);
        }
    }
}
