//! How the kit's cloud answers an edge: as KubeEdge's cloud does with an API server that has only these objects.

use peer::now_ms;
use serde_json::{Value, json};
use wire::{Answer, Change, Downstream, Message, ObjectResp, ResourceType, Up, Upstream};

use super::state::Cloud;

const LEASES: &str = "kube-node-lease/lease/";

/// Returns the messages that answer a message of the edge.
pub(super) fn answers(cloud: &Cloud, message: &Message) -> Vec<Message> {
    let id = message.header.msg_id.clone();
    let answer = |downstream: Downstream| vec![downstream.into_message(now_ms()).answering(&id)];
    let path = &message.route.resource;
    let respond = |answer_with: Answer| Downstream::Answer {
        path: path.clone(),
        answer: answer_with,
    };
    match Up::from(message.clone()).body {
        Upstream::Object {
            change,
            path,
            object,
        } => {
            let Some(kind) = path.as_object().map(|object| object.kind) else {
                return Vec::new();
            };
            match (change, kind) {
                (_, ResourceType::Event) => Vec::new(),
                (Change::Delete, ResourceType::Pod) => pod_end(cloud, &id, message),
                (Change::Insert, ResourceType::Node) => register(cloud, &id, message, object),
                _ => {
                    let stored = cloud.store(path.as_str(), object);
                    answer(respond(Answer::Response(ObjectResp::ok(stored))))
                }
            }
        }
        Upstream::Patch { path, patch } => patch_answer(cloud, path.as_str(), &patch)
            .map(|(object, echo)| {
                let revision = object["metadata"]["resourceVersion"].clone();
                let first = respond(Answer::Response(ObjectResp::ok(object)))
                    .into_message(now_ms())
                    .answering(&id)
                    .at_revision(revision.as_str().unwrap_or_default());
                [Some(first), echo].into_iter().flatten().collect()
            })
            .unwrap_or_default(),
        Upstream::Query { path, content } => query(cloud, &id, path.as_str(), content),
        Upstream::RootCa(_) => {
            let pem = wire::enroll::pem_certificate(cloud.ca.cert_der());
            answer(Downstream::RootCa(Value::from(pem)))
        }
        Upstream::Device { .. } => answer(Downstream::TwinConfirmed(Value::from("OK"))),
        // KubeEdge does not answer these, or not with its default configuration.
        Upstream::Keepalive(_)
        | Upstream::Shutdown
        | Upstream::Ack { .. }
        | Upstream::MembershipDetail(_)
        | Upstream::BusUpload { .. }
        | Upstream::BusAnswer { .. }
        | Upstream::ServiceUpload { .. }
        | Upstream::Application(_)
        | Upstream::WatchSync(_)
        | Upstream::ActionStatus { .. }
        | Upstream::TaskStatus { .. }
        | Upstream::Unknown { .. } => Vec::new(),
    }
}

fn status(code: u16, reason: &str, message: String) -> Value {
    json!({"metadata": {}, "status": "Failure", "message": message, "reason": reason, "code": code})
}

/// Registers the node, and sends it its Node.
fn register(cloud: &Cloud, id: &str, message: &Message, object: Value) -> Vec<Message> {
    let path = message.route.resource.as_str();
    let known = cloud.state.lock().objects.get(path).cloned();
    let (answer, mut node) = match known {
        Some(node) => {
            let text = format!("nodes {path:?} already exists");
            let status = status(409, "AlreadyExists", text);
            (ObjectResp::failed(status), node)
        }
        None => {
            let stored = cloud.store(path, object);
            (ObjectResp::ok(stored.clone()), stored)
        }
    };
    node["kind"] = json!("Node");
    node["apiVersion"] = json!("v1");
    let answer = Downstream::Answer {
        path: message.route.resource.clone(),
        answer: Answer::Response(answer),
    };
    vec![
        answer.into_message(now_ms()).answering(id),
        Cloud::message_of(Change::Update, path, node),
    ]
}

/// Finishes the deletion of a pod: the answer, and the deletion.
fn pod_end(cloud: &Cloud, id: &str, message: &Message) -> Vec<Message> {
    let path = message.route.resource.clone();
    let pod = cloud.change(|state| state.objects.remove(path.as_str()));
    let answer = Downstream::Answer {
        path: path.clone(),
        answer: Answer::Done,
    };
    let mut messages = vec![answer.into_message(now_ms()).answering(id)];
    if let Some(pod) = pod {
        messages.push(Cloud::message_of(Change::Delete, path.as_str(), pod));
    }
    messages
}

/// Applies a patch of a node's or pod's status: the object, and for a pod the update that KubeEdge sends for each change.
fn patch_answer(cloud: &Cloud, path: &str, patch: &Value) -> Option<(Value, Option<Message>)> {
    let body: Value = match patch {
        Value::String(text) => serde_json::from_str(text).ok()?,
        other => other.clone(),
    };
    if path.contains("/nodepatch/") {
        let path = path.replace("/nodepatch/", "/node/");
        return Some((cloud.patch_status(&path, "Node", &body)?, None));
    }
    if !path.contains("/podpatch/") {
        return None;
    }
    let path = path.replace("/podpatch/", "/pod/");
    let object = cloud.patch_status(&path, "Pod", &body)?;
    let echo = Cloud::message_of(Change::Update, &path, object.clone());
    Some((object, Some(echo)))
}

fn query(cloud: &Cloud, id: &str, path: &str, content: Value) -> Vec<Message> {
    let downstream = |answer| Downstream::Answer {
        path: wire::ResourcePath::from(path.to_owned()),
        answer,
    };
    if path.contains("/serviceaccounttoken/") {
        let mut request = content;
        request["kind"] = json!("TokenRequest");
        request["apiVersion"] = json!("authentication.k8s.io/v1");
        request["status"] =
            json!({"token": "e30.e30.e30", "expirationTimestamp": "2099-01-01T00:00:00Z"});
        let answer = downstream(Answer::Found(request));
        return vec![answer.into_message(now_ms()).answering(id)];
    }
    let found = cloud.state.lock().objects.get(path).cloned();
    let missing = || status(404, "NotFound", format!("{path:?} not found"));
    let (answer, revision) = match (found, path.starts_with(LEASES)) {
        (Some(object), lease) => {
            let revision = object["metadata"]["resourceVersion"].clone();
            let answer = if lease {
                Answer::Response(ObjectResp::ok(object))
            } else {
                Answer::Found(object)
            };
            (answer, revision)
        }
        (None, true) => (Answer::Response(ObjectResp::failed(missing())), Value::Null),
        (None, false) => (Answer::Failed(missing()), Value::Null),
    };
    let message = downstream(answer)
        .into_message(now_ms())
        .answering(id)
        .at_revision(revision.as_str().unwrap_or_default());
    vec![message]
}
