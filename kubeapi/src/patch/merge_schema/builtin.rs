//! The published Kubernetes API's `patchStrategy`, `patchMergeKey`, `listType`, `listMapKey` and `mapType`.
//!
//! A field that is not in the table is a scalar, an object whose fields are merged one by one, or a list that is replaced as a whole.

/// What a strategic merge patch does with a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::patch) enum ListMerge {
    /// Replaces the list.
    Replace,
    /// Adds values.
    Values,
    /// Merges items by this key.
    Key(&'static str),
}

/// A field of a type.
#[derive(Debug)]
pub(in crate::patch) struct Field {
    name: &'static str,
    pub(super) merge: ListMerge,
    pub(super) list: List,
    /// The type of the object in this field, or of the items of its list.
    pub(super) of: &'static Type,
}

/// Which parts of a list can have owners.
#[derive(Clone, Copy, Debug)]
pub(super) enum List {
    /// The whole list has one owner (`atomic`).
    Whole,
    /// Each value has owners (`set`).
    Values,
    /// Each item has owners; items are distinguished by these keys, which have a default if they may be absent (`map`).
    Keyed(&'static [(&'static str, Option<&'static str>)]),
}

/// The type of an object.
#[derive(Debug)]
pub(in crate::patch) struct Type {
    fields: &'static [Field],
    /// Whether it can have owners only as a whole (`mapType: atomic`).
    pub(super) whole: bool,
}

impl Type {
    const fn of(fields: &'static [Field]) -> Self {
        Self {
            fields,
            whole: false,
        }
    }

