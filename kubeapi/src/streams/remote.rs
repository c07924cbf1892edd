//! `pods/exec` and `pods/attach`.

use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};

use serde_json::{Map, Value};

use super::{
    audit,
    channels::Protocol,
    copy, node,
    pod::Pod,
    request::StreamRequest,
    translate::{self, RequestedStreams, Streams},
    upgrade::{Client, Handshake, SPDY, STREAM_PROTOCOL, UpgradeRequest},
};
use crate::{
    Body, NodeAnswer, NodeRequest,
    request::{call::Call, query::Query, subresource::Remote},
    status::StatusError,
};

/// The stream protocol used with nodes, which reports the exit as a `Status`.
const STREAMS: HeaderValue = HeaderValue::from_static("v4.channel.k8s.io");

/// Makes a request to upgrade to SPDY, with these stream protocols.
pub(super) fn spdy<'a>(
    path_and_query: String,
    protocols: impl IntoIterator<Item = &'a HeaderValue>,
) -> NodeRequest {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, SPDY);
    for protocol in protocols {
        headers.append(STREAM_PROTOCOL, protocol.clone());
    }
    NodeRequest {
        method: Method::POST,
        path_and_query,
        headers,
    }
}

/// Returns the requested streams. A terminal has no stderr.
fn requested_streams(query: &Query) -> RequestedStreams {
    let tty = query.flag("tty");
    let stderr = query.flag("stderr") && !tty;
    RequestedStreams {
        stdin: query.flag("stdin"),
        stdout: query.flag("stdout"),
        stderr,
        tty,
    }
}

/// Returns the query for the kubelet.
fn options(wants: RequestedStreams, command: &[&str]) -> String {
    let mut written = form_urlencoded::Serializer::new(String::new());
    for word in command {
        written.append_pair("command", word);
    }
    let RequestedStreams {
        stdin,
        stdout,
        stderr,
        tty,
    } = wants;
    for (name, wanted) in [
        ("error", stderr),
        ("input", stdin),
        ("output", stdout),
        ("tty", tty),
    ] {
        if wanted {
            written.append_pair(name, "1");
        }
    }
    written.finish()
}

/// Returns the options as `PodExecOptions` or `PodAttachOptions`, for policies and webhooks.
fn exec_options(query: &Query, wants: RequestedStreams, command: &[&str]) -> Map<String, Value> {
    let RequestedStreams {
        stdin,
        stdout,
        stderr,
        tty,
    } = wants;
    let mut options = Map::new();
    for (name, wanted) in [
        ("stdin", stdin),
        ("stdout", stdout),
        ("stderr", stderr),
        ("tty", tty),
    ] {
        if wanted {
            options.insert(name.into(), true.into());
        }
    }
    if let Some(container) = query.get("container") {
        options.insert("container".into(), container.into());
    }
    if !command.is_empty() {
        options.insert("command".into(), command.into());
    }
    options
}

/// Runs a command in a container, or attaches to it.
pub(super) async fn answer(
    wanted: StreamRequest<'_>,
    part: Remote,
) -> Result<Response<Body>, StatusError> {
    let Call { target, query, .. } = wanted.call;
    let pod = Pod::find(wanted.api, target).await?;
    let container = pod.container(query.get("container"))?;
    let host = pod.host()?.to_owned();
    let wants = requested_streams(query);
    let command: Vec<_> = if part == Remote::Exec {
        query.all("command").collect()
    } else {
        Vec::new()
    };
    if part == Remote::Exec && command.is_empty() {
        return Err(StatusError::bad_request(
            "you must specify at least one command for the container",
        ));
    }
    if !(wants.stdin || wants.stdout || wants.stderr) {
        return Err(StatusError::bad_request(
            "you must specify at least 1 of stdin, stdout, stderr",
        ));
    }
    let asked = UpgradeRequest::of(&wanted.parts.headers)?;
    wanted.admit(exec_options(query, wants, &command)).await?;
    let StreamRequest {
        api,
        streams,
        caller,
        mut parts,
        ..
    } = wanted;
    let client = Client::of(&mut parts)?;
    let slot = api.slots().take(caller, &host)?;
    audit::stream_started(caller, target, &container, &command);
    let what = if part == Remote::Exec {
        "exec"
    } else {
        "attach"
    };
    let path = format!(
        "/{what}/{}/{}/{container}?{}",
        target.namespace,
        target.name,
        options(wants, &command)
    );
    match asked {
        UpgradeRequest::Spdy => {
            let request = spdy(path, parts.headers.get_all(STREAM_PROTOCOL).iter());
            let (headers, io) = match node::send_request(streams, &host, request).await? {
                NodeAnswer::Response(answer) => return node::relay_answer(answer).await,
                NodeAnswer::Upgraded(head, io) => (spdy_accepted(&head.headers), io),
            };
            Ok(client.switch(headers, move |client| async move {
                copy::both(client, io).await;
                drop(slot);
            }))
        }
        UpgradeRequest::WebSocket(handshake) => {
            let protocol = choose_protocol(&handshake)?;
            let headers = handshake.response_headers(protocol.name)?;
            let io = match node::send_request(streams, &host, spdy(path, [&STREAMS])).await? {
                NodeAnswer::Response(answer) => return node::relay_answer(answer).await,
                NodeAnswer::Upgraded(_, io) => io,
            };
            let opened = Streams::open(io, wants, &client.tasks).await;
            let opened = opened.map_err(|error| {
                let why =
                    format!("node {host:?} does not open the streams of the command: {error}");
                StatusError::of_node(StatusCode::BAD_GATEWAY, why)
            })?;
            Ok(client.switch(headers, move |client| async move {
                translate::run(client, protocol, opened, host).await;
                drop(slot);
            }))
        }
    }
}

fn choose_protocol(handshake: &Handshake) -> Result<Protocol, StatusError> {
    Protocol::choose(&handshake.protocols).ok_or_else(|| handshake.refusal(&Protocol::names()))
}

/// Returns the headers that accept SPDY, with the stream protocol that the node has chosen.
pub(super) fn spdy_accepted(node: &HeaderMap) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(header::UPGRADE, SPDY);
    if let Some(protocol) = node.get(STREAM_PROTOCOL) {
        headers.insert(STREAM_PROTOCOL, protocol.clone());
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kubelet_is_asked_in_its_own_words() {
        let of = |text: &str| {
            let query = Query::parse(text);
            let command: Vec<_> = query.all("command").collect();
            options(requested_streams(&query), &command)
        };
        assert_eq!(
            of(
                "command=sh&command=-c&command=echo%20a%26b&stdin=true&stdout=True&stderr=1&container=c"
            ),
            "command=sh&command=-c&command=echo+a%26b&error=1&input=1&output=1"
        );
        assert_eq!(
            of("stdout=true&stderr=true&tty=true&stdin=false"),
            "output=1&tty=1"
        );
    }
}
