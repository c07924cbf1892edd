//! `pods/<name>/binding`: how a scheduler gives a pod its node.

use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::{
    merge::next_generation,
    write::{Next, modify, timestamp},
};
use crate::{
    Api, Body, body,
    object::{as_map, child, is_deleting, text, text_or_empty},
    service::Call,
    status::{Cause, StatusError},
};

/// Binds the request's pod to the node that the `Binding` names.
pub(crate) async fn bind(api: &Api, call: &Call) -> Result<Response<Body>, StatusError> {
    let binding = body::parse(&call.headers, &call.body)?;
    let node = text_or_empty(&binding, "/target/name").to_owned();
    let (kind, name) = (&call.target.kind, &call.target.name);
    let wrong = match text(&binding, "/target/kind") {
        _ if node.is_empty() => Some(Cause::required("target.name", "")),
        None | Some("" | "Node") => None,
        Some(other) => Some(Cause::unsupported("target.kind", &json!(other), &["Node"])),
    };
    if let Some(cause) = wrong {
        return Err(StatusError::invalid("", "Binding", name, vec![cause]));
    }
    modify(api, call, |pod| {
        let bound = text_or_empty(pod, "/spec/nodeName");
        if is_deleting(pod) {
            let why = format!("pod {name} is being deleted, cannot be assigned to a host");
            return Err(StatusError::conflict(kind, name, &why));
        }
        if !bound.is_empty() {
            let why = format!("pod {name} is already assigned to node {bound:?}");
            return Err(StatusError::conflict(kind, name, &why));
        }
        Ok(Next::Replace(bound_to(pod, &node, &timestamp(Duration::ZERO))))
    })
    .await?;
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(body::answer(StatusCode::CREATED, Bytes::from(status.to_string()), &[]))
}

fn bound_to(pod: &Value, node: &str, now: &str) -> Value {
    let mut bound = pod.clone();
    let map = as_map(&mut bound);
    child(map, "spec").insert("nodeName".into(), node.into());
    let conditions = child(map, "status").entry("conditions").or_insert_with(|| json!([]));
    if let Value::Array(conditions) = conditions {
        conditions.retain(|condition| text(condition, "/type") != Some("PodScheduled"));
        conditions.push(json!({
            "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now,
        }));
    }
    next_generation(&mut bound);
    bound
}
