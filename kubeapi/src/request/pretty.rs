//! Responses with line breaks, for people: with `?pretty=true`, and for the user agents that kube-apiserver takes for those of people.

use http::{Response, header, request::Parts};
use http_body::Body as _;

use super::{
    body::Body,
    query::Query,
    rewrite::{JSON, rewrite},
};

/// The beginnings of `User-Agent` of the programs with which people read responses: curl, Wget and browsers, as in kube-apiserver.
const AGENTS: [&str; 3] = ["curl", "Wget", "Mozilla/5.0"];

/// The largest body that is rewritten, in bytes. Nobody reads a larger one.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// Reports whether a request asks for line breaks, or is a person's.
pub(crate) fn is_wanted(parts: &Parts) -> bool {
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    match query.get("pretty") {
        Some(pretty) if !pretty.is_empty() => query.flag("pretty"),
        _ => parts
            .headers
            .get(header::USER_AGENT)
            .and_then(|agent| agent.to_str().ok())
            .is_some_and(|agent| AGENTS.iter().any(|start| agent.starts_with(start))),
    }
}

/// Returns the response with line breaks, if it is JSON and has an end.
pub(crate) async fn indent(response: Response<Body>) -> Response<Body> {
    let size = response.body().size_hint().exact();
    if size.is_none_or(|size| size > MAX_BYTES) {
        return response;
    }
    rewrite(response, JSON, serde_json::to_string_pretty).await
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn line_breaks_are_for_people() {
        for (uri, agent, expected) in [
            ("/api", "curl/8.1", true),
            ("/api", "Mozilla/5.0 (X11)", true),
            ("/api", "kubectl/v1.36", false),
            ("/api?pretty=true", "kubectl/v1.36", true),
            ("/api?limit=1&pretty=1", "kubectl/v1.36", true),
            ("/api?pretty=false", "curl/8.1", false),
            ("/api?pretty=", "curl/8.1", true),
        ] {
            let request = Request::builder()
                .uri(uri)
                .header(header::USER_AGENT, agent);
            let (parts, ()) = request.body(()).unwrap().into_parts();
            assert_eq!(is_wanted(&parts), expected, "{uri} {agent}");
        }
    }
}
