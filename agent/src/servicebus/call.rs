//! Converts a call of the cloud to a request to a local server, and the server's response to a message. Pure.
//!
//! Source: KubeEdge 1.23, `edge/pkg/servicebus/servicebus.go`; recorded messages of `router_servicebus`.

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, Uri};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde::Deserialize;
use serde_json::{Value, json};
use wire::{
    ResourcePath, Upstream,
    bus::{MAX_BODY, ServiceRequest, ServiceResponse},
    text::short,
};

use super::headers;

/// The longest path, bytes: what servers usually accept.
const MAX_PATH_BYTES: usize = 8 * 1024;
/// The characters of a path that are encoded. A `%` is not: the path is encoded already.
const PATH_ENCODE_SET: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'<')
    .add(b'>')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// A request to a server of this machine.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Call {
    pub(super) port: u16,
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// Why a call failed, as it is answered to the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CallError {
    pub(super) status: StatusCode,
    pub(super) why: String,
}

impl CallError {
    pub(super) fn new(status: StatusCode, why: impl Into<String>) -> Self {
        Self {
            status,
            why: why.into(),
        }
    }

    fn bad(why: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, why)
    }
}

/// The response of a local server.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Call {
    /// Parses a call: `<port>:<path>`, and `{header, body, method, url}` with the body in base64.
    pub(super) fn read(method: &str, target: &str, request: &Value) -> Result<Self, CallError> {
        // only the first colon ends the port: a path may have more, which EdgeCore refuses
        let (port, path) = target.split_once(':').ok_or_else(|| {
            CallError::bad(format!(
                "{:?} is no target; it must be <port>:<path>",
                short(target)
            ))
        })?;
        let port = port
            .parse::<u16>()
            .ok()
            .filter(|number| *number != 0 && port.bytes().all(|byte| byte.is_ascii_digit()))
            .ok_or_else(|| {
                CallError::bad(format!(
                    "{:?} is no port; the service_port of the RuleEndpoint must be from 1 to 65535",
                    short(port)
                ))
            })?;
        let method = Method::from_bytes(method.as_bytes())
            .ok()
            .filter(|method| *method != Method::CONNECT)
            .ok_or_else(|| {
                CallError::bad(format!(
                    "{:?} is no method of HTTP that can be called",
                    short(method)
                ))
            })?;
        let ServiceRequest { header, body, .. } = read(request)?;
        Ok(Self {
            port,
            method,
            uri: uri(port, path)?,
            headers: headers::of_call(&header).map_err(CallError::bad)?,
            body: body.into(),
        })
    }
}

fn uri(port: u16, path: &str) -> Result<Uri, CallError> {
    if path.len() > MAX_PATH_BYTES {
        return Err(CallError::new(
            StatusCode::URI_TOO_LONG,
            format!("the path is longer than {MAX_PATH_BYTES} bytes"),
        ));
    }
    if path.contains(char::is_control) {
        return Err(CallError::bad("the path has control characters"));
    }
    let path = path.strip_prefix('/').unwrap_or(path);
    let text = format!(
        "http://127.0.0.1:{port}/{}",
        utf8_percent_encode(path, PATH_ENCODE_SET)
    );
    text.parse()
        .map_err(|error| CallError::bad(format!("the path cannot be called: {error}")))
}

/// Parses the request; null is an empty request.
fn read(request: &Value) -> Result<ServiceRequest, CallError> {
    let too_large = || {
        CallError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the body has more than {MAX_BODY} bytes"),
        )
    };
    if request.is_null() {
        return Ok(ServiceRequest::default());
    }
    // base64 is longer by a third
    if request["body"]
        .as_str()
        .is_some_and(|text| text.len() / 4 * 3 > MAX_BODY + 2)
    {
        return Err(too_large());
    }
    let read = ServiceRequest::deserialize(request);
    let read = read.map_err(|error| {
        CallError::bad(format!("cannot parse the request from the cloud: {error}"))
    })?;
    if read.body.len() > MAX_BODY {
        Err(too_large())
    } else {
        Ok(read)
    }
}

/// Builds the answer to the cloud's message.
pub(super) fn message(answer: Answer) -> Upstream {
    let header = headers::of_answer(&answer.headers);
    upload(&ServiceResponse {
        header,
        status_code: answer.status.as_u16(),
        body: answer.body.into(),
    })
}

/// Builds the answer for a failed call. EdgeCore's own error lacks operation and group, so that a cloud never gets it.
pub(super) fn error_message(refused: &CallError) -> Upstream {
    upload(&ServiceResponse::failure(
        refused.status.as_u16(),
        &format!("{}\n", refused.why),
    ))
}

fn upload(response: &ServiceResponse) -> Upstream {
    Upstream::ServiceUpload {
        target: ResourcePath::default(),
        content: json!(response),
    }
}

#[cfg(test)]
mod tests {
    use base64::{Engine, engine::general_purpose::STANDARD};

    use super::*;

