//! Requests of local programs to the cloud, and the responses to them. Pure.
//!
//! Source: KubeEdge 1.23, `edge/pkg/servicebus/server.go`.

use base64::{Engine, engine::general_purpose::STANDARD};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use wire::{
    Down, Downstream, Header, Message, Operation, Upstream, bus::ServiceResponse, text::short,
};

use super::call::CallError;

/// A program's request, as far as it is parsed; the cloud gets all of it.
#[derive(Debug, Deserialize)]
struct ProgramRequest {
    #[serde(default, rename = "targetURL")]
    target_url: String,
}

/// Returns the URL that a request is for.
pub(super) fn target(body: &[u8]) -> Result<String, CallError> {
    let form = r#"send {"method": "POST", "targetURL": "http://…", "payload": …}"#;
    let wanted: ProgramRequest = serde_json::from_slice(body).map_err(|error| {
        CallError::new(
            StatusCode::BAD_REQUEST,
            format!("cannot parse the request: {error}; {form}"),
        )
    })?;
    if wanted.target_url.is_empty() {
        return Err(CallError::new(
            StatusCode::BAD_REQUEST,
            format!("the request has no targetURL; {form}"),
        ));
    }
    Ok(wanted.target_url)
}

/// Returns the error for a URL that no rule has registered.
pub(super) fn not_registered(url: &str) -> CallError {
    let why = format!(
        "url {} is not allowed; a rule with source servicebus and this target_url must be there",
        short(url)
    );
    CallError::new(StatusCode::FORBIDDEN, why)
}

/// Builds the message for the cloud: the request in base64, as EdgeCore sends bytes.
pub(super) fn upload(url: String, body: &[u8]) -> Upstream {
    Upstream::ServiceUpload {
        target: url.into(),
        content: STANDARD.encode(body).into(),
    }
}

/// Converts the cloud's answer for the program: EdgeCore's form, with the target's own status and headers if the cloud sends
/// them.
pub(super) fn answer(answer: Message) -> Result<(StatusCode, Value), CallError> {
    let has_failed = answer.route.operation == Operation::Error;
    let told = match Down::from(answer).body {
        Downstream::UploadAnswer { content, .. } | Downstream::Unknown { content, .. } => content,
        // as CloudCore's router does: the answer counts, not its source
        other => {
            Message::from(Down {
                header: Header::default(),
                body: other,
            })
            .content
        }
    };
    let text = |told: Value| match told {
        Value::String(text) => text,
        Value::Null => String::new(),
        other => other.to_string(),
    };
    if has_failed {
        return Err(CallError::new(StatusCode::BAD_GATEWAY, text(told)));
    }
    let msg = "receive response from cloud successfully";
    let Some(response) = told
        .is_object()
        .then(|| ServiceResponse::deserialize(&told).ok())
        .flatten()
    else {
        return Ok((
            StatusCode::OK,
            json!({"code": 200, "msg": msg, "body": text(told)}),
        ));
    };
    let status = StatusCode::from_u16(response.status_code).unwrap_or(StatusCode::BAD_GATEWAY);
    let mut answer = json!({"code": status.as_u16(), "msg": msg, "header": response.header});
    match String::from_utf8(response.body) {
        Ok(text) => answer["body"] = text.into(),
        // JSON has no bytes
        Err(error) => {
            answer["body"] = STANDARD.encode(error.as_bytes()).into();
            answer["base64"] = true.into();
        }
    }
    Ok((status, answer))
}

/// Returns an error in the same form.
pub(super) fn error_body(refused: &CallError) -> Value {
    json!({"code": refused.status.as_u16(), "msg": refused.why, "body": ""})
}

#[cfg(test)]
mod tests {
    use wire::{Group, Route, Source};

    use super::*;

    #[test]
    fn a_request_names_its_target() {
        let read = |text: &str| target(text.as_bytes()).map_err(|refused| refused.status.as_u16());
        assert_eq!(
            read(r#"{"method":"POST","targetURL":"http://a/b","payload":{"x":1}}"#),
            Ok("http://a/b".to_owned())
        );
        for bad in [
            "",
            "{}",
            "[]",
            "null",
            r#"{"targetURL":""}"#,
            r#"{"targetURL":1}"#,
            "\u{fffd}",
        ] {
            assert_eq!(read(bad), Err(400), "{bad}");
        }
    }

    #[test]
    fn answers_have_edgecores_form_and_errors_are_returned() {
        let message = |source, operation: &str, content| {
            let operation = Operation::from(operation.to_owned());
            let route = Route {
                source,
                group: Group::User,
                operation,
                ..Route::default()
            };
            Message::new(route, content, 1)
        };
        let (status, told) = answer(message(
            Source::RouterServiceBus,
            "response",
            json!("{\"a\":1}"),
        ))
        .unwrap();
        assert_eq!(
            (status, &told["code"], &told["body"]),
            (StatusCode::OK, &json!(200), &json!("{\"a\":1}"))
        );
        let (_, told) = answer(message(
            Source::RouterServiceBus,
            "response",
            json!({"a": 1}),
        ))
        .unwrap();
        assert_eq!(told["body"], "{\"a\":1}");
        let ours = json!({"header": {"A": ["b"]}, "status_code": 404, "body": "bm8="});
        let (status, told) = answer(message(Source::ServiceBus, "response", ours)).unwrap();
        assert_eq!(
            (status.as_u16(), &told["code"], &told["body"]),
            (404, &json!(404), &json!("no"))
        );
        assert_eq!(told["header"], json!({"A": ["b"]}));
        let bytes = json!({"header": null, "status_code": 200, "body": "/wA="});
        let (_, told) = answer(message(Source::ServiceBus, "response", bytes)).unwrap();
        assert_eq!(
            (&told["body"], &told["base64"]),
            (&json!("/wA="), &json!(true))
        );
        for source in [Source::ServiceBus, Source::RouterServiceBus] {
            let refused = answer(message(source, "error", json!("no such rule"))).unwrap_err();
            assert_eq!(
                error_body(&refused),
                json!({"code": 502, "msg": "no such rule", "body": ""})
            );
        }
    }

    #[test]
    fn the_cloud_gets_the_request_as_edgecore_sends_it() {
        let sent = upload("http://a/b".into(), b"{}").into_message(1);
        assert_eq!(
            (sent.route.resource.as_str(), sent.content),
            ("http://a/b", json!("e30="))
        );
    }
}
