//! Parses the name of a proxied object: `name`, `name:port`, `scheme:name:port`. Pure.

use crate::status::StatusError;

/// A name with an optional scheme and port.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Name {
    /// `http` where none is given.
    pub(super) scheme: String,
    pub(super) name: String,
    /// Empty where none is given.
    pub(super) port: String,
}

impl Name {
    /// Source: `SplitSchemeNamePort` of the real server.
    pub(super) fn parse(text: &str) -> Result<Self, StatusError> {
        let parts: Vec<_> = text.split(':').collect();
        let (scheme, name, port) = match parts[..] {
            [name] => ("", name, ""),
            [name, port] => ("", name, port),
            [scheme @ ("" | "http" | "https"), name, port] => (scheme, name, port),
            _ => ("", "", ""),
        };
        if name.is_empty() {
            return Err(StatusError::bad_request(format!(
                "invalid request to proxy {text:?}"
            )));
        }
        let scheme = if scheme.is_empty() { "http" } else { scheme };
        Ok(Self {
            scheme: scheme.to_owned(),
            name: name.to_owned(),
            port: port.to_owned(),
        })
    }

    /// Reports whether the scheme is `https`.
    pub(super) fn is_https(&self) -> bool {
        self.scheme == "https"
    }

    /// Returns the port, if given; it must be a number.
    pub(super) fn number(&self) -> Result<Option<u16>, StatusError> {
        if self.port.is_empty() {
            return Ok(None);
        }
        let bad = |_| StatusError::bad_request(format!("{:?} is no port", self.port));
        self.port.parse().map(Some).map_err(bad)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheme_and_a_port_may_stand_around_a_name() {
        for (text, expected) in [
            ("a", Some(("http", "a", ""))),
            ("a:80", Some(("http", "a", "80"))),
            ("a:web", Some(("http", "a", "web"))),
            ("https:a:443", Some(("https", "a", "443"))),
            (":a:80", Some(("http", "a", "80"))),
            ("https:a:", Some(("https", "a", ""))),
            ("ftp:a:21", None),
            ("a:b:c:d", None),
            ("", None),
            (":80", None),
        ] {
            let found = Name::parse(text).ok();
            let found = found
                .as_ref()
                .map(|name| (name.scheme.as_str(), name.name.as_str(), name.port.as_str()));
            assert_eq!(found, expected, "{text}");
        }
        assert_eq!(Name::parse("a:80").unwrap().number().unwrap(), Some(80));
        assert!(Name::parse("a:web").unwrap().number().is_err());
    }
}
