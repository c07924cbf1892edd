//! The headers of forwarded requests and answers. Pure.

use std::fmt::Write;

use http::{HeaderMap, HeaderName, HeaderValue};
use kubeapi::{Identity, request::connection_headers::remove_connection_headers};

/// Returns the client's headers without credentials, and with the caller.
///
/// # Errors
/// If no header can have the caller's name or groups: the other server would take the caller for somebody else.
pub(super) fn of_request(client: &HeaderMap, caller: &Identity) -> Result<HeaderMap, String> {
    let mut headers = client.clone();
    remove_connection_headers(&mut headers);
    let is_credential = |name: &HeaderName| {
        let name = name.as_str();
        name == "authorization"
            || name == "cookie"
            || name.starts_with("impersonate-")
            || name.starts_with("x-remote-")
    };
    let credentials: Vec<_> = headers
        .keys()
        .filter(|name| is_credential(name))
        .cloned()
        .collect();
    for name in credentials {
        headers.remove(name);
    }
    let mut add = |name: &str, value: &str| {
        let invalid = |_| format!("{name} cannot be {value:?}");
        let name = HeaderName::try_from(name).map_err(|_| format!("no header can be {name:?}"))?;
        let value = HeaderValue::from_bytes(value.as_bytes()).map_err(invalid)?;
        headers.append(name, value);
        Ok::<_, String>(())
    };
    add("x-remote-user", &caller.user)?;
    if !caller.uid.is_empty() {
        add("x-remote-uid", &caller.uid)?;
    }
    for group in &caller.groups {
        add("x-remote-group", group)?;
    }
    for (key, values) in &caller.extra {
        let name = format!("x-remote-extra-{}", escape(key));
        for value in values {
            add(&name, value)?;
        }
    }
    Ok(headers)
}

/// Escapes what the name of a header cannot have, as kube-apiserver does: `example.com/a` is `example.com%2fa`.
fn escape(key: &str) -> String {
    let mut escaped = String::new();
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte) {
            escaped.push(byte.to_ascii_lowercase().into());
        } else {
            // writing to a text does not fail
            let _ = write!(escaped, "%{byte:02x}");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_server_learns_the_caller_and_no_credentials() {
        let mut client = HeaderMap::new();
        for (name, value) in [
            ("authorization", "Bearer secret"),
            ("cookie", "session"),
            ("impersonate-user", "ann"),
            ("x-remote-user", "admin"),
            ("x-remote-extra-a", "b"),
            ("connection", "close, X-Hop"),
            ("keep-alive", "timeout=5"),
            ("proxy-authorization", "Basic secret"),
            ("x-hop", "1"),
            ("accept", "application/json"),
        ] {
            client.insert(name, HeaderValue::from_static(value));
        }
        let mut caller = Identity::new("Jürgen", ["dev", "ops"]);
        caller.uid = "1".into();
        caller.extra = [("example.com/Scope".to_owned(), vec!["x".to_owned()])].into();
        let headers = of_request(&client, &caller).unwrap();
        let mut lines: Vec<_> = headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))
            .collect();
        lines.sort();
        assert_eq!(
            lines,
            [
                "accept: application/json",
                "x-remote-extra-example.com%2fscope: x",
                "x-remote-group: dev",
                "x-remote-group: ops",
                "x-remote-uid: 1",
                "x-remote-user: Jürgen",
            ]
        );
    }

    #[test]
    fn a_caller_that_no_header_can_name_is_not_forwarded() {
        let extra = |key: &str, value: &str| {
            let mut caller = Identity::new("bob", ["dev"]);
            caller.extra = [(key.to_owned(), vec![value.to_owned()])].into();
            caller
        };
        let rows = [
            (Identity::new("bob", ["dev"]), true),
            (Identity::new("a\nb", ["dev"]), false),
            (Identity::new("bob", ["a\r\nX-Remote-Group: b"]), false),
            (extra("a b/c:d", "x"), true),
            (extra("a", "x\0"), false),
        ];
        for (caller, expected) in rows {
            let found = of_request(&HeaderMap::new(), &caller);
            assert_eq!(found.is_ok(), expected, "{caller:?}: {found:?}");
        }
    }
}
