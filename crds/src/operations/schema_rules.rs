//! The rules of node jobs in their schema, for API servers that do not validate them as this cloud's own does.
//!
//! They are written in CEL, so that users read the same texts in both modes, and refuse nothing that KubeEdge's webhook admits.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, ValidationRule,
};

/// A field of the terms, a rule of it, and why an object is refused.
const FIELDS: [(&str, &str, &str); 12] = [
    (
        "failureTolerate",
        "self == '' || (self.matches('^[+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?$') && double(self) <= 1.0)",
        "must be a number from 0 to 1, for example \"0.1\"",
    ),
    ("concurrency", "self >= 0", "must be 0 or greater"),
    ("timeoutSeconds", "self >= 0", "must be 0 or greater"),
    ("retryTimes", "self >= 0", "must be 0 or greater"),
    (
        "version",
        "self.matches('^v[0-9]+[.][0-9]+[.][0-9]+(-[A-Za-z0-9._]+)*$')",
        "must be v and three numbers, for example v1.23.0 or v1.23.0-beta.1",
    ),
    (
        "image",
        "self == '' || self.matches('^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?(:[0-9]+)?(/[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)+\
         (:[A-Za-z0-9_][A-Za-z0-9_.-]*)?(@sha256:[0-9a-fA-F]{64})?$')",
        "must be the name of an image with at least one slash, for example kubeedge/installation-package",
    ),
    (
        "images",
        "self.all(image, image.matches('^[^ ]+$'))",
        "must be the name of an image, for example docker.io/library/nginx:1.27",
    ),
    (
        "images",
        "size(self) > 0 && size(self) <= 256",
        "must have 1 to 256 images",
    ),
    (
        "imageSecrets",
        "self == '' || self.matches('^[^/]+/[^/]+$')",
        "must be the namespace and the name of a Secret, for example default/registry",
    ),
    (
        "checkItems",
        "self.all(item, item in ['cpu', 'mem', 'disk'])",
        "must be cpu, mem or disk",
    ),
    (
        "updateFields",
        "size(self) > 0",
        "must have at least one key of edgecore.yaml, for example modules.edgeHub.heartbeat",
    ),
    (
        "updateFields",
        "self.all(key, key.matches('^[^. ]+([.][^. ]+)*$'))",
        "must be a key of edgecore.yaml, for example modules.edgeHub.heartbeat",
    ),
];
/// The rules of the terms, of the specification and of the whole object.
const SELECTION: (&str, &str) = (
    "(has(self.nodeNames) && size(self.nodeNames) > 0) != has(self.labelSelector)",
    "exactly one of nodeNames and labelSelector is required",
);
const SPEC: (&str, &str) = (
    "self == oldSelf",
    "cannot be changed; delete the job and create it again",
);
const OBJECT: (&str, &str) = (
    "self.metadata.name != 'node'",
    "a node job cannot be named \"node\"; choose another name",
);
/// The most characters of a text, and elements of a list, that a rule reads.
const MAX_TEXT: i64 = 512;
const MAX_LIST: i64 = 256;

/// Adds the rules to all versions of a kind, whose terms are at `path` below the specification. `required` is the rule of the fields that
/// the specification must have.
pub(crate) fn with_rules(
    mut crd: CustomResourceDefinition,
    path: &[&str],
    required: Option<(&str, &str)>,
) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        let schema = version.schema.as_mut();
        let Some(schema) = schema.and_then(|schema| schema.open_api_v3_schema.as_mut()) else {
            continue;
        };
        add(schema, OBJECT);
        let Some(spec) = property(schema, "spec") else {
            continue;
        };
        for rule in required.into_iter().chain([SPEC]) {
            add(spec, rule);
        }
        let terms = path.iter().try_fold(spec, |at, name| property(at, name));
        let Some(terms) = terms else { continue };
        add(terms, SELECTION);
        for (name, rule, why) in FIELDS {
            if let Some(field) = property(terms, name) {
                limit(field);
                add(field, (rule, why));
            }
        }
    }
    crd
}

fn property<'a>(schema: &'a mut JSONSchemaProps, name: &str) -> Option<&'a mut JSONSchemaProps> {
    schema.properties.as_mut()?.get_mut(name)
}

/// Limits what a rule reads: an API server refuses rules without an upper limit of their cost.
fn limit(field: &mut JSONSchemaProps) {
    match field.type_.as_deref() {
        Some("string") => field.max_length = Some(MAX_TEXT),
        Some("array") => field.max_items = Some(MAX_LIST),
        Some("object") => field.max_properties = Some(MAX_LIST),
        _ => {}
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut field.items {
        items.max_length = Some(MAX_TEXT);
    }
}

fn add(schema: &mut JSONSchemaProps, (rule, why): (&str, &str)) {
    let rules = schema.x_kubernetes_validations.get_or_insert_default();
    rules.push(ValidationRule {
        rule: rule.to_owned(),
        message: Some(why.to_owned()),
        ..ValidationRule::default()
    });
}
