//! The headers of one connection, which are not forwarded. Pure.

use http::{HeaderMap, header};

/// Hop-by-hop headers, as in Go's reverse proxy.
const HOP_BY_HOP: [&str; 9] = [
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

/// Removes the headers of one connection, and those that the header `Connection` names.
pub fn remove_connection_headers(headers: &mut HeaderMap) {
    let named = headers.get_all(header::CONNECTION).iter();
    let named: Vec<_> = named
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_owned())
        .collect();
    for name in HOP_BY_HOP
        .into_iter()
        .chain(named.iter().map(String::as_str))
    {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_the_connection_are_removed() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Own"),
            ("x-own", "1"),
            ("te", "trailers"),
            ("proxy-authorization", "Basic eA=="),
            ("x-other", "2"),
        ] {
            headers.append(name, value.parse().unwrap());
        }
        remove_connection_headers(&mut headers);
        assert_eq!(headers.keys().collect::<Vec<_>>(), ["x-other"]);
    }
}
