//! Which objects an application wants: a copy of each Deployment for each target, all other objects once. Pure.

use std::collections::BTreeSet;

use crds::apps::{EdgeApplication, Overriders, TargetNodeLabel};
use k8s_openapi::{api::apps::v1::Deployment, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::ResourceExt;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use wire::{enroll::sha256_hex, text::printable_short};

use super::overriders;
use crate::controllers::{
    edge::topology::{RANGE_NODE_GROUP, TOPOLOGY},
    node_groups::GROUP_LABEL,
    workloads::pods::controller_reference,
};

/// Identifies an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(super) struct Identity {
    #[serde(default)]
    pub(super) group: String,
    #[serde(default)]
    pub(super) version: String,
    #[serde(default)]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) namespace: String,
    #[serde(default)]
    pub(super) name: String,
}

/// An object that the application wants.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Copy {
    /// The number of its manifest, from 0.
    pub(super) ordinal: usize,
    pub(super) identity: Identity,
    pub(super) object: Value,
}

/// Why an object cannot be wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) ordinal: usize,
    /// The object; `None` if the manifest does not say which.
    pub(super) identity: Option<Identity>,
    pub(super) why: String,
}

/// The objects of an application, and what is wrong.
#[derive(Debug, Default)]
pub(super) struct Copies {
    pub(super) wanted: Vec<Copy>,
    pub(super) faults: Vec<Fault>,
}

/// A group of nodes for which Deployments are copied.
struct Target<'a> {
    /// What the names of copies end with.
    suffix: String,
    bind: Bind,
    overriders: Option<&'a Overriders>,
}

/// How pods are bound to the nodes of a target.
enum Bind {
    Group(String),
    /// Terms of required node affinity.
    Labels(Vec<Value>),
}

/// Returns all objects of an application.
pub(super) fn copies(application: &EdgeApplication) -> Copies {
    let mut all = Copies::default();
    let targets = targets(application, &mut all.faults);
    let template = application.spec.workload_template.as_ref();
    let manifests = template
        .map(|template| template.manifests.as_slice())
        .unwrap_or_default();
    let mut seen = BTreeSet::new();
    for (ordinal, manifest) in manifests.iter().enumerate() {
        let (identity, object) = match prepare(application, manifest) {
            Ok(prepared) => prepared,
            Err(fault) => {
                let (identity, why) = *fault;
                all.faults.push(Fault {
                    ordinal,
                    identity,
                    why,
                });
                continue;
            }
        };
        for copy in for_targets(ordinal, identity, object, &targets, &mut all.faults) {
            if seen.insert(copy.identity.clone()) {
                all.wanted.push(copy);
            } else {
                all.faults.push(Fault {
                    ordinal,
                    why: format!(
                        "{} {:?} is in the manifests twice",
                        copy.identity.kind, copy.identity.name
                    ),
                    identity: Some(copy.identity),
                });
            }
        }
    }
    all
}

/// Returns the copies of one object: one for each target if it is a Deployment.
fn for_targets(
    ordinal: usize,
    identity: Identity,
    mut object: Value,
    targets: &[Target<'_>],
    faults: &mut Vec<Fault>,
) -> Vec<Copy> {
    let group_and_kind = (identity.group.as_str(), identity.kind.as_str());
    if group_and_kind == ("", "Service") {
        object["metadata"]["annotations"][TOPOLOGY] = json!(RANGE_NODE_GROUP);
    }
    if group_and_kind != ("apps", "Deployment") {
        return vec![Copy {
            ordinal,
            identity,
            object,
        }];
    }
    let mut copies = Vec::new();
    for target in targets {
        let name = format!("{}-{}", identity.name, target.suffix);
        let identity = Identity {
            name: name.clone(),
            ..identity.clone()
        };
        let mut object = object.clone();
        object["metadata"]["name"] = json!(name);
        let applied = check_name(&name).and_then(|()| match target.overriders {
            Some(overriders) => overriders::apply(&mut object, overriders),
            None => Ok(()),
        });
        if let Err(why) = applied {
            faults.push(Fault {
                ordinal,
                identity: Some(identity),
                why,
            });
            continue;
        }
        bind(&mut object, &target.bind);
        copies.push(Copy {
            ordinal,
            identity,
            object,
        });
    }
    copies
}

/// Binds the pods of a Deployment to the nodes of a target, beside what the template demands.
fn bind(deployment: &mut Value, bind: &Bind) {
    let spec = &mut deployment["spec"]["template"]["spec"];
    match bind {
        Bind::Group(group) => spec["nodeSelector"][GROUP_LABEL] = json!(group),
        Bind::Labels(terms) => {
            let required = &mut spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
            match required["nodeSelectorTerms"].as_array_mut() {
                // terms are alternatives: each demands the labels, too
                Some(known) if !known.is_empty() => {
                    for term in known {
                        let own = term["matchExpressions"]
                            .as_array()
                            .cloned()
                            .unwrap_or_default();
                        term["matchExpressions"] =
                            own.into_iter().chain(terms.iter().cloned()).collect();
                    }
                }
                _ => required["nodeSelectorTerms"] = json!([{"matchExpressions": terms}]),
            }
        }
    }
}

/// Returns the targets; one that is named twice is a fault.
fn targets<'a>(application: &'a EdgeApplication, faults: &mut Vec<Fault>) -> Vec<Target<'a>> {
    let scope = &application.spec.workload_scope;
    let groups = scope.target_node_groups.iter().map(|target| Target {
        suffix: target.name.clone(),
        bind: Bind::Group(target.name.clone()),
        overriders: target.overriders.as_ref(),
    });
    let labels = scope.target_node_labels.iter().map(of_labels);
    let (mut seen, mut targets) = (BTreeSet::new(), Vec::new());
    for target in groups.map(Ok).chain(labels) {
        let why = match target {
            Ok(target) if seen.insert(target.suffix.clone()) => {
                targets.push(target);
                continue;
            }
            Ok(target) => format!("target {:?} is in workloadScope twice", target.suffix),
            Err(why) => why,
        };
        faults.push(Fault {
            ordinal: 0,
            identity: None,
            why,
        });
    }
    targets
}

