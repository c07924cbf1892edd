//! Replaces secrets in frames, whatever they contain. Pure.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use wire::tunnel;

use crate::{
    Body, Frame,
    redact::{MASK, Redactor},
};

/// A parameter of an exec's query: the program, and each of its arguments.
const COMMAND: &str = "command=";
/// The kind of a close frame of WebSocket.
pub const CLOSE: &str = "close";

/// Replaces secrets in a frame.
pub(crate) fn redact_frame(redactor: &Redactor, frame: &mut Frame) {
    match &mut frame.body {
        Body::Message(message) => redactor.message(message),
        // what commands print and read cannot be judged
        Body::Tunnel { kind, data, .. } if *kind == tunnel::Kind::Data.number() => *data = None,
        Body::Tunnel { data, .. } => {
            let masked = data.as_deref().and_then(mask_request);
            if let Some(masked) = masked {
                *data = Some(masked);
            }
        }
        Body::Request { headers, body, .. } => {
            redact_headers(headers);
            redactor.body(body);
        }
        Body::Response { body, .. } => redactor.body(body),
        // the code of a close frame is no secret, the rest may be
        Body::Raw(data) if frame.kind == CLOSE => {
            let bytes = STANDARD.decode(&*data).unwrap_or_default();
            *data = STANDARD.encode(&bytes[..bytes.len().min(2)]);
        }
        Body::Raw(data) => MASK.clone_into(data),
    }
}

/// Replaces the arguments of a command and secret headers in the data of a connect frame. `None` if there are none.
fn mask_request(data: &str) -> Option<String> {
    let mut request = tunnel::Connect::decode(&STANDARD.decode(data).ok()?).ok()?;
    let mut words = 0;
    let query = request.url.raw_query.split('&').map(|pair| {
        words += usize::from(pair.starts_with(COMMAND));
        match words > 1 && pair.starts_with(COMMAND) {
            true => format!("{COMMAND}{MASK}"),
            false => pair.to_owned(),
        }
    });
    request.url.raw_query = query.collect::<Vec<_>>().join("&");
    for (name, values) in &mut request.header {
        if is_secret_header(name) {
            values.iter_mut().for_each(|value| MASK.clone_into(value));
        }
    }
    Some(STANDARD.encode(serde_json::to_vec(&request).ok()?))
}

/// Replaces secrets in headers.
pub(crate) fn redact_headers(headers: &mut BTreeMap<String, String>) {
    for (name, value) in headers {
        if is_secret_header(name) {
            MASK.clone_into(value);
        }
    }
}

fn is_secret_header(name: &str) -> bool {
    ["authorization", "cookie", "proxy-authorization"]
        .iter()
        .any(|secret| name.eq_ignore_ascii_case(secret))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_responses_are_replaced() {
        let frame = |text: &str| Frame {
            body: Body::Response {
                status: 200,
                body: STANDARD.encode(text),
            },
            connection: 1,
            time: 1,
            from: crate::Side::Cloud,
            size: 1,
            kind: String::new(),
        };
        for (text, expected) in [
            (
                r#"{"token":"abc","node":"a"}"#,
                r#"{"token":"***","node":"a"}"#,
            ),
            ("token: a-secret-value", "token: ***"),
            ("a plain certificate", "a plain certificate"),
        ] {
            let mut found = frame(text);
            redact_frame(&Redactor::default(), &mut found);
            assert_eq!(found, frame(expected));
        }
    }
}
