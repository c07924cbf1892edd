//! Answers as YAML, for callers that ask for it and take no JSON.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, header};
use http_body_util::{BodyExt, Full};
use serde_json::Value;

use crate::{
    request::{
        accept::YAML,
        body::{self, Body},
    },
    status::StatusError,
};

/// Whether the first media type of the caller's list that is served at all is YAML.
pub(crate) fn is_requested(headers: &HeaderMap) -> bool {
    let values = headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok());
    let media_types = values.flat_map(|value| value.split(',')).map(|range| {
        let mut parts = range.split(';').map(str::trim);
        (
            parts.next().unwrap_or_default(),
            parts.any(|part| part.starts_with("as=")),
        )
    });
    let mut served = media_types
        .filter(|(media, _)| matches!(*media, YAML | "application/json" | "application/*" | "*/*"));
    served.next() == Some((YAML, false))
}

/// The answer, as YAML where it is JSON.
pub(crate) async fn convert_response(response: Response<Body>) -> Response<Body> {
    let is_json = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|value| value == "application/json");
    if !is_json {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let yaml = match body.collect().await {
        Ok(collected) => serde_json::from_slice::<Value>(&collected.to_bytes())
            .map_err(|error| error.to_string())
            .and_then(|value| serde_saphyr::to_string(&value).map_err(|error| error.to_string())),
        Err(error) => Err(error.to_string()),
    };
    match yaml {
        Ok(yaml) => {
            parts
                .headers
                .insert(header::CONTENT_TYPE, HeaderValue::from_static(YAML));
            let body = Full::new(Bytes::from(yaml))
                .map_err(|never| match never {})
                .boxed_unsync();
            Response::from_parts(parts, body)
        }
        Err(why) => body::refusal(&StatusError::internal(format!(
            "cannot write the answer as YAML: {why}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yaml_is_for_those_who_would_rather_have_it_than_json() {
        let cases = [
            ("application/yaml", true),
            ("application/yaml, application/json", true),
            ("text/html, application/yaml", true),
            ("application/json, application/yaml", false),
            ("*/*", false),
            ("application/yaml;as=Table;v=v1;g=meta.k8s.io", false),
            ("", false),
        ];
        for (accept, expected) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            assert_eq!(is_requested(&headers), expected, "{accept}");
        }
    }
}
