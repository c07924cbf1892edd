//! Headers that go from one connection to another, and those that do not: hop-by-hop ones are of the connection, length and host are
//! those of the new one. Pure.
//!
//! Source: RFC 9110, section 7.6.1.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use serde_json::{Map, Value};

/// Most headers of a call; servers read no more.
const MAX_HEADERS: usize = 100;
/// Most bytes of them.
const MAX_BYTES: usize = 32 * 1024;

/// Those of a connection, beside what `Connection` names.
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

/// The headers of a call, from `{"Name": ["value"]}`; an error says which cannot be sent.
pub(super) fn of_call(written: &Value) -> Result<HeaderMap, String> {
    let none = Map::new();
    let written = match written {
        Value::Null => &none,
        Value::Object(written) => written,
        _ => return Err("the headers are no mapping of names to lists".to_owned()),
    };
    let mut headers = HeaderMap::new();
    let mut bytes = 0;
    for (name, values) in written {
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("{name:.40?} is no name of a header"))?;
        let one = [values.clone()];
        let values = values.as_array().map_or(one.as_slice(), Vec::as_slice);
        for value in values {
            let text = value.as_str().ok_or_else(|| format!("the header {key} has a value that is no text"))?;
            // a line break in it would begin another header
            let value = HeaderValue::from_bytes(text.as_bytes())
                .map_err(|_| format!("the header {key} has control characters"))?;
            bytes += key.as_str().len() + value.len();
            if headers.len() >= MAX_HEADERS || bytes > MAX_BYTES {
                return Err(format!("there are more than {MAX_HEADERS} headers, or {MAX_BYTES} bytes of them"));
            }
            headers.append(key.clone(), value);
        }
    }
    drop_hop_by_hop(&mut headers);
    // what is asked of a server that is not called this way, and would be waited for
    for own in [header::HOST, header::CONTENT_LENGTH, header::EXPECT] {
        headers.remove(own);
    }
    Ok(headers)
}

/// The headers of an answer as `{"Name": ["value"]}`, named as Go names them.
pub(super) fn of_answer(headers: &HeaderMap) -> Value {
    let mut headers = headers.clone();
    drop_hop_by_hop(&mut headers);
    headers.remove(header::CONTENT_LENGTH);
    let mut written = Map::new();
    for (name, value) in &headers {
        let values = written.entry(canonical(name)).or_insert_with(|| Value::Array(Vec::new()));
        if let Some(values) = values.as_array_mut() {
            values.push(String::from_utf8_lossy(value.as_bytes()).into());
        }
    }
    Value::Object(written)
}

fn drop_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<String> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    for name in HOP_BY_HOP.iter().copied().chain(named.iter().map(String::as_str)) {
        headers.remove(name);
    }
}

/// `content-type` as `Content-Type`.
fn canonical(name: &HeaderName) -> String {
    let words = name.as_str().split('-').map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        format!("{}{rest}", first.to_ascii_uppercase())
    });
    words.collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn headers_of_the_connection_stay_there() {
        let headers = of_call(&json!({
            "Accept": ["a", "b"], "Connection": ["close, X-Own"], "X-Own": ["1"], "Transfer-Encoding": ["chunked"],
            "Host": ["evil.example"], "Content-Length": ["99"], "Upgrade": ["websocket"], "TE": ["trailers"], "Expect": ["100-continue"],
            "Proxy-Authorization": ["x"], "Authorization": ["Bearer t"], "One": "text",
        }))
        .unwrap();
        let names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["accept", "authorization", "one"]);
        assert_eq!(headers.get_all("accept").iter().count(), 2);
    }

    #[test]
    fn no_header_is_smuggled_in() {
        for written in [
            json!({"A": ["x\r\nB: y"]}),
            json!({"A": ["x\ny"]}),
            json!({"A": ["x\0"]}),
            json!({"A: b\r\nC": ["x"]}),
            json!({"": ["x"]}),
            json!({"A b": ["x"]}),
            json!({"A": [1]}),
            json!({"A": [["x"]]}),
            json!(["A"]),
            json!({"A": ["x".repeat(MAX_BYTES)]}),
            Value::Object((0..=MAX_HEADERS).map(|number| (format!("h{number}"), json!(["x"]))).collect()),
        ] {
            assert!(of_call(&written).is_err(), "{:.60}", written.to_string());
        }
        assert_eq!(of_call(&Value::Null).unwrap().len(), 0);
    }

    #[test]
    fn answers_name_headers_as_go_does() {
        let mut headers = HeaderMap::new();
        for (name, value) in [("content-type", "a/b"), ("connection", "x-hop"), ("x-hop", "1"), ("content-length", "3"), ("x-b", "1")] {
            headers.append(name, value.parse().unwrap());
        }
        headers.append("x-b", HeaderValue::from_bytes(b"\xc3\xa4").unwrap());
        assert_eq!(of_answer(&headers), json!({"Content-Type": ["a/b"], "X-B": ["1", "ä"]}));
    }
}
