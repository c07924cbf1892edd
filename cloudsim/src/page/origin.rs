//! Tells requests of the page from those that another site makes a browser send. Pure.

use std::net::IpAddr;

use http::{Method, header, request::Parts};

/// The header that the page adds to its requests. Another site cannot add it.
pub(super) const PAGE_HEADER: &str = "x-cloudsim-page";

/// Reports whether the page has sent this request. Without the header, a cookie has no effect: neither for forms of other sites nor for
/// documents below the API's paths, which nodes and pods may have written. A browser can add no headers to a WebSocket, but names its
/// origin.
pub(super) fn is_from_page(parts: &Parts) -> bool {
    let origin = parts.headers.get(header::ORIGIN);
    let is_own_origin = origin.is_some_and(|origin| {
        authority(parts).is_some_and(|own| *origin == *format!("https://{own}"))
    });
    let upgrade = parts.headers.get(header::UPGRADE);
    if upgrade.is_some_and(|protocol| protocol.as_bytes().eq_ignore_ascii_case(b"websocket")) {
        return is_own_origin && parts.method == Method::GET;
    }
    // browsers name no origin if a page reads from its own
    let only_reads = [Method::GET, Method::HEAD].contains(&parts.method) && origin.is_none();
    parts.headers.contains_key(PAGE_HEADER) && (is_own_origin || only_reads)
}

/// The value with which browsers mark a request that another site has caused.
const OTHER_SITES: [&str; 2] = ["cross-site", "same-site"];

/// Reports whether another site has opened this address: a link of another user there would log in the visitor as that user.
pub(super) fn is_from_other_site(parts: &Parts) -> bool {
    let site = parts.headers.get("sec-fetch-site");
    site.is_some_and(|site| OTHER_SITES.iter().any(|other| site == other))
}

/// Reports whether the request names this cloud: by an address, or by one of its names. Otherwise another site may have given its own name
/// the address of this cloud (DNS rebinding).
pub(super) fn is_for(names: &[String], parts: &Parts) -> bool {
    let Some(Ok(authority)) = authority(parts).map(str::parse::<http::uri::Authority>) else {
        return false;
    };
    let host = authority.host().trim_matches(['[', ']']);
    let is_name = |name: &String| name.eq_ignore_ascii_case(host);
    host.parse::<IpAddr>().is_ok()
        || host.eq_ignore_ascii_case("localhost")
        || names.iter().any(is_name)
}

/// Returns the host and port to which the client has sent the request.
pub(crate) fn authority(parts: &Parts) -> Option<&str> {
    let of_uri = parts.uri.authority().map(http::uri::Authority::as_str);
    of_uri.or_else(|| parts.headers.get(header::HOST)?.to_str().ok())
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn only_own_names_and_addresses_are_accepted() {
        let names = ["Cloud.example.com".to_owned()];
        for (host, expected) in [
            ("127.0.0.1:6443", true),
            ("[::1]:6443", true),
            ("[::1]", true),
            ("localhost:6443", true),
            ("cloud.example.com", true),
            ("evil.example.com:6443", false),
            ("cloud.example.com.evil:6443", false),
            ("", false),
        ] {
            let request = Request::builder().uri("/ui/").header("host", host);
            let (parts, ()) = request.body(()).unwrap().into_parts();
            assert_eq!(is_for(&names, &parts), expected, "{host}");
        }
    }

    #[test]
    fn only_requests_of_the_page_count() {
        let own = ("origin", "https://127.0.0.1:6443");
        let other = ("origin", "https://example.com");
        let plain = ("origin", "http://127.0.0.1:6443");
        let page = (PAGE_HEADER, "1");
        let upgrade = ("upgrade", "websocket");
        for (method, headers, expected) in [
            ("GET", vec![page], true),
            ("GET", vec![page, own], true),
            ("GET", vec![page, other], false),
            ("GET", vec![], false),
            ("GET", vec![own], false),
            ("POST", vec![page, own], true),
            ("POST", vec![page], false),
            ("POST", vec![page, other], false),
            ("POST", vec![page, plain], false),
            ("POST", vec![own], false),
            ("DELETE", vec![page, ("origin", "null")], false),
            ("GET", vec![upgrade, own], true),
            ("GET", vec![upgrade, other], false),
            ("GET", vec![upgrade, page], false),
            ("POST", vec![upgrade, own], false),
            ("GET", vec![("upgrade", "x"), own], false),
        ] {
            let mut request = Request::builder()
                .method(method)
                .uri("/api/v1/pods")
                .header("host", "127.0.0.1:6443");
            for (name, value) in &headers {
                request = request.header(*name, *value);
            }
            let (parts, ()) = request.body(()).unwrap().into_parts();
            assert_eq!(is_from_page(&parts), expected, "{method} {headers:?}");
        }
    }
}
