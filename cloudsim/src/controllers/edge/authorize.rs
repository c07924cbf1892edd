//! Authorizes nodes' requests: a node reaches its own Node, Lease and pods, what those pods reference, and nothing else. Pure.

use serde_json::Value;
use wire::ResourceType;

use super::{
    content::mismatch,
    index::Index,
    request::{Request, Verb},
    restriction::{self, LEASES},
};
use crate::mailbox::{ObjectKind, ObjectPath};

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Denied(pub(super) String);

/// The stored objects that authorization needs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stored<'a> {
    /// The uid of the node's Node.
    pub(super) node_uid: Option<&'a str>,
    /// The object whose status is patched, or the Lease that is written with finalizers or other owners.
    pub(super) object: Option<&'a Value>,
    /// Whether a job at work on the node names the Secret.
    pub(super) is_for_job: bool,
}

/// The rule for a verb on a resource type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// The node registers under its own name, within `NodeRestriction`.
    NewNode,
    /// The node's own Node.
    OwnNode,
    /// A patch of the own Node's status, and of nothing else.
    NodeStatus,
    /// The node's own Lease.
    OwnLease,
    /// A mirror pod of this node.
    MirrorPod,
    /// A pod on the node.
    PodOnNode,
    /// A patch of the status of a pod on the node, and of nothing else.
    PodStatus,
    /// An object that a pod on the node references.
    Referenced(ObjectKind),
    /// An event about the node or a pod on it.
    OwnEvent,
    /// A patch with an event about the node or a pod on it.
    EventPatch,
    /// A token of an account of a pod on the node; `tokens` decides.
    PodToken,
    /// A volume that a pod on the node claims, or an attachment to the node; `storage` decides.
    Storage,
    /// A certificate request of the node itself; `certificates` decides.
    OwnCertificate,
    /// Never allowed.
    Never,
}

/// Returns the rule for a request. Every resource type is listed.
pub(super) fn rule(kind: &ResourceType, verb: Verb) -> Rule {
    use ResourceType as T;
    use Verb as V;
    match (kind, verb) {
        (T::Node, V::Insert) => Rule::NewNode,
        (T::NodePatch, V::Patch) => Rule::NodeStatus,
        (T::Node | T::NodePatch | T::NodeStatus, _) => Rule::OwnNode,
        (T::Lease, _) => Rule::OwnLease,
        (T::Pod, V::Insert) => Rule::MirrorPod,
        (T::PodPatch, V::Patch) => Rule::PodStatus,
        (T::Pod | T::PodPatch | T::PodStatus, _) => Rule::PodOnNode,
        (T::ConfigMap, _) => Rule::Referenced(ObjectKind::ConfigMap),
        (T::Secret, _) => Rule::Referenced(ObjectKind::Secret),
        (T::Event, V::Insert | V::Update | V::Delete) => Rule::OwnEvent,
        (T::Event, V::Patch) => Rule::EventPatch,
        (T::ServiceAccountToken, V::Query) => Rule::PodToken,
        (T::PersistentVolume | T::PersistentVolumeClaim | T::VolumeAttachment, V::Query) => {
            Rule::Storage
        }
        (T::CertificateSigningRequest, V::Insert | V::Query) => Rule::OwnCertificate,
        (
            T::Event
            | T::ServiceAccountToken
            | T::PersistentVolume
            | T::PersistentVolumeClaim
            | T::VolumeAttachment
            | T::CertificateSigningRequest
            | T::PodList
            | T::ServiceAccountAccess
            | T::Volume
            | T::Device
            | T::DeviceModel
            | T::DeviceMapper
            | T::RuleStatus
            | T::Rule
            | T::RuleEndpoint
            | T::Other(_),
            _,
        ) => Rule::Never,
    }
}

