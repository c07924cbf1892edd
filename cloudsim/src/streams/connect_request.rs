//! A request to a kubelet in CloudCore's encoding: Go's `url.URL` and `http.Header` as JSON. Pure.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, Method, header};
use kubeapi::NodeRequest;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use wire::{headers::canonical_name, tunnel::Connect};

/// Hop-by-hop headers. Those of an upgrade are part of the request.
const HOP_BY_HOP_HEADERS: [HeaderName; 5] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::TE,
    header::TRAILER,
];

/// The characters that Go escapes in a path.
const ESCAPED: AsciiSet = NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b',')
    .remove(b'/')
    .remove(b':')
    .remove(b';')
    .remove(b'=')
    .remove(b'@');

/// Returns the connect frame of stream `id` for a request.
pub(super) fn connect(id: u64, request: &NodeRequest) -> Connect {
    let (written, query) = request
        .path_and_query
        .split_once('?')
        .unwrap_or((&request.path_and_query, ""));
    let path = unescape(written);
    let mut connect = Connect::new(id, path.clone(), query).method(request.method.as_str());
    if escape(&path) != written {
        written.clone_into(&mut connect.url.raw_path);
    }
    let is_upgrade = request.headers.contains_key(header::UPGRADE);
    for (name, value) in &request.headers {
        let Ok(value) = value.to_str() else { continue };
        let is_own =
            HOP_BY_HOP_HEADERS.contains(name) || (name == header::CONNECTION && !is_upgrade);
        if !is_own {
            connect = connect.header(canonical_name(name.as_str()), value);
        }
    }
    if !is_upgrade {
        // otherwise the node would keep its connection, and the stream, open
        connect = connect.header("Connection", "close");
    }
    if request.method == Method::POST {
        // as client-go and the API server do
        connect = connect.header("Content-Length", "0");
    }
    connect
}

/// Removes the hop-by-hop headers of an answer.
pub(super) fn strip(headers: &mut HeaderMap) {
    for name in [
        header::CONNECTION,
        header::TRANSFER_ENCODING,
        header::TE,
        header::TRAILER,
        header::UPGRADE,
    ] {
        headers.remove(name);
    }
    headers.remove("keep-alive");
}

/// Percent-decodes a path; what is not UTF-8 then stays encoded.
fn unescape(path: &str) -> String {
    percent_decode_str(path)
        .decode_utf8()
        .map_or_else(|_| path.to_owned(), Cow::into_owned)
}

/// Escapes a path as Go's `url.URL.EscapedPath` does by default.
fn escape(path: &str) -> String {
    utf8_percent_encode(path, &ESCAPED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(
        method: Method,
        path_and_query: &str,
        headers: &[(&'static str, &str)],
    ) -> NodeRequest {
        let headers = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
        NodeRequest {
            method,
            path_and_query: path_and_query.to_owned(),
            headers: headers.collect(),
        }
    }

    #[test]
    fn an_exec_is_rendered_as_cloudcore_renders_it() {
        let asked = request(
            Method::POST,
            "/exec/ns/p/c?command=echo&command=a+b&input=1",
            &[
                ("connection", "Upgrade"),
                ("upgrade", "SPDY/3.1"),
                ("x-stream-protocol-version", "v4.channel.k8s.io"),
                ("host", "cloud"),
            ],
        );
        let json = serde_json::to_value(connect(7, &asked)).unwrap();
        let expected = serde_json::json!({
            "MessID": 7, "method": "POST",
            "url": {"Scheme": "http", "Opaque": "", "User": null, "Host": "127.0.0.1:10350", "Path": "/exec/ns/p/c", "RawPath": "",
                "OmitHost": false, "ForceQuery": false, "RawQuery": "command=echo&command=a+b&input=1", "Fragment": "", "RawFragment": ""},
            "header": {"Connection": ["Upgrade"], "Upgrade": ["SPDY/3.1"], "X-Stream-Protocol-Version": ["v4.channel.k8s.io"],
                "Content-Length": ["0"]},
        });
        assert_eq!(json, expected);
    }

    #[test]
    fn a_page_asks_the_node_to_end_its_connection() {
        let asked = request(
            Method::GET,
            "/metrics",
            &[("connection", "keep-alive"), ("accept", "text/plain")],
        );
        let page = connect(1, &asked);
        assert_eq!(
            page.header.get("Connection"),
            Some(&vec!["close".to_owned()])
        );
        assert_eq!((page.header.len(), page.url.raw_query.as_str()), (2, ""));
    }

    #[test]
    fn a_path_is_decoded_and_kept_as_written_where_go_would_write_it_otherwise() {
        let path = |written: &str| {
            let url = connect(1, &request(Method::GET, written, &[])).url;
            (url.path, url.raw_path)
        };
        assert_eq!(path("/logs/a%20b"), ("/logs/a b".into(), String::new()));
        assert_eq!(
            path("/logs/a%2Fb"),
            ("/logs/a/b".into(), "/logs/a%2Fb".into())
        );
        assert_eq!(path("/logs/%zz"), ("/logs/%zz".into(), "/logs/%zz".into()));
        assert_eq!(path("/logs/%ff").0, "/logs/%ff");
    }
}