    pub(super) fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

impl Field {
    /// Describes a list whose items are distinguished by `keys`, the first of which is also the merge key.
    const fn keyed(
        name: &'static str,
        keys: &'static [(&'static str, Option<&'static str>)],
        of: &'static Type,
    ) -> Self {
        Self {
            name,
            merge: ListMerge::Key(keys[0].0),
            list: List::Keyed(keys),
            of,
        }
    }
}

/// Describes an object of this type.
const fn part(name: &'static str, of: &'static Type) -> Field {
    Field {
        name,
        merge: ListMerge::Replace,
        list: List::Whole,
        of,
    }
}

/// Describes an object that is written as a whole.
const fn whole(name: &'static str) -> Field {
    part(name, &WHOLE)
}

/// Describes a list of values, each with its owners.
const fn values(name: &'static str) -> Field {
    Field {
        name,
        merge: ListMerge::Values,
        list: List::Values,
        of: &PLAIN,
    }
}

/// Describes a list that a strategic merge patch merges by `key` and an apply writes as a whole.
const fn merged_list(name: &'static str, key: &'static str) -> Field {
    Field {
        name,
        merge: ListMerge::Key(key),
        list: List::Whole,
        of: &PLAIN,
    }
}

/// Describes a list that a strategic merge patch replaces and an apply merges.
const fn applied_list(
    name: &'static str,
    keys: &'static [(&'static str, Option<&'static str>)],
) -> Field {
    Field {
        name,
        merge: ListMerge::Replace,
        list: List::Keyed(keys),
        of: &PLAIN,
    }
}

/// Returns the structure of a built-in kind's object.
pub(super) fn kind(group: &str, kind: &str) -> &'static Field {
    match (group, kind) {
        ("", "Namespace") => &NAMESPACE,
        ("", "Node") => &NODE,
        ("", "Pod") => &POD,
        ("", "ServiceAccount") => &SERVICE_ACCOUNT,
        ("", "Event") => &EVENT,
        ("", "Service") => &SERVICE,
        ("apps", "DaemonSet" | "Deployment" | "ReplicaSet" | "StatefulSet") => &WORKLOAD,
        ("batch", "Job") => &JOB,
        ("batch", "CronJob") => &CRON_JOB,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => &DEFINITION,
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => &WEBHOOKS,
        (
            "admissionregistration.k8s.io",
            "MutatingAdmissionPolicy" | "ValidatingAdmissionPolicy",
        ) => &ADMISSION_POLICY,
        ("resource.k8s.io", "ResourceClaim") => &RESOURCE_CLAIM,
        ("storage.k8s.io", "CSINode") => &CSI_NODE,
        ("apiregistration.k8s.io", "APIService")
        | ("flowcontrol.apiserver.k8s.io", "FlowSchema" | "PriorityLevelConfiguration")
        | ("policy", "PodDisruptionBudget") => &WITH_CONDITIONS,
        _ => &OTHER,
    }
}

const BY_NAME: &[(&str, Option<&str>)] = &[("name", None)];
const BY_TYPE: &[(&str, Option<&str>)] = &[("type", None)];

static PLAIN: Type = Type::of(&[]);
static WHOLE: Type = Type {
    fields: &[],
    whole: true,
};

pub(super) static METADATA: Field = part("metadata", &OBJECT_META);
static OBJECT_META: Type = Type::of(&[
    values("finalizers"),
    Field::keyed("ownerReferences", &[("uid", None)], &WHOLE),
]);

static CONDITIONS: Type = Type::of(&[Field::keyed("conditions", BY_TYPE, &PLAIN)]);

static OTHER: Field = part("", &OTHER_TYPE);
static OTHER_TYPE: Type = Type::of(&[part("metadata", &OBJECT_META)]);

static NAMESPACE: Field = part("", &NAMESPACE_TYPE);
static NAMESPACE_TYPE: Type =
    Type::of(&[part("metadata", &OBJECT_META), part("status", &CONDITIONS)]);

static NODE: Field = part("", &NODE_TYPE);
static NODE_TYPE: Type = Type::of(&[
    part("metadata", &OBJECT_META),
    part("spec", &NODE_SPEC),
    part("status", &NODE_STATUS),
]);
static NODE_SPEC: Type = Type::of(&[values("podCIDRs")]);
static NODE_STATUS: Type = Type::of(&[
    Field::keyed("conditions", BY_TYPE, &PLAIN),
    Field::keyed("addresses", BY_TYPE, &PLAIN),
]);

static SERVICE_ACCOUNT: Field = part("", &SERVICE_ACCOUNT_TYPE);
static SERVICE_ACCOUNT_TYPE: Type = Type::of(&[
    part("metadata", &OBJECT_META),
    Field::keyed("secrets", BY_NAME, &WHOLE),
]);

static EVENT: Field = part("", &EVENT_TYPE);
static EVENT_TYPE: Type = Type::of(&[
    part("metadata", &OBJECT_META),
    whole("involvedObject"),
    whole("related"),
]);

static SERVICE: Field = part("", &SERVICE_TYPE);
static SERVICE_TYPE: Type = Type::of(&[
    part("metadata", &OBJECT_META),
    part("spec", &SERVICE_SPEC),
    part("status", &CONDITIONS),
]);
static SERVICE_SPEC: Type = Type::of(&[
    whole("selector"),
    Field::keyed(
        "ports",
        &[("port", None), ("protocol", Some("TCP"))],
        &PLAIN,
    ),
]);

static DEFINITION: Field = part("", &DEFINITION_TYPE);
static DEFINITION_TYPE: Type = Type::of(&[
    part("metadata", &OBJECT_META),
    part("status", &DEFINITION_STATUS),
]);
static DEFINITION_STATUS: Type = Type::of(&[applied_list("conditions", BY_TYPE)]);

static WITH_CONDITIONS: Field = part("", &WITH_CONDITIONS_TYPE);
static WITH_CONDITIONS_TYPE: Type =
    Type::of(&[part("metadata", &OBJECT_META), part("status", &CONDITIONS)]);

static WEBHOOKS: Field = part("", &WEBHOOKS_TYPE);
static WEBHOOKS_TYPE: Type = Type::of(&[
    part("metadata", &OBJECT_META),
    Field::keyed("webhooks", BY_NAME, &WEBHOOK),
]);
static WEBHOOK: Type = Type::of(&[
    Field::keyed("matchConditions", BY_NAME, &PLAIN),
    whole("namespaceSelector"),
    whole("objectSelector"),
]);

static ADMISSION_POLICY: Field = part("", &ADMISSION_POLICY_TYPE);
static ADMISSION_POLICY_TYPE: Type = Type::of(&[
    part("metadata", &OBJECT_META),
    part("spec", &ADMISSION_POLICY_SPEC),
]);
static ADMISSION_POLICY_SPEC: Type = Type::of(&[
    Field::keyed("matchConditions", BY_NAME, &PLAIN),
    Field::keyed("variables", BY_NAME, &PLAIN),
    whole("paramKind"),
    whole("matchConstraints"),
]);

static RESOURCE_CLAIM: Field = part("", &RESOURCE_CLAIM_TYPE);
static RESOURCE_CLAIM_TYPE: Type = Type::of(&[
    part("metadata", &OBJECT_META),
    part("status", &RESOURCE_CLAIM_STATUS),
]);
static RESOURCE_CLAIM_STATUS: Type =
    Type::of(&[Field::keyed("reservedFor", &[("uid", None)], &PLAIN)]);

static CSI_NODE: Field = part("", &CSI_NODE_TYPE);
static CSI_NODE_TYPE: Type =
    Type::of(&[part("metadata", &OBJECT_META), part("spec", &CSI_NODE_SPEC)]);
static CSI_NODE_SPEC: Type = Type::of(&[Field::keyed("drivers", BY_NAME, &PLAIN)]);

static WORKLOAD: Field = part("", &WORKLOAD_TYPE);
static WORKLOAD_TYPE: Type = Type::of(&[
    part("metadata", &OBJECT_META),
    part("spec", &WORKLOAD_SPEC),
    part("status", &CONDITIONS),
]);
static WORKLOAD_SPEC: Type = Type::of(&[whole("selector"), part("template", &POD_TEMPLATE)]);
static POD_TEMPLATE: Type = Type::of(&[part("metadata", &OBJECT_META), part("spec", &POD_SPEC)]);

static JOB: Field = part("", &JOB_TYPE);
static JOB_TYPE: Type = Type::of(&[
    part("metadata", &OBJECT_META),
    part("spec", &WORKLOAD_SPEC),
    part("status", &JOB_STATUS),
]);
static JOB_STATUS: Type = Type::of(&[
    merged_list("conditions", "type"),
    part("uncountedTerminatedPods", &UNCOUNTED_PODS),
]);
static UNCOUNTED_PODS: Type = Type::of(&[
    Field {
        merge: ListMerge::Replace,
        ..values("succeeded")
    },
    Field {
        merge: ListMerge::Replace,
        ..values("failed")
    },
]);
static CRON_JOB: Field = part("", &CRON_JOB_TYPE);
static CRON_JOB_TYPE: Type =
    Type::of(&[part("metadata", &OBJECT_META), part("spec", &CRON_JOB_SPEC)]);
static CRON_JOB_SPEC: Type = Type::of(&[part("jobTemplate", &JOB_TEMPLATE)]);
static JOB_TEMPLATE: Type =
    Type::of(&[part("metadata", &OBJECT_META), part("spec", &WORKLOAD_SPEC)]);

static POD: Field = part("", &POD_TYPE);
static POD_TYPE: Type = Type::of(&[
    part("metadata", &OBJECT_META),
    part("spec", &POD_SPEC),
    part("status", &POD_STATUS),
]);
static POD_SPEC: Type = Type::of(&[
    Field::keyed("containers", BY_NAME, &CONTAINER),
    Field::keyed("initContainers", BY_NAME, &CONTAINER),
    Field::keyed("ephemeralContainers", BY_NAME, &CONTAINER),
    Field::keyed("volumes", BY_NAME, &VOLUME),
    Field::keyed("imagePullSecrets", BY_NAME, &WHOLE),
    Field::keyed("hostAliases", &[("ip", None)], &PLAIN),
    Field::keyed("resourceClaims", BY_NAME, &PLAIN),
    Field::keyed("schedulingGates", BY_NAME, &PLAIN),
    Field::keyed(
        "topologySpreadConstraints",
        &[("topologyKey", None), ("whenUnsatisfiable", None)],
        &SPREAD_CONSTRAINT,
    ),
    whole("nodeSelector"),
    part("affinity", &AFFINITY),
    part("resources", &RESOURCES),
]);
static SPREAD_CONSTRAINT: Type = Type::of(&[whole("labelSelector")]);
static AFFINITY: Type = Type::of(&[part("nodeAffinity", &NODE_AFFINITY)]);
static NODE_AFFINITY: Type = Type::of(&[whole("requiredDuringSchedulingIgnoredDuringExecution")]);
static POD_STATUS: Type = Type::of(&[
    Field::keyed("conditions", BY_TYPE, &PLAIN),
    Field::keyed("podIPs", &[("ip", None)], &PLAIN),
    merged_list("hostIPs", "ip"),
    Field::keyed("resourceClaimStatuses", BY_NAME, &PLAIN),
]);

static CONTAINER: Type = Type::of(&[
    Field::keyed("env", BY_NAME, &ENV),
    Field::keyed(
        "ports",
        &[("containerPort", None), ("protocol", Some("TCP"))],
        &PLAIN,
    ),
    Field::keyed("volumeMounts", &[("mountPath", None)], &PLAIN),
    Field::keyed("volumeDevices", &[("devicePath", None)], &PLAIN),
    part("resources", &RESOURCES),
]);
static RESOURCES: Type = Type::of(&[applied_list("claims", BY_NAME)]);
static ENV: Type = Type::of(&[part("valueFrom", &ENV_SOURCE)]);
static ENV_SOURCE: Type = Type::of(&[
    whole("configMapKeyRef"),
    whole("secretKeyRef"),
    whole("fieldRef"),
    whole("resourceFieldRef"),
]);

static VOLUME: Type = Type::of(&[
    part("cephfs", &WITH_SECRET),
    part("cinder", &WITH_SECRET),
    part("csi", &CSI_VOLUME),
    part("ephemeral", &EPHEMERAL_VOLUME),
    part("flexVolume", &WITH_SECRET),
    part("iscsi", &WITH_SECRET),
    part("rbd", &WITH_SECRET),
    part("scaleIO", &WITH_SECRET),
    part("storageos", &WITH_SECRET),
]);
static WITH_SECRET: Type = Type::of(&[whole("secretRef")]);
static CSI_VOLUME: Type = Type::of(&[whole("nodePublishSecretRef")]);
static EPHEMERAL_VOLUME: Type = Type::of(&[part("volumeClaimTemplate", &CLAIM_TEMPLATE)]);
static CLAIM_TEMPLATE: Type =
    Type::of(&[part("metadata", &OBJECT_META), part("spec", &CLAIM_SPEC)]);
static CLAIM_SPEC: Type = Type::of(&[whole("selector"), whole("dataSource")]);

#[cfg(test)]
mod tests {
    use k8s_openapi::{
        api::{
            admissionregistration::v1 as admission, apps::v1 as apps, batch::v1 as batch,
            core::v1 as core, flowcontrol::v1 as flowcontrol, policy::v1 as policy,
            storage::v1 as storage,
        },
        apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
        schemars::{JsonSchema, generate::SchemaSettings},
    };
    use serde_json::{Map, Value};