/// Checks a request of `node`, except where another module decides once it has read stored objects.
pub(super) fn authorize(
    node: &str,
    request: &Request<'_>,
    index: &Index,
    stored: Stored<'_>,
) -> Result<(), Denied> {
    let Request {
        namespace,
        name,
        content,
        ..
    } = request;
    let rule = rule(&request.kind, request.verb);
    let is_own = match rule {
        Rule::NewNode | Rule::OwnNode | Rule::NodeStatus => *name == node && is_named(request),
        Rule::OwnLease => *namespace == LEASES && *name == node && is_named(request),
        Rule::MirrorPod => is_named(request),
        Rule::PodOnNode | Rule::PodStatus => index.pod_on(node, namespace, name),
        Rule::Referenced(kind) => {
            stored.is_for_job || index.concerns(node, &ObjectPath::new(kind, *namespace, *name))
        }
        Rule::OwnEvent => is_reported_by(node, content, index),
        // checks the event in the patch; the stored event is checked before it is patched
        Rule::EventPatch => is_reported_by(node, &content["event"], index),
        Rule::PodToken | Rule::Storage | Rule::OwnCertificate | Rule::Never => false,
    };
    if !is_own {
        return Err(denial(node, request));
    }
    let object = match (rule, request.verb) {
        (Rule::EventPatch, _) => Some(&content["event"]),
        (_, Verb::Insert | Verb::Update) => Some(*content),
        _ => None,
    };
    if let Some(why) = object.and_then(|object| mismatch(request, object)) {
        return Err(Denied(format!(
            "{} of node {node} is refused: {why}",
            describe(request)
        )));
    }
    check_restricted(node, rule, content, stored).map_err(|why| {
        Denied(format!(
            "{}, so it is refused: node {node} {why}",
            describe(request)
        ))
    })
}

/// Checks what a node writes about its own objects.
fn check_restricted(
    node: &str,
    rule: Rule,
    content: &Value,
    stored: Stored<'_>,
) -> Result<(), String> {
    match rule {
        Rule::NewNode => restriction::new_node(content),
        Rule::OwnLease => restriction::lease(node, content, stored.object),
        Rule::MirrorPod => restriction::new_pod(node, stored.node_uid, content),
        Rule::NodeStatus | Rule::PodStatus => {
            let patch = patch_of(content)
                .map_err(|error| format!("sends a patch that is not JSON: {error}"))?;
            let before = stored.object.unwrap_or(&Value::Null);
            restriction::status_patch(&patch, before, rule == Rule::NodeStatus)
        }
        _ => Ok(()),
    }
}

/// Returns a status patch: it is sent as JSON text in a string, or as an object.
pub(super) fn patch_of(patch: &Value) -> Result<Value, serde_json::Error> {
    match patch {
        Value::String(text) => serde_json::from_str(text),
        object => Ok(object.clone()),
    }
}

/// Builds the refusal of a request for an object that is not the node's.
pub(super) fn denial(node: &str, request: &Request<'_>) -> Denied {
    Denied(format!(
        "{} is not node {node}'s: a node reaches only itself, its pods and what they reference",
        describe(request)
    ))
}

fn describe(request: &Request<'_>) -> String {
    let Request {
        kind,
        namespace,
        name,
        ..
    } = request;
    let place = if namespace.is_empty() {
        String::new()
    } else {
        format!(" in namespace {namespace}")
    };
    format!("{kind} \"{name}\"{place}")
}

/// Reports whether the object to create has the requested name: it would be created under its own.
fn is_named(request: &Request<'_>) -> bool {
    request.verb != Verb::Insert || request.content["metadata"]["name"] == request.name
}

