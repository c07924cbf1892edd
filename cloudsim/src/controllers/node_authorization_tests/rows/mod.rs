//! The rows of the table. N1 is node n1.

mod cluster;
mod nodes;
mod pods;
mod tokens;
mod volumes;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use wire::{
    Change, ResourceType as T, Upstream,
    application::Verb,
    enroll::{Csr, pem_certificate_request},
};

pub(super) use self::cluster::{ephemeral, objects};

/// How the request of a row is made.
#[derive(Clone, Debug)]
pub(super) enum NodeAction {
    /// By a node, over CloudHub.
    Hub(&'static str, Upstream),
    /// By N1's MetaServer: verb, objects, subresource, and body (the options of a list).
    Meta(Verb, &'static str, &'static str, Value),
    /// By an administrator, to the API.
    Api(&'static str, &'static str, Value),
    /// By another user, to the API.
    As(
        &'static str,
        &'static [&'static str],
        &'static str,
        &'static str,
    ),
}

/// The expected result.
#[derive(Clone, Debug)]
pub(super) enum Expect {
    /// Allowed, as in Kubernetes.
    Allow,
    /// 403, as in Kubernetes.
    Deny,
    /// This code, as in Kubernetes.
    Code(u16),
    /// 403, while Kubernetes allows it.
    Stricter(&'static str),
    /// Allowed, while Kubernetes refuses it.
    Wider(&'static str),
    /// The answer has only the node's own objects, while Kubernetes answers 403.
    Narrowed(&'static str),
}

/// A row: its subject, its requests, and what is tested elsewhere or does not apply.
pub(super) struct Row {
    pub(super) number: u16,
    pub(super) what: &'static str,
    pub(super) asks: Vec<(NodeAction, Expect)>,
    pub(super) note: &'static str,
}

const NO_CSI: &str = "no node mounts CSI volumes, so no node is shown their Secrets";
const NO_DRA: &str = "the kinds of dynamic resource allocation are only stored";
const NO_RESIZE: &str = "no node resizes volumes, so no node writes claims";
const ONE_BY_ONE: &str = "nodes ask for one object by name, and are sent what changes";
const OWN_ALONE: &str = "the call is carried out within a selector of the node's own";
const PROXIES: &str =
    "proxies on nodes read it as the node, through MetaServer; it says no more than addresses";

fn hub(upstream: Upstream) -> NodeAction {
    NodeAction::Hub("n1", upstream)
}

fn query(kind: T, name: &str) -> NodeAction {
    hub(Upstream::query("ns", &kind, name))
}

fn secret(name: &str) -> NodeAction {
    query(T::Secret, name)
}

fn map(name: &str) -> NodeAction {
    query(T::ConfigMap, name)
}

fn meta(verb: Verb, key: &'static str) -> NodeAction {
    NodeAction::Meta(verb, key, "", Value::Null)
}

fn part(verb: Verb, key: &'static str, part: &'static str, body: Value) -> NodeAction {
    NodeAction::Meta(verb, key, part, body)
}

fn reference(kind: &str, name: &str, uid: &str, audiences: &[&str]) -> Value {
    json!({"spec": {"audiences": audiences, "boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name, "uid": uid}}})
}

/// Requests a token for N1: over the hub, and through MetaServer.
fn token(
    account: &'static str,
    key: &'static str,
    request: &Value,
    expected: &Expect,
) -> Vec<(NodeAction, Expect)> {
    vec![
        (
            hub(Upstream::token("ns", account, request.clone())),
            expected.clone(),
        ),
        (
            part(Verb::Create, key, "token", request.clone()),
            expected.clone(),
        ),
    ]
}

fn token1(request: &Value, expected: &Expect) -> Vec<(NodeAction, Expect)> {
    token("sa1", "/core/v1/serviceaccounts/ns/sa1", request, expected)
}

fn owner() -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "$nodes/n1", "controller": true})
}

fn mirror(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "annotations": {"kubernetes.io/config.mirror": "h"}, "ownerReferences": [owner()]},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
    })
}

