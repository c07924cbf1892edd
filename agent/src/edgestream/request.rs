//! Converts a message of the cloud to a request of the kubelet's API. Pure.

use edged::KubeletRequest;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use wire::tunnel::{Connect, Kind};

/// The most headers of one request.
const MAX_HEADERS: usize = 64;

/// Decodes a connect frame; `None` if it is none, or has an invalid HTTP method. For logs and metrics the request is always a
/// GET of a plain body, whatever its headers say. The host is ignored: there is only one server.
pub(super) fn request(kind: Kind, data: &[u8]) -> Option<KubeletRequest> {
    let connect = Connect::decode(data).ok()?;
    let is_raw = matches!(kind, Kind::Exec | Kind::Attach);
    let method = match connect.method {
        Some(method) if is_raw => Method::from_bytes(method.as_bytes()).ok()?,
        // CloudCore before 1.13 sends no method with an exec
        None if is_raw => Method::POST,
        _ => Method::GET,
    };
    let mut headers = HeaderMap::new();
    let pairs = connect
        .header
        .iter()
        .flat_map(|(name, values)| values.iter().map(move |value| (name, value)));
    for (name, value) in pairs.filter(|_| is_raw).take(MAX_HEADERS) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.append(name, value);
        }
    }
    Some(KubeletRequest {
        method,
        path: connect.url.path,
        query: connect.url.raw_query,
        headers,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: Kind, connect: &Connect) -> KubeletRequest {
        request(kind, &serde_json::to_vec(connect).unwrap()).unwrap()
    }

    #[test]
    fn an_exec_is_the_clouds_request_and_a_log_a_plain_get() {
        let connect = Connect::new(7, "/exec/ns/p/c", "command=sh&input=1")
            .method("POST")
            .header("Connection", "Upgrade")
            .header("Upgrade", "SPDY/3.1")
            .header("X-Stream-Protocol-Version", "v4.channel.k8s.io")
            .header("X-Stream-Protocol-Version", "v3.channel.k8s.io");
        let exec = read(Kind::Exec, &connect);
        assert_eq!(
            (exec.method, exec.path.as_str(), exec.query.as_str()),
            (Method::POST, "/exec/ns/p/c", "command=sh&input=1")
        );
        assert_eq!(
            exec.headers
                .get_all("x-stream-protocol-version")
                .iter()
                .count(),
            2
        );
        let log = read(Kind::Logs, &connect);
        assert_eq!((log.method, log.headers.len()), (Method::GET, 0));
    }

    #[test]
    fn invalid_requests_are_rejected_and_bad_headers_are_left_out() {
        for bad in [
            &b""[..],
            b"null",
            b"{}",
            b"\xff\xfe",
            br#"{"MessID":-1,"url":{},"header":{}}"#,
        ] {
            assert!(request(Kind::Exec, bad).is_none(), "{bad:?}");
        }
        let bad = Connect::new(1, "/exec/ns/p/c", "").method("GET /x HTTP/1.1\r\n\r\n");
        assert!(request(Kind::Exec, &serde_json::to_vec(&bad).unwrap()).is_none());
        let smuggled = Connect::new(1, "/p", "")
            .header("Upgrade", "SPDY/3.1\r\nEvil: yes")
            .header("Ev il", "x")
            .header("User-Agent", "kubectl");
        let read = read(Kind::Exec, &smuggled);
        assert_eq!(
            read.headers
                .iter()
                .map(|(name, _)| name.as_str())
                .collect::<Vec<_>>(),
            ["user-agent"]
        );
        let many = (0..1000).fold(Connect::new(1, "/p", ""), |all, n| {
            all.header(format!("X-{n}"), "x")
        });
        assert_eq!(
            super::request(Kind::Exec, &serde_json::to_vec(&many).unwrap())
                .unwrap()
                .headers
                .len(),
            MAX_HEADERS
        );
    }
}
