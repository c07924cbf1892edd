//! Selects the headers that are forwarded: hop-by-hop headers belong to one connection, and length and host are those of the
//! new one. Pure.
//!
//! Source: RFC 9110, section 7.6.1.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use wire::{
    bus::{Headers, ServiceResponse},
    headers::{ConnectionHeaders, canonical_name},
    text::short,
};

/// The most headers of a call; servers accept no more.
const MAX_HEADERS: usize = 100;
/// The most bytes of the headers.
const MAX_BYTES: usize = 32 * 1024;

/// Returns the headers of a call; the error names one that cannot be sent.
pub(super) fn of_call(written: &Headers) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    let mut bytes = 0;
    for (name, values) in written {
        let key = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| format!("{:?} is no name of a header", short(name)))?;
        for value in values {
            // a line break would start another header
            let value = HeaderValue::from_bytes(value.as_bytes())
                .map_err(|_| format!("the header {key} has control characters"))?;
            bytes += key.as_str().len() + value.len();
            if headers.len() >= MAX_HEADERS || bytes > MAX_BYTES {
                return Err(format!(
                    "there are more than {MAX_HEADERS} headers, or {MAX_BYTES} bytes of them"
                ));
            }
            headers.append(key.clone(), value);
        }
    }
    drop_hop_by_hop(&mut headers);
    // `Expect` is for the server that was called first, and would delay the request
    for own in [header::HOST, header::CONTENT_LENGTH, header::EXPECT] {
        headers.remove(own);
    }
    Ok(headers)
}

/// Returns the headers of a response, named as Go names them.
pub(super) fn of_answer(headers: &HeaderMap) -> Headers {
    let mut headers = headers.clone();
    drop_hop_by_hop(&mut headers);
    headers.remove(header::CONTENT_LENGTH);
    let mut written = Headers::new();
    // the cloud recognizes the agent's own answers by this header
    let handed_on = headers
        .iter()
        .filter(|(name, _)| !name.as_str().eq_ignore_ascii_case(ServiceResponse::OWN));
    for (name, value) in handed_on {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        written
            .entry(canonical_name(name.as_str()))
            .or_default()
            .push(value);
    }
    written
}

fn drop_hop_by_hop(headers: &mut HeaderMap) {
    let connection = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok());
    let own = ConnectionHeaders::named_in(connection);
    let dropped: Vec<HeaderName> = headers
        .keys()
        .filter(|name| own.contains(name.as_str()))
        .cloned()
        .collect();
    for name in dropped {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build_headers(all: &[(&str, &[&str])]) -> Headers {
        let owned = |values: &[&str]| values.iter().map(|&value| value.to_owned()).collect();
        all.iter()
            .map(|(name, values)| ((*name).to_owned(), owned(values)))
            .collect()
    }

    #[test]
    fn headers_of_the_connection_stay_there() {
        let headers = of_call(&build_headers(&[
            ("Accept", &["a", "b"]),
            ("Connection", &["close, X-Own"]),
            ("X-Own", &["1"]),
            ("Transfer-Encoding", &["chunked"]),
            ("Host", &["evil.example"]),
            ("Content-Length", &["99"]),
            ("Upgrade", &["websocket"]),
            ("TE", &["trailers"]),
            ("Expect", &["100-continue"]),
            ("Proxy-Authorization", &["x"]),
            ("Authorization", &["Bearer t"]),
            ("None", &[]),
        ]))
        .unwrap();
        let names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["accept", "authorization"]);
        assert_eq!(headers.get_all("accept").iter().count(), 2);
    }

    #[test]
    fn no_header_is_smuggled_in() {
        let (long, many) = ("x".repeat(MAX_BYTES), ["x"; MAX_HEADERS + 1]);
        for (name, values) in [
            ("A", &["x\r\nB: y"][..]),
            ("A", &["x\ny"]),
            ("A", &["x\0"]),
            ("A: b\r\nC", &["x"]),
            ("", &["x"]),
            ("A b", &["x"]),
            ("A", &[&long]),
            ("A", &many),
        ] {
            assert!(
                of_call(&build_headers(&[(name, values)])).is_err(),
                "{name:?}"
            );
        }
    }

    #[test]
    fn answers_name_headers_as_go_does() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("content-type", "a/b"),
            ("connection", "x-hop"),
            ("x-hop", "1"),
            ("content-length", "3"),
            ("tunnelserver", "edge-agent"),
            ("x-b", "1"),
        ] {
            headers.append(name, value.parse().unwrap());
        }
        headers.append("x-b", HeaderValue::from_bytes(b"\xc3\xa4").unwrap());
        assert_eq!(
            of_answer(&headers),
            build_headers(&[("Content-Type", &["a/b"]), ("X-B", &["1", "ä"])])
        );
    }
}