    use super::{List, Type, kind};

    /// Checks that each name in the table is a field of the published type, and each key a field of its items.
    fn check<T: JsonSchema>(group: &str, name: &str) {
        let mut generator = SchemaSettings::openapi3().into_generator();
        let root = generator.subschema_for::<T>().to_value();
        walk(
            kind(group, name).of,
            &root,
            &generator.take_definitions(false),
            name,
        );
    }

    fn walk(type_: &Type, schema: &Value, definitions: &Map<String, Value>, path: &str) {
        let schema = resolve(schema, definitions);
        for field in type_.fields {
            let path = format!("{path}.{}", field.name);
            let found = schema.pointer(&format!("/properties/{}", field.name));
            let found = resolve(
                found.unwrap_or_else(|| panic!("{path} does not exist")),
                definitions,
            );
            let inside = resolve(found.get("items").unwrap_or(found), definitions);
            if let List::Keyed(keys) = field.list {
                for (key, _) in keys {
                    assert!(
                        inside.pointer(&format!("/properties/{key}")).is_some(),
                        "{path} has no key {key}"
                    );
                }
            }
            walk(field.of, inside, definitions, &path);
        }
    }

    fn resolve<'a>(schema: &'a Value, definitions: &'a Map<String, Value>) -> &'a Value {
        let reference = schema
            .get("$ref")
            .or_else(|| schema.pointer("/allOf/0/$ref"))
            .and_then(Value::as_str);
        let name = reference.and_then(|reference| reference.rsplit('/').next());
        name.and_then(|name| definitions.get(name))
            .unwrap_or(schema)
    }

