//! What becomes of an object of a dump, and of its fields. Pure.

use serde_json::{Map, Value};

use crate::fleet::Machine;

/// What becomes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is created, with the changed fields.
    Create,
    /// It is skipped, for this reason.
    Skip(&'static str),
}

/// The kinds that are skipped: group, kind (`*` for all of the group), reason.
const KINDS: [(&str, &str, &str); 17] = [
    ("", "Event", EVENTS),
    ("events.k8s.io", "*", EVENTS),
    ("coordination.k8s.io", "Lease", "its holder makes it"),
    ("", "ComponentStatus", MADE),
    ("apps", "ControllerRevision", MADE),
    ("discovery.k8s.io", "EndpointSlice", MADE),
    ("storage.k8s.io", "CSINode", MADE),
    ("storage.k8s.io", "VolumeAttachment", MADE),
    ("metrics.k8s.io", "*", MADE),
    ("certificates.k8s.io", "CertificateSigningRequest", KEYS),
    (
        "admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration",
        SERVER,
    ),
    (
        "admissionregistration.k8s.io",
        "MutatingWebhookConfiguration",
        SERVER,
    ),
    ("apiregistration.k8s.io", "APIService", SERVER),
    (
        "flowcontrol.apiserver.k8s.io",
        "*",
        "this cloud has no priority and fairness",
    ),
    ("reliablesyncs.kubeedge.io", "*", MADE),
    ("devices.kubeedge.io", "DeviceStatus", MADE),
    ("operations.kubeedge.io", "*", "the job would run again"),
];
/// The ConfigMaps with a CA of the cluster.
const CA_CONFIG_MAPS: [&str; 2] = ["kube-root-ca.crt", "extension-apiserver-authentication"];
const EVENTS: &str = "events tell the past of the other cluster";
const MADE: &str = "it is made anew from other objects";
const KEYS: &str = "keys and tokens of the other cluster are not valid here";
const SERVER: &str = "its server does not run here";
const ENDED: &str = "it has ended";
const NO_NODE: &str = "its node is not in the dump";

/// The fields of metadata that the API server sets.
const SERVER_FIELDS: [&str; 8] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
    "selfLink",
    "ownerReferences",
    "deletionGracePeriodSeconds",
];

/// The labels that a Job puts on its pods, with its UID and name.
const JOB_LABELS: [&str; 4] = [
    "controller-uid",
    "job-name",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
];

/// Decides about an object, and removes the fields that another cluster has set.
pub(super) fn fate(object: &mut Value, machines: &[Machine]) -> Fate {
    if let Some(reason) = reason_to_skip(object, machines) {
        return Fate::Skip(reason);
    }
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    if let Some(metadata) = metadata {
        SERVER_FIELDS
            .iter()
            .for_each(|field| drop(metadata.remove(*field)));
        let annotations = metadata.get_mut("annotations");
        if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
            annotations.retain(|key, _| !key.starts_with("pv.kubernetes.io/"));
        }
    }
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    let spec = object.get_mut("spec").and_then(Value::as_object_mut);
    match (kind.as_str(), spec) {
        ("Service", Some(spec)) if spec.get("clusterIP") != Some(&"None".into()) => {
            remove(spec, &["clusterIP", "clusterIPs"]);
        }
        ("Pod", Some(spec)) => remove(spec, &["priority", "preemptionPolicy"]),
        ("Namespace", Some(spec)) => remove(spec, &["finalizers"]),
        ("PersistentVolume", Some(spec)) => {
            let claim = spec.get_mut("claimRef").and_then(Value::as_object_mut);
            claim
                .into_iter()
                .for_each(|claim| remove(claim, &["uid", "resourceVersion"]));
        }
        ("Job", Some(spec)) => {
            if spec.get("manualSelector") != Some(&Value::Bool(true)) {
                remove(spec, &["selector"]);
            }
            let labels = spec
                .get_mut("template")
                .and_then(|it| it.pointer_mut("/metadata/labels"));
            let labels = labels.and_then(Value::as_object_mut);
            labels
                .into_iter()
                .for_each(|labels| remove(labels, &JOB_LABELS));
        }
        _ => {}
    }
    if kind == "ServiceAccount"
        && let Some(fields) = object.as_object_mut()
    {
        fields.remove("secrets");
    }
    Fate::Create
}