/// A mirror pod with another value in one place.
fn mirror_with(name: &str, pointer: &str, value: Value) -> NodeAction {
    let mut pod = mirror(name);
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    pod.pointer_mut(parent).unwrap()[field] = value;
    new_pod(pod)
}

fn new_pod(pod: Value) -> NodeAction {
    let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
    hub(Upstream::put(Change::Insert, "ns", &T::Pod, &name, pod))
}

fn new_node(node: &'static str, name: &str, labels: Value) -> NodeAction {
    let object = json!({"metadata": {"name": name, "labels": labels}, "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}});
    NodeAction::Hub(
        node,
        Upstream::put(Change::Insert, "", &T::Node, name, object),
    )
}

fn node_patch(name: &str, patch: Value) -> NodeAction {
    hub(Upstream::node_patch(name, patch.to_string()))
}

fn pod_patch(name: &str, patch: Value) -> NodeAction {
    hub(Upstream::pod_patch("ns", name, patch.to_string()))
}

fn lease(change: Change, namespace: &str, name: &str) -> NodeAction {
    let object = json!({"metadata": {"name": name, "namespace": namespace}, "spec": {"holderIdentity": name}});
    hub(Upstream::put(change, namespace, &T::Lease, name, object))
}

/// The node's own Lease with more in its metadata.
fn own_lease(metadata: Value) -> NodeAction {
    let (namespace, name) = ("kube-node-lease", "n1");
    let mut object = json!({"metadata": metadata, "spec": {"holderIdentity": name}});
    object["metadata"]["name"] = name.into();
    hub(Upstream::put(
        Change::Update,
        namespace,
        &T::Lease,
        name,
        object,
    ))
}

fn lease_owner(kind: &str, name: &str, blocks: bool) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "name": name, "uid": "u", "blockOwnerDeletion": blocks})
}

fn csr(name: &str, node: &str, signer: &str) -> NodeAction {
    let csr = Csr::for_server(node, &[[127, 0, 0, 1].into()]).unwrap();
    let object = json!({"metadata": {"name": name}, "spec": {
        "request": STANDARD.encode(pem_certificate_request(csr.der())), "signerName": signer,
        "usages": ["digital signature", "server auth"]}});
    hub(Upstream::put(
        Change::Insert,
        "default",
        &T::CertificateSigningRequest,
        name,
        object,
    ))
}

const SA1_TOKEN: &str = "/api/v1/namespaces/ns/serviceaccounts/sa1/token";

fn tokens_of_admin(request: Value) -> NodeAction {
    NodeAction::Api("POST", SA1_TOKEN, request)
}

fn seconds(seconds: u64) -> Value {
    json!({"spec": {"expirationSeconds": seconds}})
}

fn row(number: u16, what: &'static str, asks: Vec<(NodeAction, Expect)>) -> Row {
    Row {
        number,
        what,
        asks,
        note: "",
    }
}

fn elsewhere(number: u16, what: &'static str, note: &'static str) -> Row {
    Row {
        number,
        what,
        asks: Vec::new(),
        note,
    }
}

/// Returns all rows.
pub(super) fn table() -> Vec<Row> {
    let parts: [fn() -> Vec<Row>; 18] = [
        volumes::secrets_and_maps,
        volumes::more_secrets,
        volumes::volumes,
        volumes::devices,
        tokens::tokens,
        tokens::audiences,
        tokens::token_requests,
        tokens::ends,
        pods::pods,
        pods::mirrors,
        pods::parts,
        pods::subresources,
        nodes::nodes,
        nodes::node_patches,
        nodes::own_status,
        nodes::others,
        nodes::certificates,
        nodes::hubs,
    ];
    parts.into_iter().flat_map(|part| part()).collect()
}
