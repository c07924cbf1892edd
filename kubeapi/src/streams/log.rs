//! `pods/log`.

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use jiff::Timestamp;
use serde_json::json;

use super::{
    node,
    pod::Pod,
    request::StreamRequest,
    upgrade::{Client, UpgradeRequest},
    websocket,
};
use crate::{
    Body, NodeAnswer,
    cause::Cause,
    request::{call::Call, query::Query},
    status::StatusError,
};

/// Returns the log options as a query for the kubelet.
fn options(query: &Query, pod: &str) -> Result<String, StatusError> {
    let [since, tail, limit] =
        ["sinceSeconds", "tailLines", "limitBytes"].map(|name| query.number(name));
    let (since, tail, limit) = (since?, tail?, limit?);
    let time = query.get("sinceTime");
    let time = time.map(|text| {
        let bad = |error| {
            StatusError::bad_request(format!(
                "query parameter sinceTime: {text:?} is no time: {error}"
            ))
        };
        text.parse::<Timestamp>().map_err(bad)
    });
    let time = time.transpose()?;
    let mut causes = Vec::new();
    let mut number = |name: &str, value: Option<i64>, least: i64, why: &str| {
        if let Some(value) = value.filter(|value| *value < least) {
            causes.push(Cause::invalid(name, &json!(value), why));
        }
    };
    number("tailLines", tail, 0, "must be greater than or equal to 0");
    number("limitBytes", limit, 1, "must be greater than 0");
    if time.is_some() && since.is_some() {
        causes.push(Cause::forbidden(
            "",
            "at most one of `sinceTime` or `sinceSeconds` may be specified",
        ));
    } else {
        number("sinceSeconds", since, 1, "must be greater than 0");
    }
    match query.get("stream") {
        None | Some("All" | "Stdout" | "Stderr") => {}
        Some(other) => {
            causes.push(Cause::unsupported(
                "stream",
                &json!(other),
                &["All", "Stderr", "Stdout"],
            ));
        }
    }
    if !causes.is_empty() {
        return Err(StatusError::invalid("", "PodLogOptions", pod, causes));
    }
    let mut written = form_urlencoded::Serializer::new(String::new());
    for name in ["follow", "previous", "timestamps"] {
        if query.flag(name) {
            written.append_pair(name, "true");
        }
    }
    for (name, value) in [
        ("sinceSeconds", since),
        ("tailLines", tail),
        ("limitBytes", limit),
    ] {
        if let Some(value) = value {
            written.append_pair(name, &value.to_string());
        }
    }
    if let Some(time) = time {
        written.append_pair("sinceTime", &time.to_string());
    }
    if let Some(stream) = query.get("stream").filter(|stream| *stream != "All") {
        written.append_pair("stream", stream);
    }
    Ok(written.finish())
}

/// Streams the log of a container.
pub(super) async fn answer(wanted: StreamRequest<'_>) -> Result<Response<Body>, StatusError> {
    let StreamRequest {
        api,
        streams,
        call: Call { target, query, .. },
        caller,
        mut parts,
    } = wanted;
    let options = options(query, &target.name)?;
    let pod = Pod::find(api, target).await?;
    let container = pod.container(query.get("container"))?;
    let Some(node) = pod.node() else {
        let mut answer = Response::new(Body::default());
        *answer.status_mut() = StatusCode::NO_CONTENT;
        return Ok(answer);
    };
    let slot = api.slots().take(caller, node)?;
    let socket = socket(&parts.headers)?;
    let mut path = format!(
        "/containerLogs/{}/{}/{container}",
        target.namespace, target.name
    );
    if !options.is_empty() {
        path = format!("{path}?{options}");
    }
    let answer = match node::send_request(streams, node, node::get(path)).await? {
        NodeAnswer::Response(answer) => answer,
        NodeAnswer::Upgraded(..) => {
            return Err(StatusError::internal(
                "the node has upgraded the request for a log",
            ));
        }
    };
    let (head, body) = answer.into_parts();
    if !head.status.is_success() {
        return Err(refusal(head.status, node::text(body).await, &target.name));
    }
    let body = node::hold_slot(body, slot);
    if let Some((accepted, base64)) = socket {
        let client = Client::of(&mut parts)?;
        return Ok(client.switch(accepted, move |io| websocket::page(io, body, base64)));
    }
    let mut answer = Response::new(body);
    answer
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    answer.headers_mut().insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("no-cache, private"),
    );
    Ok(answer)
}