/// Returns the target of nodes with the same labels. Its name is that of KubeEdge: a hash of the labels.
fn of_labels(target: &TargetNodeLabel) -> Result<Target<'_>, String> {
    let selector = target.label_selector.clone().unwrap_or_default();
    let labels = selector.match_labels.unwrap_or_default();
    let expressions = selector.match_expressions.unwrap_or_default();
    let (mut hashed, mut terms) = (String::new(), Vec::new());
    for (key, value) in &labels {
        hashed.push_str(key);
        hashed.push_str(value);
        terms.push(json!({"key": key, "operator": "In", "values": [value]}));
    }
    for expression in &expressions {
        hashed.push_str(&json!(expression).to_string());
        terms.push(json!(expression));
    }
    if terms.is_empty() {
        return Err("a target of targetNodeLabels has no labelSelector".to_owned());
    }
    let hash: String = sha256_hex(hashed.as_bytes()).chars().take(8).collect();
    Ok(Target {
        suffix: format!("ls-{hash}"),
        bind: Bind::Labels(terms),
        overriders: target.overriders.as_ref(),
    })
}

/// The object of a manifest, if the manifest says which, and why it is refused.
type Refusal = (Option<Identity>, String);

/// Returns the identity of a manifest's object, and the object as the application owns it.
fn prepare(
    application: &EdgeApplication,
    manifest: &Map<String, Value>,
) -> Result<(Identity, Value), Box<Refusal>> {
    let mut object = Value::Object(manifest.clone());
    let text = |object: &Value, pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let api_version = text(&object, "/apiVersion");
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let own = application.namespace().unwrap_or_default();
    let namespace = text(&object, "/metadata/namespace");
    let identity = Identity {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: text(&object, "/kind"),
        namespace: own.clone(),
        name: text(&object, "/metadata/name"),
    };
    for (value, field) in [
        (&identity.version, "apiVersion"),
        (&identity.kind, "kind"),
        (&identity.name, "metadata.name"),
    ] {
        if value.is_empty() {
            return Err(Box::new((None, format!("the manifest has no {field}"))));
        }
    }
    if !namespace.is_empty() && namespace != own {
        let why = format!(
            "it is in namespace {namespace:?}; an EdgeApplication creates objects in its own namespace {own:?}, so remove metadata.namespace"
        );
        return Err(Box::new((Some(identity), why)));
    }
    if let Err(why) = check(&identity, &object) {
        return Err(Box::new((Some(identity), why)));
    }
    let Some(metadata) = object["metadata"].as_object_mut() else {
        return Err(Box::new((None, "the manifest has no metadata".to_owned())));
    };
    metadata.retain(|name, _| {
        matches!(
            name.as_str(),
            "name" | "labels" | "annotations" | "finalizers"
        )
    });
    metadata.insert("namespace".to_owned(), json!(own));
    metadata.insert(
        "ownerReferences".to_owned(),
        json!([controller_reference(application)]),
    );
    if let Some(object) = object.as_object_mut() {
        object.remove("status");
    }
    Ok((identity, object))
}

