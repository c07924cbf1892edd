//! The query string of a request.

use std::num::{IntErrorKind, ParseIntError};

use crate::{cause::Cause, status::StatusError};

/// Says what is wrong with a number, in the API server's words.
fn fault(error: &ParseIntError) -> &'static str {
    match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
        _ => "invalid syntax",
    }
}

/// Its parameters, decoded.
#[derive(Clone, Debug, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Of a URI's query part.
    pub fn parse(query: &str) -> Self {
        Self(
            form_urlencoded::parse(query.as_bytes())
                .into_owned()
                .collect(),
        )
    }

    /// The first value of `name`; an empty one reads as absent, as in Go's `url.Values`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    /// All values of `name`, empty ones too.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0
            .iter()
            .filter(move |(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// Sets `name`, and replaces an existing value.
    pub fn set(&mut self, name: &str, value: &str) {
        self.0.retain(|(key, _)| key != name);
        self.0.push((name.to_owned(), value.to_owned()));
    }

    /// A flag: absent, `0` and `false` are false. A flag without a value is true, as in kube-apiserver.
    pub fn flag(&self, name: &str) -> bool {
        self.0
            .iter()
            .find(|(key, _)| key == name)
            .is_some_and(|(_, value)| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    /// Whether the flag `name` is present, with any value.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// A whole number.
    pub fn number(&self, name: &str) -> Result<Option<i64>, StatusError> {
        self.get(name)
            .map(|text| {
                text.parse().map_err(|error: ParseIntError| {
                    StatusError::bad_request(format!(
                        "strconv.ParseInt: parsing {text:?}: {}",
                        fault(&error)
                    ))
                })
            })
            .transpose()
    }

    /// `dryRun=All`, all stages of a write but the last.
    pub fn dry_run(&self) -> bool {
        self.get("dryRun").is_some()
    }

    /// `resourceVersion`: `None` where absent, else the number.
    pub fn resource_version(&self) -> Result<Option<u64>, StatusError> {
        let Some(text) = self.get("resourceVersion") else {
            return Ok(None);
        };
        let number = text.parse().map_err(|error: ParseIntError| {
            let why = format!("strconv.ParseUint: parsing {text:?}: {}", fault(&error));
            let cause = Cause::invalid("resourceVersion", &text.into(), &why);
            StatusError::bad_request(format!("invalid resource version: {cause}"))
        })?;
        Ok(Some(number))
    }
}
