//! `pods/portforward`: SPDY directly or tunnelled in a WebSocket, and WebSockets with a channel for each port.

use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};

use serde_json::Map;

use super::{
    audit, copy, node,
    pod::Pod,
    remote::{spdy, spdy_accepted},
    request::StreamRequest,
    upgrade::{Client, STREAM_PROTOCOL, UpgradeRequest},
    websocket,
};
use crate::{
    Body, NodeAnswer, NodeRequest,
    request::{call::Call, query::Query},
    status::StatusError,
};

/// The prefix of the subprotocol of a WebSocket that tunnels SPDY.
const TUNNEL: &str = "SPDY/3.1+";
/// Subprotocols of WebSockets with channels, which the container runtime implements.
const CHANNELS: [&str; 2] = ["v4.channel.k8s.io", "v4.base64.channel.k8s.io"];
/// The most ports over one WebSocket; a channel's number is one byte.
const PORTS: usize = 128;

/// Forwards ports of a pod.
pub(super) async fn answer(wanted: StreamRequest<'_>) -> Result<Response<Body>, StatusError> {
    let Call { target, query, .. } = wanted.call;
    let pod = Pod::find(wanted.api, target).await?;
    let host = pod.host()?.to_owned();
    let asked = UpgradeRequest::of(&wanted.parts.headers)?;
    let ports: Vec<_> = query
        .all("ports")
        .flat_map(|list| list.split(','))
        .filter_map(|one| one.parse::<u16>().ok())
        .collect();
    let described = if ports.is_empty() {
        Map::new()
    } else {
        Map::from_iter([("ports".to_owned(), ports.into())])
    };
    wanted.admit(described).await?;
    let StreamRequest {
        api,
        streams,
        caller,
        mut parts,
        ..
    } = wanted;
    let path = format!("/portForward/{}/{}", target.namespace, target.name);
    let handshake = match &asked {
        UpgradeRequest::Spdy => None,
        UpgradeRequest::WebSocket(handshake) => Some(handshake),
    };
    let tunnelled = handshake.and_then(|handshake| {
        handshake
            .protocols
            .iter()
            .find_map(|protocol| protocol.strip_prefix(TUNNEL))
    });
    let request = match (handshake, tunnelled) {
        (None, _) => spdy(path, parts.headers.get_all(STREAM_PROTOCOL).iter()),
        (Some(_), Some(protocol)) => {
            let protocol = HeaderValue::from_str(protocol)
                .map_err(|_| StatusError::bad_request("a subprotocol has a bad name"))?;
            spdy(path, [&protocol])
        }
        (Some(handshake), None) => {
            let known = |offer: &String| CHANNELS.contains(&offer.as_str());
            let protocols: Vec<_> = handshake
                .protocols
                .iter()
                .filter(|offer| known(offer))
                .cloned()
                .collect();
            if protocols.is_empty() && !handshake.protocols.is_empty() {
                return Err(handshake.refusal(&[
                    "SPDY/3.1+portforward.k8s.io",
                    CHANNELS[0],
                    CHANNELS[1],
                ]));
            }
            channels(path, query, &protocols, &parts.headers)?
        }
    };
    let client = Client::of(&mut parts)?;
    let slot = api.slots().take(caller, &host)?;
    audit::stream_started(caller, target, "", &[]);
    let (head, io) = match node::send_request(streams, &host, request).await? {
        NodeAnswer::Response(answer) => return node::relay_answer(answer).await,
        NodeAnswer::Upgraded(head, io) => (head, io),
    };
    let Some(handshake) = handshake.filter(|_| tunnelled.is_some()) else {
        let headers = if handshake.is_some() {
            websocket_accepted(&head.headers)
        } else {
            spdy_accepted(&head.headers)
        };
        return Ok(client.switch(headers, move |client| async move {
            copy::both(client, io).await;
            drop(slot);
        }));
    };
    let spoken = head
        .headers
        .get(STREAM_PROTOCOL)
        .and_then(|protocol| protocol.to_str().ok());
    let Some(spoken) = spoken else {
        let why = format!("node {host:?} has accepted no protocol of streams");
        return Err(StatusError::of_node(StatusCode::BAD_GATEWAY, why));
    };
    let headers = handshake.response_headers(&format!("{TUNNEL}{spoken}"))?;
    Ok(client.switch(headers, move |client| async move {
        websocket::tunnel(client, io).await;
        drop(slot);
    }))
}

/// Passes the client's handshake on to the runtime, which needs the ports in the query.
fn channels(
    path: String,
    query: &Query,
    protocols: &[String],
    client: &HeaderMap,
) -> Result<NodeRequest, StatusError> {
    let ports = query.all("ports").flat_map(|list| list.split(','));
    let ports: Result<Vec<u16>, _> = ports.map(str::parse).collect();
    let ports = ports
        .map_err(|_| StatusError::bad_request("query parameter ports: not a list of ports"))?;
    if ports.is_empty() || ports.len() > PORTS {
        let why = format!(
            "query parameter ports: between 1 and {PORTS} ports are needed over a WebSocket"
        );
        return Err(StatusError::bad_request(why));
    }
    let ports: Vec<_> = ports.iter().map(u16::to_string).collect();
    let path_and_query = format!("{path}?port={}", ports.join("%2C"));
    let mut headers = HeaderMap::new();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    for name in [header::SEC_WEBSOCKET_KEY, header::SEC_WEBSOCKET_VERSION] {
        if let Some(value) = client.get(&name) {
            headers.insert(name, value.clone());
        }
    }
    if let Ok(protocols) = HeaderValue::from_str(&protocols.join(", "))
        && !protocols.is_empty()
    {
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, protocols);
    }
    Ok(NodeRequest {
        method: Method::GET,
        path_and_query,
        headers,
    })
}

fn websocket_accepted(node: &HeaderMap) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for name in [
        header::UPGRADE,
        header::SEC_WEBSOCKET_ACCEPT,
        header::SEC_WEBSOCKET_PROTOCOL,
    ] {
        if let Some(value) = node.get(&name) {
            headers.insert(name, value.clone());
        }
    }
    headers
}
