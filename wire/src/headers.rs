//! HTTP headers that are forwarded from one connection to another inside KubeEdge's messages.

/// The headers that belong to one connection and must not be forwarded: the standard hop-by-hop headers and those that `Connection` names
/// (RFC 9110, section 7.6.1).
#[derive(Clone, Debug, Default)]
pub struct ConnectionHeaders {
    named: Vec<String>,
}

impl ConnectionHeaders {
    /// Reads the header names from the values of `Connection`.
    pub fn named_in<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        let names = values.into_iter().flat_map(|value| value.split(','));
        Self {
            named: names.map(|name| name.trim().to_owned()).collect(),
        }
    }

    /// Reports whether the header `name` is one of them.
    pub fn contains(&self, name: &str) -> bool {
        const NAMES: [&str; 9] = [
            "connection",
            "keep-alive",
            "proxy-authenticate",
            "proxy-authorization",
            "proxy-connection",
            "te",
            "trailer",
            "transfer-encoding",
            "upgrade",
        ];
        let mut all = NAMES
            .into_iter()
            .chain(self.named.iter().map(String::as_str));
        all.any(|one| one.eq_ignore_ascii_case(name))
    }
}

/// Returns a header name in Go's canonical form: `x-stream-protocol-version` becomes `X-Stream-Protocol-Version`.
pub fn canonical_name(name: &str) -> String {
    let mut upper = true;
    let letter = |letter: char| {
        let written = if upper {
            letter.to_ascii_uppercase()
        } else {
            letter.to_ascii_lowercase()
        };
        upper = letter == '-';
        written
    };
    name.chars().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_connection_names_stays_with_it() {
        let own = ConnectionHeaders::named_in(["close, X-Own", "x-other"]);
        for name in ["TE", "connection", "x-own", "X-Other", "Upgrade"] {
            assert!(own.contains(name), "{name}");
        }
        assert!(!own.contains("x-kept") && !ConnectionHeaders::default().contains("x-own"));
    }

    #[test]
    fn names_are_written_as_go_writes_them() {
        for (name, written) in [
            ("content-type", "Content-Type"),
            ("X-ABC", "X-Abc"),
            ("te", "Te"),
            ("", ""),
        ] {
            assert_eq!(canonical_name(name), written);
        }
    }
}
