//! Checks metadata by the rules that all kinds share.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{
    change::{Change, Kept, change},
    engine::{
        Row,
        Rule::{Check, Labels},
        row,
    },
    place::Place,
};
use crate::{
    cause::Cause,
    object::{is_deleting, items, names, text_or_empty},
    registry::{Builtin, Kind},
};

/// The most bytes of all annotations together.
pub(crate) const ANNOTATIONS_BYTES: usize = 256 * 1024;
/// The finalizers that need no domain.
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

static CONTENT: &[Row] = &[
    row("metadata.labels", Labels),
    row("metadata.annotations", Check(annotations)),
    row("metadata.ownerReferences[-]", Check(owner)),
    row("metadata.ownerReferences", Check(controllers)),
    row("metadata.finalizers[-]", Check(qualified_finalizer)),
    row("metadata.finalizers", Check(exclusive_finalizers)),
];
static FINALIZERS: &[Row] = &[row("metadata.finalizers[*]", Check(standard_finalizer))];
static CHANGES: &[Change] = &[
    change("metadata.name", Kept::Same),
    change("metadata.namespace", Kept::Same),
    change("metadata.uid", Kept::Same),
    change("metadata.creationTimestamp", Kept::Same),
    change("metadata.deletionTimestamp", Kept::Same),
    change("metadata.deletionGracePeriodSeconds", Kept::Same),
];

/// Adds the faults in a new object's metadata.
pub fn create(kind: &Kind, object: &Place<'_>, causes: &mut Vec<Cause>) {
    let metadata = object.child("metadata", "metadata");
    let prefix = metadata.text("generateName");
    if !prefix.is_empty() {
        // one dash at the end is that before what is generated
        let masked = match prefix.strip_suffix('-') {
            Some(rest) if !rest.is_empty() => format!("{rest}a"),
            _ => prefix.to_owned(),
        };
        let faults = name_faults(kind, object.value, &masked);
        causes.extend(
            faults
                .iter()
                .map(|why| metadata.invalid("generateName", &prefix.into(), why)),
        );
    }
    match metadata.text("name") {
        "" => causes.push(Cause::required(
            "metadata.name",
            "name or generateName is required",
        )),
        name => {
            let faults = name_faults(kind, object.value, name);
            causes.extend(
                faults
                    .iter()
                    .map(|why| metadata.invalid("name", &name.into(), why)),
            );
        }
    }
    content(kind, object, causes);
}

/// Adds the faults in changed metadata.
pub fn update(kind: &Kind, old: &Value, new: &Place<'_>, causes: &mut Vec<Cause>) {
    let before: HashSet<_> = items(old, "/metadata/finalizers")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let is_new = |item: &&Value| item.as_str().is_none_or(|name| !before.contains(name));
    let added: Vec<_> = items(new.value, "/metadata/finalizers")
        .iter()
        .filter(is_new)
        .collect();
    if is_deleting(old) && !added.is_empty() {
        let added: Vec<_> = added.iter().map(ToString::to_string).collect();
        let why = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            added.join(", ")
        );
        causes.push(Cause::forbidden("metadata.finalizers", &why));
    }
    // what a client leaves out stays
    let is_given = |cause: &Cause| !cause.message.starts_with("Invalid value: null");
    let mut changed = Vec::new();
    super::change::check(CHANGES, old, new.value, &mut changed);
    causes.extend(changed.into_iter().filter(is_given));
    content(kind, new, causes);
}

fn content(kind: &Kind, object: &Place<'_>, causes: &mut Vec<Cause>) {
    super::engine::check(CONTENT, object, causes);
    let is_of_core = !matches!(
        kind.group.as_str(),
        "admissionregistration.k8s.io"
            | "apiextensions.k8s.io"
            | "apiregistration.k8s.io"
            | "coordination.k8s.io"
    );
    if kind.builtin.is_some() && is_of_core {
        super::engine::check(FINALIZERS, object, causes);
    }
}

/// Checks annotations.
pub fn annotations(annotations: &Place<'_>, causes: &mut Vec<Cause>) {
    for (key, _) in annotations.entries() {
        let faults = names::qualified_name(&key.to_lowercase());
        causes.extend(
            faults
                .iter()
                .map(|why| Cause::invalid(annotations.path(), &key.into(), why)),
        );
    }
    let bytes = |(key, value): (&str, &Value)| key.len() + value.as_str().map_or(0, str::len);
    if annotations.entries().map(bytes).sum::<usize>() > ANNOTATIONS_BYTES {
        causes.push(Cause::too_long(annotations.path(), ANNOTATIONS_BYTES));
    }
}

