//! Objects as rows and columns (`meta.k8s.io/v1` Table), as kubectl prints them.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::{
    object::{items, text_or_empty},
    registry::{Builtin, Kind},
    status::StatusError,
};

mod age;
mod batch;
mod builtin;
mod custom;
mod devices;
mod json_path;
mod network;
mod node;
mod pod;
mod policy;
mod registration;
mod storage;
mod workload;

/// What of each object goes along with its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Include {
    /// Nothing.
    None,
    /// Its metadata.
    Metadata,
    /// All of it.
    Object,
}

impl Include {
    /// Of the query parameter `includeObject`.
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

/// A column: name, type, format, and 1 for those that only `-o wide` shows.
type Column = (&'static str, &'static str, &'static str, i32);

/// The first column of nearly all kinds.
const NAME: Column = ("Name", "string", "name", 0);

/// How long the object has been there.
const AGE: Column = ("Age", "string", "", 0);

/// A column that is always shown.
const fn shown(name: &'static str) -> Column {
    (name, "string", "", 0)
}

/// A column that only `-o wide` shows.
const fn wide(name: &'static str) -> Column {
    (name, "string", "", 1)
}

/// How a kind's objects become rows.
struct Printer {
    columns: &'static [Column],
    cells: fn(&Value, Timestamp) -> Vec<Value>,
}

/// Whether a printer column can have this path.
pub(crate) fn is_json_path(path: &str) -> bool {
    json_path::is_readable(path)
}

/// The table of `objects`. A watch says the columns once (`with_columns`), with its first event.
pub(crate) fn table(
    kind: &Kind,
    objects: &[Value],
    list_metadata: Value,
    include: Include,
    with_columns: bool,
    now: Timestamp,
) -> Value {
    let printer = kind.builtin.and_then(printer);
    let cells = |object: &Value| match printer {
        Some(printer) => (printer.cells)(object, now),
        None => custom::cells(&kind.columns, object, now),
    };
    let rows = objects.iter().map(|object| row(kind, object, cells(object), include)).collect();
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

/// `None`: the kind says itself what its columns are.
fn printer(builtin: Builtin) -> Option<&'static Printer> {
    use Builtin as B;
    Some(match builtin {
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
        B::Role | B::ClusterRole => &policy::ROLE,
        B::RoleBinding | B::ClusterRoleBinding => &policy::BINDING,
        B::PriorityClass => &policy::PRIORITY_CLASS,
        B::StorageClass => &storage::CLASS,
        B::VolumeAttachment => &storage::ATTACHMENT,
        B::CsiDriver => &storage::DRIVER,
        B::CsiNode => &storage::NODE,
        B::CsiStorageCapacity => &storage::CAPACITY,
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
        B::ValidatingWebhookConfiguration | B::MutatingWebhookConfiguration => &registration::WEBHOOKS,
        B::ApiService => &registration::API_SERVICE,
        B::FlowSchema => &registration::FLOW_SCHEMA,
        B::PriorityLevelConfiguration => &registration::PRIORITY_LEVEL,
        B::VolumeAttributesClass => &storage::ATTRIBUTES_CLASS,
        B::ResourceClaim => &devices::CLAIM,
        B::ResourceSlice => &devices::SLICE,
        B::ResourceClaimTemplate | B::DeviceClass => &devices::NAMED,
    })
}

fn definition(&(name, type_, format, priority): &Column) -> Value {
    json!({"name": name, "type": type_, "format": format, "description": "", "priority": priority})
}

fn row(kind: &Kind, object: &Value, cells: Vec<Value>, include: Include) -> Value {
    let mut row = Map::new();
    row.insert("cells".into(), Value::Array(cells));
    match text_or_empty(object, "/status/phase") {
        phase @ ("Succeeded" | "Failed") if kind.is(Builtin::Pod) => {
            let message =
                if phase == "Failed" { "The pod failed." } else { "The pod has completed successfully." };
            let condition =
                json!({"type": "Completed", "status": "True", "reason": phase, "message": message});
            row.insert("conditions".into(), json!([condition]));
        }
        _ => {}
    }
    let object = match include {
        Include::None => Value::Null,
        Include::Object => object.clone(),
        Include::Metadata => json!({
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": object.get("metadata").cloned().unwrap_or_default(),
        }),
    };
    row.insert("object".into(), object);
    Value::Object(row)
}

/// The object's name, the first cell of nearly every row.
fn name(object: &Value) -> Value {
    text_or_empty(object, "/metadata/name").into()
}

/// How long ago the object was created.
fn since_creation(object: &Value, now: Timestamp) -> Value {
    age::since(object.pointer("/metadata/creationTimestamp"), now).into()
}

/// `text`, or what stands for an empty one.
fn text_or<'a>(object: &'a Value, pointer: &str, instead: &'a str) -> &'a str {
    let text = text_or_empty(object, pointer);
    if text.is_empty() { instead } else { text }
}

/// `k=v,k=v` in the order of the keys.
fn pairs(map: Option<&Value>) -> String {
    let mut pairs: Vec<_> = map.and_then(Value::as_object).into_iter().flatten().collect();
    pairs.sort_by_key(|(key, _)| *key);
    let pairs: Vec<_> =
        pairs.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    if pairs.is_empty() { "<none>".to_owned() } else { pairs.join(",") }
}

/// A label selector as text: `a=b,c in (d,e),f,!g`.
fn selector(selector: Option<&Value>) -> String {
    let Some(selector) = selector else { return "<none>".to_owned() };
    let mut parts = match pairs(selector.get("matchLabels")) {
        none if none == "<none>" => Vec::new(),
        pairs => vec![pairs],
    };
    for requirement in items(selector, "/matchExpressions") {
        let key = text_or_empty(requirement, "/key");
        let values: Vec<_> = items(requirement, "/values").iter().filter_map(Value::as_str).collect();
        let values = values.join(",");
        parts.push(match text_or_empty(requirement, "/operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    if parts.is_empty() { "<none>".to_owned() } else { parts.join(",") }
}

#[cfg(test)]
mod tests;