    #[test]
    fn the_table_speaks_of_published_fields() {
        check::<core::Namespace>("", "Namespace");
        check::<core::Node>("", "Node");
        check::<core::Pod>("", "Pod");
        check::<core::ServiceAccount>("", "ServiceAccount");
        check::<core::Event>("", "Event");
        check::<core::Service>("", "Service");
        check::<core::ConfigMap>("", "ConfigMap");
        check::<apps::DaemonSet>("apps", "DaemonSet");
        check::<apps::Deployment>("apps", "Deployment");
        check::<apps::ReplicaSet>("apps", "ReplicaSet");
        check::<apps::StatefulSet>("apps", "StatefulSet");
        check::<batch::Job>("batch", "Job");
        check::<batch::CronJob>("batch", "CronJob");
        let registration = "admissionregistration.k8s.io";
        check::<admission::ValidatingWebhookConfiguration>(
            registration,
            "ValidatingWebhookConfiguration",
        );
        check::<admission::MutatingWebhookConfiguration>(
            registration,
            "MutatingWebhookConfiguration",
        );
        check::<admission::ValidatingAdmissionPolicy>(registration, "ValidatingAdmissionPolicy");
        check::<flowcontrol::FlowSchema>("flowcontrol.apiserver.k8s.io", "FlowSchema");
        check::<policy::PodDisruptionBudget>("policy", "PodDisruptionBudget");
        check::<storage::CSINode>("storage.k8s.io", "CSINode");
        check::<CustomResourceDefinition>("apiextensions.k8s.io", "CustomResourceDefinition");
    }
}