/// Returns the headers that accept a WebSocket, where one is requested, and whether it uses base64.
fn socket(headers: &HeaderMap) -> Result<Option<(HeaderMap, bool)>, StatusError> {
    const PROTOCOLS: [&str; 2] = ["binary.k8s.io", "base64.binary.k8s.io"];
    let Ok(UpgradeRequest::WebSocket(handshake)) = UpgradeRequest::of(headers) else {
        return Ok(None);
    };
    let mut offered = handshake.protocols.iter();
    let chosen = match offered.find_map(|offer| PROTOCOLS.into_iter().find(|known| known == offer))
    {
        Some(chosen) => chosen,
        None if handshake.protocols.is_empty() => "",
        None => return Err(handshake.refusal(&PROTOCOLS)),
    };
    Ok(Some((
        handshake.response_headers(chosen)?,
        chosen == PROTOCOLS[1],
    )))
}

/// Turns a node's error into the API's.
///
/// Source: `GenericHttpResponseChecker` of the real server.
fn refusal(code: StatusCode, text: String, pod: &str) -> StatusError {
    match code {
        StatusCode::INTERNAL_SERVER_ERROR => StatusError::internal(text),
        StatusCode::BAD_REQUEST => StatusError::bad_request(text),
        StatusCode::NOT_FOUND => {
            let message =
                format!("the server could not find the requested resource ( pods/log {pod})");
            StatusError::of_node(code, message)
        }
        _ if text.is_empty() => StatusError::of_node(code, format!("the node answers {code}")),
        _ => StatusError::of_node(code, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_the_kubelets_or_refused() {
        let of = |query: &str| {
            options(&Query::parse(query), "p").map_err(|error| error.message().to_owned())
        };
        let table = [
            ("", Ok("")),
            (
                "follow&previous=0&timestamps=True&container=c&pretty=1",
                Ok("follow=true&timestamps=true"),
            ),
            (
                "follow=False&tailLines=0&limitBytes=1&sinceSeconds=1",
                Ok("sinceSeconds=1&tailLines=0&limitBytes=1"),
            ),
            (
                "sinceTime=2026-01-01T01:00:00%2B01:00",
                Ok("sinceTime=2026-01-01T00%3A00%3A00Z"),
            ),
            ("stream=Stderr", Ok("stream=Stderr")),
            (
                "tailLines=-1",
                Err(
                    "PodLogOptions \"p\" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0",
                ),
            ),
            (
                "limitBytes=0",
                Err(
                    "PodLogOptions \"p\" is invalid: limitBytes: Invalid value: 0: must be greater than 0",
                ),
            ),
            (
                "sinceSeconds=0",
                Err(
                    "PodLogOptions \"p\" is invalid: sinceSeconds: Invalid value: 0: must be greater than 0",
                ),
            ),
            (
                "sinceSeconds=5&sinceTime=2026-01-01T00:00:00Z",
                Err(
                    "PodLogOptions \"p\" is invalid: : Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified",
                ),
            ),
        ];
        for (query, expected) in table {
            assert_eq!(
                of(query),
                expected.map(str::to_owned).map_err(str::to_owned),
                "{query}"
            );
        }
        assert!(
            of("tailLines=x").is_err() && of("sinceTime=x").is_err() && of("stream=x").is_err()
        );
    }
}
