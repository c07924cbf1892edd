//! Requests as tests write them: `METHOD path header:value …`, with `~` for blanks in a value. MERGE, STRATEGIC, JSON and APPLY are
//! patches.

use bytes::Bytes;
use http::{HeaderName, Request, header::CONTENT_TYPE};
use serde_json::Value;

/// Builds a request. A body of text is sent as it is, and null is no body.
pub(crate) fn http_request(request: &str, body: &Value) -> Request<Bytes> {
    let mut words = request.split(' ');
    let (method, path) = (words.next().unwrap(), words.next().unwrap());
    let (method, media_type) = match method {
        "MERGE" => ("PATCH", "application/merge-patch+json"),
        "STRATEGIC" => ("PATCH", "application/strategic-merge-patch+json"),
        "JSON" => ("PATCH", "application/json-patch+json"),
        "APPLY" => ("PATCH", "application/apply-patch+yaml"),
        method => (method, "application/json"),
    };
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header(CONTENT_TYPE, media_type);
    let headers = request.headers_mut().unwrap();
    for (name, value) in words.map(|header| header.split_once(':').unwrap()) {
        let name = HeaderName::try_from(name).unwrap();
        if name == CONTENT_TYPE {
            headers.remove(&name);
        }
        headers.append(name, value.replace('~', " ").parse().unwrap());
    }
    let bytes = match body {
        Value::Null => Bytes::new(),
        Value::String(text) => Bytes::from(text.clone()),
        body => Bytes::from(body.to_string()),
    };
    request.body(bytes).unwrap()
}

/// Replaces variables in all texts of a value.
pub(crate) fn insert_all(value: &Value, insert: &dyn Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => insert(text).into(),
        Value::Array(list) => list.iter().map(|value| insert_all(value, insert)).collect(),
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| (key.clone(), insert_all(value, insert)))
            .collect(),
        other => other.clone(),
    }
}
