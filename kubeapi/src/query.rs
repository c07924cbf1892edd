//! The query string of a request.

use crate::status::StatusError;

/// Its parameters, decoded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Of a URI's query part.
    pub(crate) fn parse(query: &str) -> Self {
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
                .map(|(k, v)| (decode(k), decode(v)))
                .collect(),
        )
    }

    /// The first value of `name`; an empty one reads as absent, as in Go's `url.Values`.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    /// Sets `name`, in place of what it was.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.0.retain(|(key, _)| key != name);
        self.0.push((name.to_owned(), value.to_owned()));
    }

    /// A flag: absent, `0` and `false` are false. A flag given without value is true, as in the real server.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.0
            .iter()
            .find(|(key, _)| key == name)
            .is_some_and(|(_, value)| !matches!(value.as_str(), "0" | "false"))
    }

    /// Whether the flag `name` was given, whatever it says.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// A whole number.
    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, StatusError> {
        self.get(name)
            .map(|text| {
                text.parse().map_err(|_| {
                    StatusError::bad_request(format!(
                        "query parameter {name}: {text:?} is not a whole number"
                    ))
                })
            })
            .transpose()
    }

    /// `dryRun=All`, all stages of a write but the last.
    pub(crate) fn dry_run(&self) -> bool {
        self.get("dryRun").is_some()
    }

    /// `resourceVersion`: `None` where absent, else the number.
    pub(crate) fn resource_version(&self) -> Result<Option<u64>, StatusError> {
        let Some(text) = self.get("resourceVersion") else { return Ok(None) };
        let number = text.parse().map_err(|_| {
            StatusError::bad_request(format!("resourceVersion: Invalid value: {text:?}: not a whole number"))
        })?;
        Ok(Some(number))
    }
}

/// Percent-decoding with `+` for a blank; what is not an escape stands for itself.
fn decode(text: &str) -> String {
    percent_decode(&text.replace('+', " "))
}

/// Percent-decoding, as in a path.
pub(crate) fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let escaped = (byte == b'%').then(|| bytes.get(at + 1..at + 3).and_then(hex_pair)).flatten();
        out.push(escaped.unwrap_or(byte));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn hex_pair(pair: &[u8]) -> Option<u8> {
    // `from_str_radix` would take a sign
    let text =
        std::str::from_utf8(pair).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    u8::from_str_radix(text, 16).ok()
}
