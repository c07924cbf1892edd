//! `nodes/proxy`: requests to a node's kubelet.

use http::{HeaderMap, Method, Response, header};
use serde_json::Value;

use super::{
    headers::{request_headers, response_headers},
    links,
    name::Name,
    path::ProxyPath,
};
use crate::{
    Body, NodeAnswer, NodeRequest,
    request::path::Target,
    status::StatusError,
    streams::{
        audit, copy, node,
        request::StreamRequest,
        upgrade::{Client, STREAM_PROTOCOL, UpgradeRequest},
    },
    verbs::get::find,
};

/// The kubelet's port where the node's status has none.
const KUBELET_PORT: u64 = 10250;
/// Headers of a node's response that accepts an upgrade.
const UPGRADE_HEADERS: [header::HeaderName; 4] = [
    header::UPGRADE,
    STREAM_PROTOCOL,
    header::SEC_WEBSOCKET_ACCEPT,
    header::SEC_WEBSOCKET_PROTOCOL,
];

/// Proxies a request for a page or a stream.
pub(super) async fn answer(
    wanted: StreamRequest<'_>,
    target: &Target,
    name: &Name,
    place: &ProxyPath,
) -> Result<Response<Body>, StatusError> {
    let object = find(wanted.api, target).await?.value()?;
    let port = object
        .pointer("/status/daemonEndpoints/kubeletEndpoint/Port")
        .and_then(Value::as_u64);
    let port = port.filter(|port| *port > 0).unwrap_or(KUBELET_PORT);
    if name
        .number()?
        .is_some_and(|asked| u64::from(asked) != port && u64::from(asked) != KUBELET_PORT)
    {
        let why = format!("only the kubelet of a node can be reached, on port {port}");
        return Err(StatusError::bad_request(why));
    }
    let is_upgrade = UpgradeRequest::of(&wanted.parts.headers).is_ok();
    if wanted.parts.method != Method::GET && !(is_upgrade && wanted.parts.method == Method::POST) {
        // a node takes no bodies
        return Err(StatusError::method_not_allowed());
    }
    let slot = wanted.api.slots().take(wanted.caller, &target.name)?;
    audit::stream_started(wanted.caller, &wanted.call.target, "", &[&place.path]);
    let StreamRequest {
        streams, mut parts, ..
    } = wanted;
    let mut headers = request_headers(&parts, place);
    if is_upgrade {
        for wanted in [header::CONNECTION, header::UPGRADE] {
            if let Some(value) = parts.headers.get(&wanted) {
                headers.insert(wanted, value.clone());
            }
        }
    }
    let request = NodeRequest {
        method: parts.method.clone(),
        path_and_query: place.path_and_query(),
        headers,
    };
    match node::send_request(streams, &target.name, request).await? {
        NodeAnswer::Response(answer) => {
            let (mut head, body) = answer.into_parts();
            let body = links::through_proxy(&head.headers, node::hold_slot(body, slot), place);
            head.headers = response_headers(&head, place);
            Ok(Response::from_parts(head, body))
        }
        NodeAnswer::Upgraded(head, io) => {
            let mut headers = HeaderMap::new();
            for name in UPGRADE_HEADERS {
                if let Some(value) = head.headers.get(&name) {
                    headers.insert(name, value.clone());
                }
            }
            let client = Client::of(&mut parts)?;
            Ok(client.switch(headers, move |client| async move {
                copy::both(client, io).await;
                drop(slot);
            }))
        }
    }
}
