//! Fills in the defaults of objects, as the API server does.

use serde_json::{Map, Value, json};

use kubeapi::{
    object::{
        as_map, child, default_to, is_mirror, metadata, object_size::ObjectTooLarge, timestamp::now,
    },
    registry::{Builtin, Kind, KindSchema},
};

mod access;
pub(crate) mod account;
mod batch;
mod devices;
mod limits;
mod network;
mod pod;
pub(crate) mod qos;
mod registration;
mod storage;
pub(crate) mod workload;

use kubeapi::defaults::{
    fields::{default_text, text_at},
    secret,
};

/// Fills in the defaults, at creation and at each update; idempotent.
///
/// # Errors
/// The defaults of a schema make the object larger than may be stored.
pub(crate) fn fill(kind: &Kind, object: &mut Value) -> Result<(), ObjectTooLarge> {
    use Builtin as B;
    let Some(builtin) = kind.builtin else {
        return custom(kind, object);
    };
    let is_mirror = builtin == B::Pod && is_mirror(object);
    let map = as_map(object);
    match builtin {
        B::Pod => pod::fill(child(map, "spec"), is_mirror),
        B::PodTemplate => workload::pods(child(map, "template")),
        B::Deployment => workload::deployment(child(map, "spec")),
        B::ReplicaSet => workload::replica_set(child(map, "spec")),
        B::ReplicationController => workload::replication_controller(map),
        B::DaemonSet => workload::daemon_set(child(map, "spec")),
        B::StatefulSet => {
            workload::stateful_set(child(map, "spec"));
            if let Some(Value::Object(status)) = map.get_mut("status") {
                default_to(status, "replicas", 0);
                default_to(status, "availableReplicas", 0);
            }
        }
        B::Job => batch::job(child(map, "spec")),
        B::CronJob => batch::cron_job(child(map, "spec")),
        B::Secret => secret::fill(map),
        B::Service => network::service(child(map, "spec")),
        B::Endpoints => network::endpoints(map),
        B::EndpointSlice => network::slice(map),
        B::NetworkPolicy => network::policy(child(map, "spec")),
        B::PersistentVolume => storage::volume(child(map, "spec")),
        B::PersistentVolumeClaim => storage::claim(child(map, "spec")),
        B::StorageClass => storage::class(map),
        B::CsiDriver => storage::driver(child(map, "spec")),
        B::RoleBinding | B::ClusterRoleBinding => access::binding(map),
        B::PriorityClass => default_text(map, "preemptionPolicy", "PreemptLowerPriority"),
        B::HorizontalPodAutoscaler => workload::autoscaler(child(map, "spec")),
        B::AutoscalerV1 => default_to(child(map, "spec"), "minReplicas", 1),
        B::ValidatingAdmissionPolicy => registration::validating_policy(child(map, "spec")),
        B::MutatingAdmissionPolicy => registration::mutating_policy(child(map, "spec")),
        B::ValidatingAdmissionPolicyBinding | B::MutatingAdmissionPolicyBinding => {
            registration::policy_binding(child(map, "spec"))
        }
        B::ValidatingWebhookConfiguration => registration::webhooks(map, false),
        B::MutatingWebhookConfiguration => registration::webhooks(map, true),
        B::LimitRange => limits::range(child(map, "spec")),
        B::ResourceClaim => devices::claim(child(map, "spec")),
        B::ResourceClaimTemplate => devices::claim(child(child(map, "spec"), "spec")),
        B::FlowSchema => registration::flow_schema(child(map, "spec")),
        B::PriorityLevelConfiguration => registration::priority_level(child(map, "spec")),
        B::ApiService => registration::api_service(child(map, "spec")),
        B::CustomResourceDefinition => definition(child(map, "spec")),
        B::Node => node(map),
        B::Namespace => namespace(map),
        B::ConfigMap
        | B::ServiceAccount
        | B::Event
        | B::NewEvent
        | B::Lease
        | B::ResourceQuota
        | B::ControllerRevision
        | B::PodDisruptionBudget
        | B::CertificateSigningRequest
        | B::Ingress
        | B::IngressClass
        | B::Role
        | B::ClusterRole
        | B::VolumeAttachment
        | B::CsiNode
        | B::CsiStorageCapacity
        | B::ServiceCidr
        | B::IpAddress
        | B::RuntimeClass
        | B::VolumeAttributesClass
        | B::ResourceSlice
        | B::DeviceClass
        | B::Computed => {}
    }
    Ok(())
}

