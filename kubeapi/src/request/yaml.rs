//! Answers as YAML, for callers that ask for it and take no JSON.

use http::{HeaderMap, Response, header};

use crate::request::{accept::YAML, body::Body, rewrite::rewrite};

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

/// Returns the response as YAML, if it is JSON.
pub(crate) async fn convert_response(response: Response<Body>) -> Response<Body> {
    rewrite(response, YAML, serde_saphyr::to_string).await
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
