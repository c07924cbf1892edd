//! Objects as rows and columns (`meta.k8s.io/v1` Table), as kubectl prints them.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::{
    object::text_or_empty,
    registry::{Builtin, Kind},
    status::StatusError,
};

mod age;
mod batch;
mod builtin;
mod cells;
mod custom;
mod devices;
mod json_path;
mod network;
mod node;
mod pod;
mod policy;
mod printer;
mod registration;
mod storage;
mod workload;

pub use age::since as age;
use printer::{Printer, definition};

/// How much of the object each row contains (`includeObject`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    /// No part of the object.
    None,
    /// The object's metadata.
    Metadata,
    /// The whole object.
    Object,
}

impl IncludeObject {
    /// Parses the query parameter `includeObject`.
    pub(crate) fn parse(text: Option<&str>) -> Result<Self, StatusError> {
        match text {
            None | Some("Metadata") => Ok(Self::Metadata),
            Some("None") => Ok(Self::None),
            Some("Object") => Ok(Self::Object),
            Some(other) => Err(StatusError::bad_request(format!(
                "includeObject: Invalid value: {other:?}: must be 'Metadata', 'Object', 'None', or empty"
            ))),
        }
    }
}

/// Reports whether a printer column can have this path.
pub fn is_json_path(path: &str) -> bool {
    json_path::is_readable(path)
}

/// Makes the table of `objects`. A watch sends the columns once (`with_columns`), with its first event.
pub(crate) fn table(
    kind: &Kind,
    objects: &[Value],
    list_metadata: Value,
    include: IncludeObject,
    with_columns: bool,
    now: Timestamp,
) -> Value {
    let printer = printer(kind);
    let cells = |object: &Value| match printer {
        Some(printer) => (printer.cells)(object, now),
        None => custom::cells(&kind.columns, object, now),
    };
    let rows = objects
        .iter()
        .map(|object| row(kind, object, cells(object), include))
        .collect();
    let columns = match (with_columns, printer) {
        (false, _) => Value::Null,
        (true, Some(printer)) => printer.columns.iter().map(definition).collect(),
        (true, None) => custom::definitions(&kind.columns),
    };
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": list_metadata,
        "columnDefinitions": columns,
        "rows": Value::Array(rows),
    })
}

/// Returns the printer of a kind; `None` where its definition has the columns.
fn printer(kind: &Kind) -> Option<&'static Printer> {
    use Builtin as B;
    Some(match kind.builtin? {
        B::Computed if kind.kind == "ComponentStatus" => &builtin::COMPONENT_STATUS,
        B::Computed => return None,
        B::Namespace => &builtin::NAMESPACE,
        B::Node => &node::PRINTER,
        B::Pod => &pod::PRINTER,
        B::ConfigMap => &builtin::CONFIG_MAP,
        B::Secret => &builtin::SECRET,
        B::ServiceAccount => &builtin::SERVICE_ACCOUNT,
        B::Event | B::NewEvent => &builtin::EVENT,
        B::Service => &network::SERVICE,
        B::Endpoints => &network::ENDPOINTS,
        B::PersistentVolume => &storage::VOLUME,
        B::PersistentVolumeClaim => &storage::CLAIM,
        B::PodTemplate => &workload::POD_TEMPLATE,
        B::ReplicationController => &workload::REPLICATION_CONTROLLER,
        B::ResourceQuota => &storage::QUOTA,
        B::LimitRange => &policy::LIMIT_RANGE,
        B::Deployment => &workload::DEPLOYMENT,
        B::ReplicaSet => &workload::REPLICA_SET,
        B::DaemonSet => &workload::DAEMON_SET,
        B::StatefulSet => &workload::STATEFUL_SET,
        B::ControllerRevision => &workload::CONTROLLER_REVISION,
        B::Job => &batch::JOB,
        B::CronJob => &batch::CRON_JOB,
        B::HorizontalPodAutoscaler => &workload::AUTOSCALER,
        B::CertificateSigningRequest => &policy::SIGNING_REQUEST,
        B::Lease => &builtin::LEASE,
        B::EndpointSlice => &network::ENDPOINT_SLICE,
        B::Ingress => &network::INGRESS,
        B::IngressClass => &network::INGRESS_CLASS,
        B::NetworkPolicy => &network::POLICY,
        B::PodDisruptionBudget => &policy::DISRUPTION_BUDGET,
        // the real server has no printer for it
        B::Role | B::ClusterRole | B::CsiStorageCapacity => &policy::ROLE,
        B::RoleBinding | B::ClusterRoleBinding => &policy::BINDING,
        B::PriorityClass => &policy::PRIORITY_CLASS,
        B::StorageClass => &storage::CLASS,
        B::VolumeAttachment => &storage::ATTACHMENT,
        B::CsiDriver => &storage::DRIVER,
        B::CsiNode => &storage::NODE,
        B::ServiceCidr => &network::SERVICE_CIDR,
        B::IpAddress => &network::IP_ADDRESS,
        B::RuntimeClass => &builtin::RUNTIME_CLASS,
        B::CustomResourceDefinition => &builtin::DEFINITION,
        B::AutoscalerV1 => &workload::AUTOSCALER_V1,
        B::ValidatingAdmissionPolicy => &registration::VALIDATING_POLICY,
        B::MutatingAdmissionPolicy => &registration::MUTATING_POLICY,
        B::ValidatingAdmissionPolicyBinding | B::MutatingAdmissionPolicyBinding => {
            &registration::POLICY_BINDING
        }
        B::ValidatingWebhookConfiguration | B::MutatingWebhookConfiguration => {
            &registration::WEBHOOKS
        }
        B::ApiService => &registration::API_SERVICE,
        B::FlowSchema => &registration::FLOW_SCHEMA,
        B::PriorityLevelConfiguration => &registration::PRIORITY_LEVEL,
        B::VolumeAttributesClass => &storage::ATTRIBUTES_CLASS,
        B::ResourceClaim => &devices::CLAIM,
        B::ResourceSlice => &devices::SLICE,
        B::ResourceClaimTemplate | B::DeviceClass => &devices::NAME_AND_AGE,
    })
}

fn row(kind: &Kind, object: &Value, cells: Vec<Value>, include: IncludeObject) -> Value {
    let mut row = Map::new();
    row.insert("cells".into(), Value::Array(cells));
    match text_or_empty(object, "/status/phase") {
        phase @ ("Succeeded" | "Failed") if kind.is(Builtin::Pod) => {
            let message = if phase == "Failed" {
                "The pod failed."
            } else {
                "The pod has completed successfully."
            };
            let condition =
                json!({"type": "Completed", "status": "True", "reason": phase, "message": message});
            row.insert("conditions".into(), json!([condition]));
        }
        _ => {}
    }
    let object = match include {
        IncludeObject::None => Value::Null,
        IncludeObject::Object => object.clone(),
        IncludeObject::Metadata => json!({
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": object.get("metadata").cloned().unwrap_or_default(),
        }),
    };
    row.insert("object".into(), object);
    Value::Object(row)
}

#[cfg(test)]
mod tests;