    fn read(method: &str, target: &str, request: Value) -> Result<Call, u16> {
        Call::read(method, target, &request).map_err(|refused| refused.status.as_u16())
    }

    #[test]
    fn a_recorded_call_is_read() {
        let request = json!({"header": {"Accept": ["*/*"], "User-Agent": ["curl/7.88.1"]}, "body": "", "method": "GET", "url": ""});
        let call = read("GET", "6666:/hello/hello", request).unwrap();
        assert_eq!(
            (call.port, call.uri.to_string().as_str()),
            (6666, "http://127.0.0.1:6666/hello/hello")
        );
        assert_eq!((call.method, call.body), (Method::GET, Bytes::new()));
        assert_eq!(call.headers.len(), 2);
    }

    #[test]
    fn paths_are_called_as_they_are() {
        for (path, called) in [
            ("/a:b:80/c", "/a:b:80/c"),
            ("/a%20b?x=1&y=%2F", "/a%20b?x=1&y=%2F"),
            ("/a b", "/a%20b"),
            ("/ä#x", "/%C3%A4%23x"),
            ("a", "/a"),
            ("", "/"),
            ("//evil.example/x", "//evil.example/x"),
            ("/../x", "/../x"),
            ("@evil.example:80/x", "/@evil.example:80/x"),
        ] {
            let call = read("GET", &format!("8080:{path}"), Value::Null).unwrap();
            assert_eq!(
                call.uri.path_and_query().unwrap().as_str(),
                called,
                "{path}"
            );
            assert_eq!(
                call.uri.authority().unwrap().as_str(),
                "127.0.0.1:8080",
                "{path}"
            );
        }
    }

    #[test]
    fn invalid_calls_are_refused() {
        let nothing = || Value::Null;
        let long = format!("1:/{}", "a".repeat(MAX_PATH_BYTES));
        let large = json!({"body": STANDARD.encode(vec![0; MAX_BODY + 1])});
        for (method, target, request, status) in [
            ("GET", "8080", nothing(), 400),
            ("GET", "/x", nothing(), 400),
            ("GET", "0:/x", nothing(), 400),
            ("GET", "65536:/x", nothing(), 400),
            ("GET", "+80:/x", nothing(), 400),
            ("GET", "80@evil.example:/x", nothing(), 400),
            ("GET", "evil.example:80/x", nothing(), 400),
            ("GET", "80:/x\r\nHost: evil", nothing(), 400),
            ("GET", &long, nothing(), 414),
            ("GE T", "80:/x", nothing(), 400),
            ("", "80:/x", nothing(), 400),
            ("CONNECT", "80:/x", nothing(), 400),
            ("POST", "80:/x", json!({"body": "no base64!"}), 400),
            ("POST", "80:/x", json!({"body": 5}), 400),
            (
                "POST",
                "80:/x",
                json!({"header": {"A": ["x\r\nB: y"]}}),
                400,
            ),
            ("POST", "80:/x", large, 413),
        ] {
            assert_eq!(
                read(method, target, request).map(|call| call.uri),
                Err(status),
                "{method} {target}"
            );
        }
        let full = json!({"body": STANDARD.encode(vec![7; MAX_BODY])});
        assert_eq!(read("POST", "80:/x", full).unwrap().body.len(), MAX_BODY);
    }

    #[test]
    fn answers_and_refusals_have_the_form_that_a_cloud_hands_on() {
        let mut headers = HeaderMap::new();
        headers.append("x-a", "1".parse().unwrap());
        headers.append("x-a", "2".parse().unwrap());
        let answer = Answer {
            status: StatusCode::NOT_FOUND,
            headers,
            body: Bytes::from_static(b"\xff\0"),
        };
        let sent = message(answer).into_message(1);
        assert_eq!(sent.route.resource.as_str(), "");
        assert_eq!(
            (
                sent.route.source.to_string().as_str(),
                sent.route.group.as_str()
            ),
            ("servicebus", "user")
        );
        assert_eq!(
            sent.content,
            json!({"header": {"X-A": ["1", "2"]}, "status_code": 404, "body": "/wA="})
        );
        let refused =
            error_message(&CallError::new(StatusCode::BAD_GATEWAY, "nobody")).into_message(1);
        assert_eq!(
            (
                refused.route.operation.as_str(),
                &refused.content["status_code"]
            ),
            ("upload", &json!(502))
        );
        let body = STANDARD
            .decode(refused.content["body"].as_str().unwrap())
            .unwrap();
        assert_eq!(body, b"nobody\n");
    }

    proptest::proptest! {
        #[test]
        fn whatever_the_cloud_says_goes_to_this_machine_or_nowhere(target in "\\PC{0,40}", port in "[0-9]{0,6}") {
            for target in [target.clone(), format!("{port}:{target}")] {
                if let Ok(call) = Call::read("GET", &target, &Value::Null) {
                    proptest::prop_assert_eq!(call.uri.host(), Some("127.0.0.1"));
                    proptest::prop_assert_eq!(call.uri.port_u16(), Some(call.port));
                }
            }
        }
    }
}