/// Sets the initial fields of a new object after its defaults; removes those that only the server may set.
pub(crate) fn begin(kind: &Kind, object: &mut Value) {
    use Builtin as B;
    // a driver's first change is its first generation
    if kind.counts_generations() && !kind.is(B::CsiDriver) {
        metadata(object).insert("generation".into(), 1.into());
    }
    if !kind.keeps_status_on_create() {
        as_map(object).shift_remove("status");
    }
    let status = match kind.builtin {
        Some(B::Pod) => {
            pod::stay_on_unreachable_nodes(object);
            pod::status(object)
        }
        Some(B::Namespace) => {
            namespace_finalizer(object);
            json!({"phase": "Active"})
        }
        Some(B::Service | B::Ingress) => json!({"loadBalancer": {}}),
        Some(B::PersistentVolume) => json!({"phase": "Pending", "lastPhaseTransitionTime": now()}),
        Some(B::PersistentVolumeClaim) => json!({"phase": "Pending"}),
        Some(B::ReplicaSet | B::ReplicationController) => json!({"replicas": 0}),
        Some(B::StatefulSet) => json!({"replicas": 0, "availableReplicas": 0}),
        Some(B::DaemonSet) => json!({
            "currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0,
        }),
        Some(B::PodDisruptionBudget) => {
            json!({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0})
        }
        Some(B::VolumeAttachment) => json!({"attached": false}),
        Some(B::AutoscalerV1) => json!({"currentReplicas": 0, "desiredReplicas": 0}),
        Some(B::HorizontalPodAutoscaler) => json!({"desiredReplicas": 0, "currentMetrics": null}),
        Some(B::Job) => {
            batch::select_own_pods(object);
            json!({})
        }
        Some(
            B::Deployment
            | B::CronJob
            | B::ResourceQuota
            | B::CertificateSigningRequest
            | B::ValidatingAdmissionPolicy
            | B::ResourceClaim
            | B::FlowSchema
            | B::PriorityLevelConfiguration
            | B::ApiService,
        ) => json!({}),
        _ => return,
    };
    as_map(object).insert("status".into(), status);
}

fn custom(kind: &Kind, object: &mut Value) -> Result<(), ObjectTooLarge> {
    match kind.schema() {
        KindSchema::Defined(schema) => schema.fill_defaults(object),
        KindSchema::Published(_) => Ok(()),
    }
}

/// Sets the label that holds a namespace's name.
fn namespace(namespace: &mut Map<String, Value>) {
    let metadata = child(namespace, "metadata");
    let name = text_at(metadata, "name").to_owned();
    if !name.is_empty() {
        child(metadata, "labels").insert("kubernetes.io/metadata.name".into(), name.into());
    }
}

/// Adds the finalizer that whoever empties namespaces takes away.
fn namespace_finalizer(namespace: &mut Value) {
    const OWN: &str = "kubernetes";
    let finalizers = child(as_map(namespace), "spec")
        .entry("finalizers")
        .or_insert_with(|| json!([]));
    match finalizers {
        Value::Array(list) if list.iter().any(|known| known == OWN) => {}
        Value::Array(list) => list.push(OWN.into()),
        other => *other = json!([OWN]),
    }
}

/// The fields of a node's `nodeInfo`, which are always there.
const NODE_INFO: [&str; 10] = [
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
];

/// Sets a missing `allocatable` of a node to its `capacity`.
fn node(node: &mut Map<String, Value>) {
    if let Some(Value::Object(spec)) = node.get_mut("spec") {
        pod_ranges(spec);
    }
    let status = child(node, "status");
    default_to(
        status,
        "daemonEndpoints",
        json!({"kubeletEndpoint": {"Port": 0}}),
    );
    let info = child(status, "nodeInfo");
    for field in NODE_INFO {
        default_to(info, field, "");
    }
    if let Some(capacity) = status.get("capacity").cloned() {
        default_to(status, "allocatable", capacity);
    }
}

/// Makes a node's range and its list of ranges agree: the range is the first of the list, and decides if both differ.
fn pod_ranges(spec: &mut Map<String, Value>) {
    let first = spec
        .get("podCIDRs")
        .and_then(|ranges| ranges.get(0))
        .cloned();
    let given = spec
        .get("podCIDR")
        .filter(|range| range.as_str().is_some_and(|range| !range.is_empty()))
        .cloned();
    match (given, first) {
        (Some(given), first) if first.as_ref() != Some(&given) => {
            spec.insert("podCIDRs".into(), json!([given]));
        }
        (None, Some(first)) => drop(spec.insert("podCIDR".into(), first)),
        _ => {}
    }
}

fn definition(spec: &mut Map<String, Value>) {
    default_to(child(spec, "conversion"), "strategy", "None");
    let names = child(spec, "names");
    if let Some(kind) = names.get("kind").and_then(Value::as_str).map(str::to_owned) {
        default_to(names, "listKind", format!("{kind}List"));
        default_to(names, "singular", kind.to_lowercase());
    }
}

#[cfg(test)]
mod tests;