/// Checks a finalizer: a standard one, or one with a domain.
pub fn finalizer(finalizer: &Place<'_>, causes: &mut Vec<Cause>) {
    let before = causes.len();
    qualified_finalizer(finalizer, causes);
    if causes.len() == before {
        standard_finalizer(finalizer, causes);
    }
}

fn qualified_finalizer(finalizer: &Place<'_>, causes: &mut Vec<Cause>) {
    let faults = names::qualified_name(finalizer.value.as_str().unwrap_or_default());
    causes.extend(faults.iter().map(|why| finalizer.refusal(why)));
}

fn standard_finalizer(finalizer: &Place<'_>, causes: &mut Vec<Cause>) {
    let name = finalizer.value.as_str().unwrap_or_default();
    if !name.contains('/') && !STANDARD_FINALIZERS.contains(&name) {
        let why = "name is neither a standard finalizer name nor is it fully qualified";
        causes.push(finalizer.refusal(why));
    }
}

fn exclusive_finalizers(finalizers: &Place<'_>, causes: &mut Vec<Cause>) {
    let has = |name: &str| finalizers.list().iter().any(|finalizer| finalizer == name);
    if has("orphan") && has("foregroundDeletion") {
        causes
            .push(finalizers.refusal("finalizer orphan and foregroundDeletion cannot be both set"));
    }
}

fn owner(owner: &Place<'_>, causes: &mut Vec<Cause>) {
    let (api_version, kind) = (owner.text("apiVersion"), owner.text("kind"));
    if api_version.rsplit('/').next().is_none_or(str::is_empty) {
        causes.push(owner.invalid(
            "apiVersion",
            &api_version.into(),
            "version must not be empty",
        ));
    }
    for key in ["kind", "name", "uid"] {
        if owner.text(key).is_empty() {
            causes.push(owner.invalid(key, &"".into(), "must not be empty"));
        }
    }
    if (api_version, kind) == ("v1", "Event") {
        causes.push(owner.refusal("/v1, Kind=Event is disallowed from being an owner"));
    }
}

fn controllers(owners: &Place<'_>, causes: &mut Vec<Cause>) {
    let is_controller = |owner: &&Value| {
        owner
            .get("controller")
            .and_then(Value::as_bool)
            .unwrap_or(false)
    };
    let name = |owner: &Value| {
        format!(
            "{}/{}",
            text_or_empty(owner, "/kind"),
            text_or_empty(owner, "/name")
        )
    };
    let mut controllers = owners.list().iter().filter(is_controller).map(name);
    let Some(first) = controllers.next() else {
        return;
    };
    for other in controllers {
        let why = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {other}"
        );
        causes.push(owners.refusal(&why));
    }
}

/// Returns the faults of an object's name.
pub fn name_faults(kind: &Kind, object: &Value, name: &str) -> Vec<String> {
    match kind.builtin {
        Some(Builtin::Namespace | Builtin::StatefulSet | Builtin::Service) => {
            names::dns_label(name)
        }
        // These kinds allow any name that fits into a path.
        Some(
            Builtin::Role
            | Builtin::RoleBinding
            | Builtin::ClusterRole
            | Builtin::ClusterRoleBinding
            | Builtin::CertificateSigningRequest
            | Builtin::PodDisruptionBudget
            | Builtin::Event,
        ) => names::path_segment(name),
        Some(Builtin::CustomResourceDefinition) => of_definition(object, name),
        Some(Builtin::ApiService) => of_api_service(object, name),
        Some(Builtin::IpAddress) => names::ip_address(name),
        _ => names::dns_subdomain(name),
    }
}

fn of_definition(object: &Value, name: &str) -> Vec<String> {
    let part = |pointer| text_or_empty(object, pointer);
    let wanted = format!("{}.{}", part("/spec/names/plural"), part("/spec/group"));
    let mut faults = names::dns_subdomain(name);
    if name != wanted {
        faults.push("must be spec.names.plural+\".\"+spec.group".to_owned());
    }
    faults
}

fn of_api_service(object: &Value, name: &str) -> Vec<String> {
    let wanted = format!(
        "{}.{}",
        text_or_empty(object, "/spec/version"),
        text_or_empty(object, "/spec/group")
    );
    let faults = names::path_segment(name);
    if !faults.is_empty() || name == wanted {
        return faults;
    }
    vec![format!(
        "must be `spec.version+\".\"+spec.group`: {}",
        json!(wanted)
    )]
}
