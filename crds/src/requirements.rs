//! What the types require although KubeEdge's definitions do not: the definitions here do not either.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use serde_json::json;

/// Kinds whose objects need no specification; without one it is empty.
const OPTIONAL_SPECS: [&str; 5] = [
    "ClusterObjectSync",
    "Device",
    "DeviceModel",
    "DeviceStatus",
    "ObjectSync",
];

/// Fields that are not required, by the ends of their paths.
const OPTIONAL_FIELDS: [&str; 11] = [
    ".clusterRoleBinding.metadata",
    ".configMapKeyRef.name",
    ".deviceModelRef.name",
    ".imagePullSecrets[].name",
    ".ownerReferences[].apiVersion",
    ".ownerReferences[].kind",
    ".ownerReferences[].name",
    ".ownerReferences[].uid",
    ".roleBinding.metadata",
    ".secretKeyRef.name",
    ".serviceAccount.metadata",
];

/// Lets the definition require what KubeEdge's requires.
pub(crate) fn relax_requirements(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let has_optional_spec = OPTIONAL_SPECS.contains(&crd.spec.names.kind.as_str());
    for version in &mut crd.spec.versions {
        let schema = version
            .schema
            .as_mut()
            .and_then(|schema| schema.open_api_v3_schema.as_mut());
        let Some(schema) = schema else { continue };
        if has_optional_spec {
            drop_required(schema, |name| name == "spec");
            let spec = schema
                .properties
                .as_mut()
                .and_then(|properties| properties.get_mut("spec"));
            if let Some(spec) =
                spec.filter(|spec| spec.x_kubernetes_preserve_unknown_fields.is_none())
            {
                spec.default = Some(JSON(json!({})));
            }
        }
        relax(schema, "");
    }
    crd
}

fn relax(schema: &mut JSONSchemaProps, path: &str) {
    drop_required(schema, |name| {
        let field = format!("{path}.{name}");
        OPTIONAL_FIELDS
            .iter()
            .any(|optional| field.ends_with(optional))
    });
    for (name, field) in schema.properties.iter_mut().flatten() {
        relax(field, &format!("{path}.{name}"));
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        relax(items, &format!("{path}[]"));
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        relax(values, &format!("{path}{{}}"));
    }
}

fn drop_required(schema: &mut JSONSchemaProps, is_optional: impl Fn(&str) -> bool) {
    if let Some(required) = &mut schema.required {
        required.retain(|name| !is_optional(name));
    }
    schema.required = schema
        .required
        .take()
        .filter(|required| !required.is_empty());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What KubeEdge's definitions require of each kind, without the parts that are Kubernetes' own types.
    const REQUIRED: [(&str, &[&str]); 13] = [
        ("ClusterObjectSync", &[]),
        ("ConfigUpdateJob", &["spec.updateFields", "status.phase"]),
        ("Device", &["spec.properties[].desired.value"]),
        ("DeviceModel", &[]),
        (
            "DeviceStatus",
            &[
                "status.twins[].observedDesired.value",
                "status.twins[].reported.value",
            ],
        ),
        ("EdgeApplication", &["spec", "spec.workloadScope"]),
        ("ImagePrePullJob", &["spec", "status.phase"]),
        ("NodeGroup", &["spec"]),
        (
            "NodeUpgradeJob",
            &[
                "spec.imageDigestGatter.registryAPI.host",
                "spec.imageDigestGatter.registryAPI.token",
                "status.phase",
            ],
        ),
        ("ObjectSync", &[]),
        (
            "Rule",
            &[
                "spec.source",
                "spec.sourceResource",
                "spec.target",
                "spec.targetResource",
            ],
        ),
        ("RuleEndpoint", &["spec.ruleEndpointType"]),
        ("ServiceAccountAccess", &["spec"]),
    ];

    /// Parts of the paths of fields that KubeEdge's definitions require as ours do, since both copy Kubernetes' types.
    const COPIED: [&str; 8] = [
        "status.conditions[]",
        "Overriders[]",
        "labelSelector.",
        "Binding.",
        "rules[]",
        "workload",
        "nodeStatuses[]",
        "targetNodeGroups[].name",
    ];

    /// Without a specification, which cannot be empty, these kinds could have no effect.
    const NEEDS_SPEC: [&str; 4] = ["ConfigUpdateJob", "NodeUpgradeJob", "Rule", "RuleEndpoint"];

    /// Collects the required fields down to `depth` parts of a path.
    fn collect_required(schema: &JSONSchemaProps, path: &str, found: &mut Vec<String>) {
        let field = |name: &str| {
            if path.is_empty() {
                name.to_owned()
            } else {
                format!("{path}.{name}")
            }
        };
        found.extend(schema.required.iter().flatten().map(|name| field(name)));
        for (name, part) in schema.properties.iter().flatten() {
            collect_required(part, &field(name), found);
        }
        if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
            collect_required(items, &format!("{path}[]"), found);
        }
        if let Some(JSONSchemaPropsOrBool::Schema(values)) = &schema.additional_properties {
            collect_required(values, &format!("{path}{{}}"), found);
        }
    }

    #[test]
    fn definitions_require_no_field_that_kubeedges_do_not() {
        for crd in crate::all() {
            let kind = crd.spec.names.kind.as_str();
            let (_, allowed) = REQUIRED.iter().find(|(known, _)| *known == kind).unwrap();
            for version in &crd.spec.versions {
                let mut found = Vec::new();
                let schema = version
                    .schema
                    .as_ref()
                    .unwrap()
                    .open_api_v3_schema
                    .as_ref()
                    .unwrap();
                collect_required(schema, "", &mut found);
                let is_extra = |field: &&String| {
                    let is_copied = COPIED.iter().any(|part| field.contains(part));
                    let is_needed_spec = *field == "spec" && NEEDS_SPEC.contains(&kind);
                    !allowed.contains(&field.as_str()) && !is_copied && !is_needed_spec
                };
                let extra: Vec<_> = found.iter().filter(is_extra).collect();
                assert!(extra.is_empty(), "{kind} {}: {extra:?}", version.name);
                let ends = |field: &&String| OPTIONAL_FIELDS.iter().any(|end| field.ends_with(end));
                assert_eq!(found.iter().find(ends), None, "{kind} {}", version.name);
            }
        }
    }

    #[test]
    fn an_absent_specification_is_an_empty_one() {
        for crd in crate::all() {
            let kind = crd.spec.names.kind.as_str();
            let newest = crd.spec.versions.first().unwrap().schema.as_ref().unwrap();
            let spec = &newest
                .open_api_v3_schema
                .as_ref()
                .unwrap()
                .properties
                .as_ref()
                .unwrap()["spec"];
            assert_eq!(
                spec.default.is_some(),
                OPTIONAL_SPECS.contains(&kind),
                "{kind}"
            );
        }
    }
}