/// The group of roles and bindings. Who creates them must have their permissions, which cannot be checked for the author of an application.
const RBAC: &str = "rbac.authorization.k8s.io";
/// The longest name of an object.
const MAX_NAME: usize = 253;

/// Checks what the controller reads, changes and puts into paths of the API; the error says what is wrong.
fn check(identity: &Identity, object: &Value) -> Result<(), String> {
    let is_word = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let is_group = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte))
    };
    if !is_word(&identity.kind) || !is_word(&identity.version) || !is_group(&identity.group) {
        return Err("its apiVersion or kind is invalid".to_owned());
    }
    if identity.group == RBAC {
        return Err(format!(
            "an EdgeApplication cannot create objects of {RBAC}; apply them yourself"
        ));
    }
    check_name(&identity.name)?;
    let invalid = |error: serde_json::Error| format!("the manifest is invalid: {error}");
    ObjectMeta::deserialize(&object["metadata"]).map_err(invalid)?;
    if (identity.group.as_str(), identity.kind.as_str()) == ("apps", "Deployment") {
        Deployment::deserialize(object).map_err(invalid)?;
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), String> {
    let is_allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-".contains(&byte);
    if name.len() <= MAX_NAME && name.bytes().all(is_allowed) {
        return Ok(());
    }
    let name = printable_short(name);
    Err(format!(
        "{name:?} is no name of an object: use at most {MAX_NAME} lower case letters, digits, '-' and '.'"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_of_a_target_bind_its_pods() {
        let expression = json!({"key": "region", "operator": "NotIn", "values": ["west"]});
        let manifest = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"selector": {}, "template": {"spec": {"containers": []}}}});
        let targets =
            json!([{"labelSelector": {"matchExpressions": [expression]}}, {"labelSelector": {}}]);
        let application = json!({"metadata": {"name": "app", "namespace": "default", "uid": "u"}, "spec": {
            "workloadTemplate": {"manifests": [manifest]}, "workloadScope": {"targetNodeLabels": targets}}});
        let application = serde_json::from_value(application).unwrap();
        let copies = copies(&application);
        let [copy] = copies.wanted.as_slice() else {
            panic!("{:?}", copies.wanted)
        };
        assert!(copy.identity.name.starts_with("web-ls-"));
        let terms = "/spec/template/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
        let expected = json!([{"matchExpressions": [expression]}]);
        assert_eq!(copy.object.pointer(terms), Some(&expected));
        // a target that selects nothing is a fault, not all nodes
        assert!(copies.faults[0].why.contains("has no labelSelector"));
    }

    #[test]
    fn manifests_that_no_object_can_have_are_faults() {
        let deployment = |spec: Value| json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec});
        let template = |spec: Value| deployment(json!({"template": {"spec": spec}}));
        let named = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        let container = |field: &str, value: Value| {
            template(json!({"containers": [{"name": "a", field: value}]}))
        };
        let mut rows = vec![
            deployment(json!(5)),
            deployment(json!([])),
            deployment(json!({"template": 5})),
            template(json!([])),
            template(json!({"nodeSelector": "x"})),
            template(json!({"nodeSelector": ["x"]})),
            template(json!({"affinity": 3})),
            template(
                json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [7]}}}}),
            ),
            template(json!({"containers": "x"})),
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "annotations": 7}}),
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "annotations": [7]}}),
            json!({"apiVersion": "v1/x", "kind": "A/b", "metadata": {"name": "s"}}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": 5}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "gain"}}),
        ];
        for value in [
            json!(5),
            json!("x"),
            json!([1]),
            json!([{}]),
            json!({"limits": 5}),
        ] {
            rows.push(container("resources", value));
        }
        for name in [
            "a b",
            "a\nb",
            "../../x",
            "x/status",
            "a%2fb",
            "x?dryRun=All",
            "a#b",
            "A",
            &"a".repeat(300),
        ] {
            rows.push(named(name));
        }
        for manifest in rows {
            let application = json!({"metadata": {"name": "app", "namespace": "default", "uid": "u"}, "spec": {
                "workloadTemplate": {"manifests": [manifest, named("last")]},
                "workloadScope": {"targetNodeGroups": [{"name": "berlin", "overriders": {
                    "replicas": 2, "resourcesOverriders": [{"containerName": "a", "value": {"limits": {"cpu": "1"}}}]}}]}}});
            let application = serde_json::from_value(application).unwrap();
            let copies = copies(&application);
            assert_eq!(copies.faults.len(), 1, "{manifest}: {:?}", copies.faults);
            let names: Vec<_> = copies
                .wanted
                .iter()
                .map(|copy| copy.identity.name.as_str())
                .collect();
            assert_eq!(names, ["last"], "{manifest}");
        }
    }
}
