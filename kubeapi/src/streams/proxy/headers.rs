//! The headers of proxied requests and responses.

use http::{
    HeaderMap, HeaderValue,
    header::{self, HOST},
    request,
    uri::Authority,
};

use super::{links, location, path::ProxyPath};
use crate::request::connection_headers::remove_connection_headers;

/// Returns the headers of the proxied request: the client's without hop-by-hop headers and credentials. `Host` is the client's in HTTP/1.1
/// and its `:authority` in HTTP/2.
pub(super) fn request_headers(client: &request::Parts, place: &ProxyPath) -> HeaderMap {
    let mut headers = client.headers.clone();
    let authority = client.uri.authority().map(Authority::as_str);
    if let Some(Ok(host)) = authority.map(HeaderValue::from_str) {
        headers.insert(HOST, host);
    }
    remove_connection_headers(&mut headers);
    let own: Vec<_> = headers
        .keys()
        .filter(|name| name.as_str().starts_with("impersonate-") || *name == header::AUTHORIZATION)
        .cloned()
        .collect();
    for name in own {
        headers.remove(name);
    }
    if let Some(host) = headers.get(HOST).cloned() {
        headers.insert("x-forwarded-host", host);
    }
    headers.insert("x-forwarded-proto", HeaderValue::from_static("https"));
    if let Ok(uri) = HeaderValue::from_str(&format!("{}{}", place.prefix, place.path)) {
        headers.insert("x-forwarded-uri", uri);
    }
    headers
}

/// Returns the backend's response as it is sent to the client.
pub(super) fn response_headers(head: &http::response::Parts, place: &ProxyPath) -> HeaderMap {
    let mut headers = head.headers.clone();
    remove_connection_headers(&mut headers);
    let cors: Vec<_> = headers
        .keys()
        .filter(|name| name.as_str().starts_with("access-control-"))
        .cloned()
        .collect();
    for name in cors {
        // an origin that may call a pod may not call the API
        headers.remove(name);
    }
    let location = headers
        .get(header::LOCATION)
        .and_then(|value| value.to_str().ok());
    let location = location.and_then(|text| location::link_through_proxy(text, &place.prefix));
    if let Some(Ok(location)) = location.map(HeaderValue::try_from) {
        headers.insert(header::LOCATION, location);
    }
    if links::are_in(&headers) {
        // its links become longer
        headers.remove(header::CONTENT_LENGTH);
    }
    headers
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, Request};

    use super::*;

    #[test]
    fn what_is_proxied_does_not_learn_who_calls() {
        // as HTTP/2 has it: no header has the host
        let (mut client, ()) = Request::get("https://api:6443/x")
            .body(())
            .unwrap()
            .into_parts();
        for (name, value) in [
            ("authorization", "Bearer secret"),
            ("impersonate-user", "ann"),
            ("connection", "keep-alive"),
            ("accept", "text/html"),
        ] {
            client.headers.insert(name, HeaderValue::from_static(value));
        }
        let place = ProxyPath::of(&"/api/v1/nodes/n/proxy/pods".parse().unwrap(), false);
        let headers = request_headers(&client, &place);
        let mut names: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(
            names,
            [
                "accept",
                "host",
                "x-forwarded-host",
                "x-forwarded-proto",
                "x-forwarded-uri"
            ]
        );
        assert_eq!(headers["host"], "api:6443");
        assert_eq!(headers["x-forwarded-uri"], "/api/v1/nodes/n/proxy/pods");
    }
}
