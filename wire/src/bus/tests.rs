//! Forms that KubeEdge wrote, read and written again; forms that nobody should send.

use super::*;

#[test]
fn a_recorded_request_and_its_answer_are_read() {
    let recorded = json!({"header": {"Accept": ["*/*"]}, "body": "", "method": "GET", "url": ""});
    let request: ServiceRequest = serde_json::from_value(recorded.clone()).unwrap();
    assert_eq!(request.header["Accept"], ["*/*"]);
    assert_eq!(json!(request), recorded);
    let recorded =
        json!({"header": {"Server": ["SimpleHTTP/0.6"]}, "status_code": 404, "body": "bm8="});
    let response: ServiceResponse = serde_json::from_value(recorded.clone()).unwrap();
    assert_eq!((response.status_code, &*response.body), (404, &b"no"[..]));
    assert_eq!(json!(response), recorded);
}

#[test]
fn an_agents_own_answer_is_told_from_a_services() {
    let failure = ServiceResponse::failure(502, "nothing answers\n");
    assert!(failure.is_failure() && failure.header["Tunnelserver"] == ["edge-agent"]);
    assert_eq!(failure.reason(), "502 nothing answers");
    let read: ServiceResponse = serde_json::from_value(json!(failure)).unwrap();
    assert_eq!(read, failure);
    let of_service = ServiceResponse {
        status_code: 502,
        ..ServiceResponse::default()
    };
    assert!(!of_service.is_failure());
}

#[test]
fn nulls_of_go_are_nothing() {
    let content = json!({"header": null, "body": null, "status_code": 200});
    assert_eq!(
        serde_json::from_value::<ServiceResponse>(content).unwrap(),
        ServiceResponse {
            status_code: 200,
            ..ServiceResponse::default()
        }
    );
    let content = json!({"header": {"A": null}, "body": "", "method": "PUT"});
    assert!(
        serde_json::from_value::<ServiceRequest>(content)
            .unwrap()
            .header["A"]
            .is_empty()
    );
}

#[test]
fn an_address_ends_its_port_at_the_first_colon() {
    for (text, port, path) in [
        ("6666:/hello/hello", 6666, "/hello/hello"),
        ("80:/a:b?c=:", 80, "/a:b?c=:"),
        ("81:x", 81, "/x"),
    ] {
        assert_eq!(
            ServiceAddress::parse(text),
            Some(ServiceAddress {
                port,
                path: path.to_owned()
            })
        );
    }
    for text in [
        "",
        "80",
        "/a:80",
        "0:/a",
        "65536:/a",
        "-1:/a",
        "80:/a b",
        "80:/a\r\nHost: b",
        "a.b:80:/c",
    ] {
        assert_eq!(ServiceAddress::parse(text), None, "{text}");
    }
}

#[test]
fn a_payload_comes_unharmed() {
    for bytes in [&b"{\"a\":1}"[..], b"", b"\xff\x00\xfe", "\u{0}é".as_bytes()] {
        let content = Payload::from(bytes.to_vec()).content();
        assert_eq!(content.is_string(), std::str::from_utf8(bytes).is_ok());
        assert_eq!(Payload::read(&content).unwrap().into_bytes(), bytes);
    }
    for content in [
        Value::Null,
        json!(1),
        json!({}),
        json!({"base64": 1}),
        json!({"base64": "?"}),
    ] {
        assert_eq!(Payload::read(&content), None, "{content}");
    }
}

#[test]
fn cloudcore_promises_nothing() {
    assert_eq!(Terms::read(&Value::Null), Terms::default());
    assert_eq!(Terms::read(&Terms::OURS.content()), Terms::OURS);
    assert_eq!(Terms::read(&json!("OK")), Terms::default());
}

#[test]
fn a_local_call_is_base64_of_json() {
    let call = LocalCall {
        method: "POST".into(),
        target_url: "http://a/b".into(),
        payload: json!({"x": 1}),
    };
    let bytes = STANDARD.decode(call.content().as_str().unwrap()).unwrap();
    assert_eq!(serde_json::from_slice::<LocalCall>(&bytes).unwrap(), call);
}
