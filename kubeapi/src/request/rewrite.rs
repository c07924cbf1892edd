//! Writes JSON responses of this server in another form.

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use http_body_util::BodyExt;
use serde_json::Value;

use crate::{
    request::body::{self, Body},
    status::StatusError,
};

/// Marks the answer of another server, which has chosen its form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forwarded;

/// The media type of the responses that can be written in another form.
pub(super) const JSON: &str = "application/json";

/// Writes the body of a response in another form of `media_type`, if it is JSON.
pub(super) async fn rewrite<E: ToString>(
    response: Response<Body>,
    media_type: &'static str,
    write: impl FnOnce(&Value) -> Result<String, E>,
) -> Response<Body> {
    let is_json = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|value| value == JSON);
    if !is_json {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let written = match body.collect().await {
        Ok(collected) => serde_json::from_slice::<Value>(&collected.to_bytes())
            .map_err(|error| error.to_string())
            .and_then(|value| write(&value).map_err(|error| error.to_string())),
        Err(error) => Err(error.to_string()),
    };
    match written {
        Ok(written) => {
            parts
                .headers
                .insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
            parts.headers.remove(header::CONTENT_LENGTH);
            Response::from_parts(parts, body::whole(Bytes::from(written)))
        }
        Err(why) => body::refusal(&StatusError::internal(format!(
            "cannot write the response as {media_type}: {why}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use http::StatusCode;
    use http_body::Frame;
    use http_body_util::StreamBody;

    use super::*;

    fn json_response(body: Body) -> Response<Body> {
        let mut response = Response::new(body);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("7"));
        response
    }

    #[tokio::test]
    async fn only_whole_json_is_rewritten() {
        let write = |value: &Value| serde_json::to_string_pretty(value);
        let cut = stream::iter([
            Ok(Frame::data(Bytes::from_static(b"{\"a\":"))),
            Err("the connection was closed".into()),
        ]);
        let cut = StreamBody::new(cut).boxed_unsync();
        let interrupted =
            "cannot write the response as application/json: the connection was closed";
        for (body, code, expected) in [
            (
                body::whole("{\"a\":1}".into()),
                StatusCode::OK,
                "{\n  \"a\": 1\n}",
            ),
            (cut, StatusCode::INTERNAL_SERVER_ERROR, interrupted),
        ] {
            let response = rewrite(json_response(body), JSON, write).await;
            assert_eq!(response.status(), code);
            assert!(!response.headers().contains_key(header::CONTENT_LENGTH));
            let text = response.into_body().collect().await.unwrap().to_bytes();
            let text = String::from_utf8(text.to_vec()).unwrap();
            assert!(text.contains(expected), "{text}");
        }
        let text = rewrite(body::text("{\"a\":1}".into()), JSON, write).await;
        let text = text.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(text, "{\"a\":1}");
    }
}
