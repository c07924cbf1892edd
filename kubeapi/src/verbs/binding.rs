//! `pods/<name>/binding`: a scheduler assigns a pod to a node.

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::{
    update::check_expected,
    write::{Change, modify},
};
use crate::{
    Api, Body,
    cause::Cause,
    object::{
        as_map, child, deletion::Next, is_deleting, metadata, text, text_or_empty, timestamp::now,
    },
    request::{body, call::Call, request_type},
    status::StatusError,
    validate::decode_body,
};

/// Binds the request's pod to the node that the `Binding` names.
pub(crate) async fn bind(api: &Api, call: &Call) -> Result<Response<Body>, StatusError> {
    let (binding, warnings) = decode_body(
        &request_type::BINDING,
        &call.headers,
        &call.body,
        &call.query,
    )?;
    let (kind, name) = (&call.target.kind, &call.target.name);
    let node = target(&binding, name)?;
    modify(api, call, Change::Note, |pod| {
        check_expected(call, &binding, pod)?;
        let refuse = |why: &str| Err(StatusError::part_conflict(kind, "binding", name, why));
        if is_deleting(pod) {
            return refuse(&format!(
                "pod {name} is being deleted, cannot be assigned to a host"
            ));
        }
        match text_or_empty(pod, "/spec/nodeName") {
            "" => {
                let mut bound = bind_pod(pod, &node, &now());
                if let Some(Value::Object(annotations)) = binding.pointer("/metadata/annotations") {
                    child(metadata(&mut bound), "annotations").extend(annotations.clone());
                }
                Ok(Next::Replace(bound))
            }
            other => refuse(&format!("pod {name} is already assigned to node {other:?}")),
        }
    })
    .await?;
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(body::answer(
        StatusCode::CREATED,
        Bytes::from(status.to_string()),
        &warnings,
    ))
}

/// Returns the node in `binding`, which must be for the pod `name`.
fn target(binding: &Value, name: &str) -> Result<String, StatusError> {
    if text_or_empty(binding, "/metadata/name") != name {
        return Err(StatusError::bad_request(
            "name in URL does not match name in Binding object",
        ));
    }
    let node = text_or_empty(binding, "/target/name");
    let wrong = match text_or_empty(binding, "/target/kind") {
        _ if node.is_empty() => Cause::required("target.name", ""),
        "" | "Node" => return Ok(node.to_owned()),
        other => Cause::unsupported("target.kind", &json!(other), &["Node", "<empty>"]),
    };
    Err(StatusError::invalid("", "Binding", name, vec![wrong]))
}

/// Sets the node of a pod. The generation is unchanged, since the node is not part of the author's specification.
fn bind_pod(pod: &Value, node: &str, now: &str) -> Value {
    let mut bound = pod.clone();
    let map = as_map(&mut bound);
    child(map, "spec").insert("nodeName".into(), node.into());
    let conditions = child(map, "status")
        .entry("conditions")
        .or_insert_with(|| json!([]));
    if let Value::Array(conditions) = conditions {
        conditions.retain(|condition| text(condition, "/type") != Some("PodScheduled"));
        conditions.push(json!({
            "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now,
        }));
    }
    bound
}