fn remove(fields: &mut Map<String, Value>, names: &[&str]) {
    names.iter().for_each(|name| drop(fields.remove(*name)));
}

/// Returns why an object is skipped; `None` if it is created.
fn reason_to_skip(object: &Value, machines: &[Machine]) -> Option<&'static str> {
    let text = |pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let (version, kind) = (text("/apiVersion"), text("/kind"));
    let group = version.split_once('/').map_or("", |(group, _)| group);
    if (group, kind) == ("discovery.k8s.io", "EndpointSlice") && !is_made_by_controller(object) {
        return None;
    }
    let found = KINDS
        .iter()
        .find(|(of, one, _)| *of == group && (*one == kind || *one == "*"));
    if let Some((_, _, reason)) = found {
        return Some(reason);
    }
    if object.pointer("/metadata/deletionTimestamp").is_some() {
        return Some("it is being deleted");
    }
    let name = text("/metadata/name");
    let owner = owner_kind(object);
    let is = |of, one| (group, kind) == (of, one);
    let label = |key: &str| {
        object
            .pointer("/metadata/labels")
            .and_then(|all| all.get(key))
    };
    if is("", "Pod") {
        let phase = text("/status/phase");
        let node = text("/spec/nodeName");
        return match owner {
            Some("Node") => Some("it is a static pod"),
            Some("Job") => Some("its Job makes it anew"),
            _ if phase == "Succeeded" || phase == "Failed" => Some(ENDED),
            _ if !node.is_empty() && machines.iter().all(|it| it.name != node) => Some(NO_NODE),
            _ => None,
        };
    }
    let is_ended = |condition: &Value| {
        let is_end = condition["type"] == "Complete" || condition["type"] == "Failed";
        is_end && condition["status"] == "True"
    };
    let conditions = object
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    let system = "it is part of every cluster";
    let rules = [
        (
            is("batch", "Job") && owner == Some("CronJob"),
            "its CronJob makes Jobs itself",
        ),
        (
            is("batch", "Job") && conditions.into_iter().flatten().any(is_ended),
            ENDED,
        ),
        (is("", "Endpoints") && is_made_by_controller(object), MADE),
        (
            is("", "Secret") && text("/type") == "kubernetes.io/service-account-token",
            KEYS,
        ),
        (
            is("", "Secret") && text("/type") == "bootstrap.kubernetes.io/token",
            KEYS,
        ),
        (is("", "ConfigMap") && CA_CONFIG_MAPS.contains(&name), KEYS),
        // the CA and the join token of that cloud, which would replace those of this one
        (
            is("", "Secret") && text("/metadata/namespace") == "kubeedge",
            KEYS,
        ),
        (
            is("", "Service") && name == "kubernetes" && text("/metadata/namespace") == "default",
            system,
        ),
        (
            is("scheduling.k8s.io", "PriorityClass") && name.starts_with("system-"),
            system,
        ),
        (
            label("kubernetes.io/bootstrapping") == Some(&"rbac-defaults".into()),
            system,
        ),
    ];
    rules
        .into_iter()
        .find_map(|(applies, reason)| applies.then_some(reason))
}

/// Returns the kind of the controller that owns an object.
fn owner_kind(object: &Value) -> Option<&str> {
    let owners = object.pointer("/metadata/ownerReferences")?.as_array()?;
    let owner = owners.iter().find(|owner| owner["controller"] == true)?;
    owner["kind"].as_str()
}

/// Reports whether a controller has made Endpoints or an EndpointSlice of a Service with a selector.
fn is_made_by_controller(object: &Value) -> bool {
    let has = |pointer: &str, key: &str| {
        object
            .pointer(pointer)
            .and_then(|all| all.get(key))
            .is_some()
    };
    let manager = object.pointer("/metadata/labels/endpointslice.kubernetes.io~1managed-by");
    let by_hand = [
        Some("endpointslice-controller.k8s.io"),
        Some("endpointslicemirroring-controller.k8s.io"),
    ];
    has(
        "/metadata/annotations",
        "endpoints.kubernetes.io/last-change-trigger-time",
    ) || manager.is_some_and(|manager| by_hand.contains(&manager.as_str()))
}