/// Reports whether the event is about the node or one of its pods.
pub(super) fn is_reported_by(node: &str, event: &Value, index: &Index) -> bool {
    let involved = &event["involvedObject"];
    let text = |field: &str| involved[field].as_str().unwrap_or_default();
    let owner = match involved["kind"].as_str() {
        Some("Node") => Some(text("name")),
        // The end of a deleted pod may still be reported.
        Some("Pod") => index.node_of(text("namespace"), text("name")),
        _ => None,
    };
    owner.or_else(|| event["source"]["host"].as_str()) == Some(node)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wire::{Change, Upstream};

    use super::*;

    fn index() -> Index {
        let mut index = Index::default();
        for (pod, node) in [("mine", "edge-1"), ("theirs", "edge-2")] {
            let pod = json!({"metadata": {"name": pod, "namespace": "ns", "uid": format!("uid-{pod}")},
                "spec": {"nodeName": node, "serviceAccountName": format!("sa-{pod}"),
                    "volumes": [{"name": "v", "secret": {"secretName": format!("secret-{pod}")}},
                                {"name": "w", "configMap": {"name": format!("config-{pod}")}}],
                    "containers": [{"name": "c"}]}});
            index.apply(&serde_json::from_value(pod).unwrap());
        }
        index
    }

    /// Every request that names another node's object is refused, the same request about the own object is allowed.
    #[test]
    fn a_node_reaches_its_own_objects_and_no_others() {
        use ResourceType as T;
        let event =
            |pod: &str| json!({"involvedObject": {"kind": "Pod", "namespace": "ns", "name": pod}});
        let owner = |node: &str| json!([{"apiVersion": "v1", "kind": "Node", "name": node, "uid": "u", "controller": true}]);
        let mirror = |node: &str| {
            json!({"metadata": {"name": "m", "annotations": {"kubernetes.io/config.mirror": "x"}, "ownerReferences": owner(node)},
            "spec": {"nodeName": node, "containers": []}})
        };
        let named = |name: &str| json!({"metadata": {"name": name}});
        let rows: Vec<(Upstream, Upstream)> = vec![
            (
                Upstream::put(Change::Insert, "", &T::Node, "edge-1", named("edge-1")),
                Upstream::put(Change::Insert, "", &T::Node, "edge-2", named("edge-2")),
            ),
            (
                Upstream::put(
                    Change::Insert,
                    "kube-node-lease",
                    &T::Lease,
                    "edge-1",
                    named("edge-1"),
                ),
                Upstream::put(
                    Change::Insert,
                    "kube-node-lease",
                    &T::Lease,
                    "edge-1",
                    named("edge-2"),
                ),
            ),
            (
                Upstream::put(Change::Update, "", &T::Node, "edge-1", json!({})),
                Upstream::put(Change::Update, "", &T::Node, "edge-2", json!({})),
            ),
            (
                Upstream::query("", &T::Node, "edge-1"),
                Upstream::query("", &T::Node, "edge-2"),
            ),
            (
                Upstream::node_patch("edge-1", "{}".into()),
                Upstream::node_patch("edge-2", "{}".into()),
            ),
            (
                Upstream::put(
                    Change::Update,
                    "kube-node-lease",
                    &T::Lease,
                    "edge-1",
                    json!({}),
                ),
                Upstream::put(
                    Change::Update,
                    "kube-node-lease",
                    &T::Lease,
                    "edge-2",
                    json!({}),
                ),
            ),
            (
                Upstream::query("kube-node-lease", &T::Lease, "edge-1"),
                Upstream::query("kube-node-lease", &T::Lease, "edge-2"),
            ),
            (
                Upstream::pod_patch("ns", "mine", "{}".into()),
                Upstream::pod_patch("ns", "theirs", "{}".into()),
            ),
            (
                Upstream::pod_delete("ns", "mine", "u"),
                Upstream::pod_delete("ns", "theirs", "u"),
            ),
            (
                Upstream::put(Change::Insert, "ns", &T::Pod, "m", mirror("edge-1")),
                Upstream::put(Change::Insert, "ns", &T::Pod, "m", mirror("edge-2")),
            ),
            (
                Upstream::query("ns", &T::ConfigMap, "config-mine"),
                Upstream::query("ns", &T::ConfigMap, "config-theirs"),
            ),
            (
                Upstream::query("ns", &T::Secret, "secret-mine"),
                Upstream::query("ns", &T::Secret, "secret-theirs"),
            ),
            (
                Upstream::put(Change::Insert, "ns", &T::Event, "e", event("mine")),
                Upstream::put(Change::Insert, "ns", &T::Event, "e", event("theirs")),
            ),
        ];
        compare(rows);
    }

    /// The same of its own objects: what it may not say of them.
    #[test]
    fn a_node_says_of_its_own_objects_what_is_its_own_to_say() {
        use ResourceType as T;
        compare(vec![
            (
                Upstream::query("kube-node-lease", &T::Lease, "edge-1"),
                Upstream::query("ns", &T::Lease, "edge-1"),
            ),
            (
                Upstream::node_patch("edge-1", json!({"status": {}}).to_string()),
                Upstream::node_patch(
                    "edge-1",
                    json!({"metadata": {"labels": {"a": "b"}}}).to_string(),
                ),
            ),
            (
                Upstream::pod_patch("ns", "mine", json!({"status": {}}).to_string()),
                Upstream::pod_patch(
                    "ns",
                    "mine",
                    json!({"metadata": {"finalizers": ["a/b"]}}).to_string(),
                ),
            ),
        ]);
    }

    /// What an object says of itself is what its path says: it is sent to the API at that path.
    #[test]
    fn an_object_is_the_one_that_its_path_names() {
        use ResourceType as T;
        let event = |extra: Value| {
            let mut event = json!({"metadata": {"name": "e", "namespace": "ns"}, "involvedObject": {"kind": "Node", "name": "edge-1"}});
            event
                .as_object_mut()
                .unwrap()
                .extend(extra.as_object().unwrap().clone());
            event
        };
        let insert = |event: Value| Upstream::put(Change::Insert, "ns", &T::Event, "e", event);
        let patch = |event: Value| Upstream::Patch {
            path: wire::ResourcePath::object("ns", &T::Event, "e"),
            patch: json!({"event": event, "patchData": "{}"}),
        };
        let lease = |name: &str, kind: &str| {
            let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": kind, "metadata": {"name": name}});
            Upstream::put(
                Change::Update,
                "kube-node-lease",
                &T::Lease,
                "edge-1",
                lease,
            )
        };
        let good = event(json!({"apiVersion": "v1", "kind": "Event"}));
        compare(vec![
            (
                insert(event(json!({}))),
                insert(event(json!({"kind": "Namespace", "apiVersion": "v1"}))),
            ),
            (insert(good.clone()), insert(event(json!({"kind": "Pod"})))),
            (
                insert(good.clone()),
                insert(event(json!({"apiVersion": "apps/v1"}))),
            ),
            (
                insert(good.clone()),
                insert(event(
                    json!({"metadata": {"name": "e", "namespace": "kube-system"}}),
                )),
            ),
            (
                insert(good.clone()),
                insert(event(json!({"metadata": {"name": "f", "namespace": "ns"}}))),
            ),
            (
                insert(good.clone()),
                insert(event(json!({"kind": ["Event"]}))),
            ),
            (
                patch(good.clone()),
                patch(event(
                    json!({"metadata": {"name": "e", "namespace": "kube-system"}}),
                )),
            ),
            (lease("edge-1", "Lease"), lease("edge-2", "Lease")),
            (lease("edge-1", "Lease"), lease("edge-1", "Node")),
        ]);
    }

    /// The request that the message is.
    fn request(body: &Upstream) -> Request<'_> {
        let (verb, path, content) = match body {
            Upstream::Object {
                change,
                path,
                object,
            } => ((*change).into(), path, object),
            Upstream::Patch { path, patch } => (Verb::Patch, path, patch),
            Upstream::Query { path, content } => (Verb::Query, path, content),
            other => panic!("{other:?}"),
        };
        Request::new(verb, path, content).unwrap()
    }

    fn compare(rows: Vec<(Upstream, Upstream)>) {
        let index = index();
        let stored = Stored {
            node_uid: Some("u"),
            ..Stored::default()
        };
        for (own, foreign) in rows {
            let own_request = request(&own);
            assert_eq!(
                authorize("edge-1", &own_request, &index, stored),
                Ok(()),
                "{own:?}"
            );
            let foreign_request = request(&foreign);
            assert!(
                authorize("edge-1", &foreign_request, &index, stored).is_err(),
                "{foreign:?}"
            );
        }
    }

    #[test]
    fn the_end_of_a_pod_can_be_told_when_it_is_gone() {
        let allowed = |host: &str, pod: &str| {
            let event = json!({"involvedObject": {"kind": "Pod", "namespace": "ns", "name": pod}, "source": {"host": host}});
            let body = Upstream::put(Change::Insert, "ns", &ResourceType::Event, "e", event);
            authorize("edge-1", &request(&body), &index(), Stored::default()).is_ok()
        };
        assert!(allowed("edge-1", "gone"));
        assert!(!allowed("edge-2", "gone"), "in another's name");
        assert!(!allowed("edge-1", "theirs"), "it is there, and another's");
    }

    #[test]
    fn other_kinds_are_refused_by_name() {
        let body = Upstream::query("ns", &ResourceType::PersistentVolumeClaim, "x");
        let denied = authorize("edge-1", &request(&body), &index(), Stored::default()).unwrap_err();
        assert!(
            denied
                .0
                .contains("persistentvolumeclaim \"x\" in namespace ns is not node edge-1's"),
            "{}",
            denied.0
        );
    }
}
