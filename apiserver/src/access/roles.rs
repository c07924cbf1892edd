//! Finds the rules that bindings and their roles grant to a caller.

use serde_json::Value;

use crate::Server;
use kubeapi::{
    Identity,
    object::{items, text_or_empty},
    selector::Selection,
    status::StatusError,
};
use objectstore::{Key, Page, Resource, Scope, Store, StoreError};

/// The API group of roles and bindings.
pub(super) const GROUP: &str = "rbac.authorization.k8s.io";

/// The rules that a binding grants.
#[derive(Debug)]
pub(super) struct Grant {
    /// The reason, in the API server's words.
    pub(super) reason: String,
    pub(super) rules: Vec<Value>,
    /// Whether they apply to the whole cluster and to non-resource paths.
    pub(super) everywhere: bool,
}

/// Returns what is granted to `caller` in the cluster and, if given, in `namespace`.
pub(super) async fn grants(
    api: &Server,
    caller: &Identity,
    namespace: &str,
) -> Result<Vec<Grant>, StatusError> {
    let mut grants = Vec::new();
    let mut bindings = list(api, "clusterrolebindings", None).await?;
    if !namespace.is_empty() {
        bindings.extend(list(api, "rolebindings", Some(namespace)).await?);
    }
    for binding in bindings {
        let own = text_or_empty(&binding, "/metadata/namespace");
        let Some(subject) = items(&binding, "/subjects")
            .iter()
            .find(|subject| is_subject(subject, own, caller))
        else {
            continue;
        };
        let (kind, name) = (
            text_or_empty(&binding, "/roleRef/kind"),
            text_or_empty(&binding, "/roleRef/name"),
        );
        let rules = rules_of(api, kind, name, own).await?.unwrap_or_default();
        let place = if own.is_empty() {
            "ClusterRoleBinding"
        } else {
            "RoleBinding"
        };
        let bound = text_or_empty(&binding, "/metadata/name");
        let bound = if own.is_empty() {
            bound.to_owned()
        } else {
            format!("{bound}/{own}")
        };
        let (who, whom) = (
            text_or_empty(subject, "/kind"),
            text_or_empty(subject, "/name"),
        );
        let reason =
            format!("RBAC: allowed by {place} {bound:?} of {kind} {name:?} to {who} {whom:?}");
        grants.push(Grant {
            reason,
            rules,
            everywhere: own.is_empty(),
        });
    }
    Ok(grants)
}

/// Reports whether a subject of a binding is the caller. `namespace` is the binding's.
fn is_subject(subject: &Value, namespace: &str, caller: &Identity) -> bool {
    let name = text_or_empty(subject, "/name");
    match text_or_empty(subject, "/kind") {
        "User" => name == caller.user,
        "Group" => caller.is_in(name),
        "ServiceAccount" => {
            let own = text_or_empty(subject, "/namespace");
            let own = if own.is_empty() { namespace } else { own };
            caller.user == format!("system:serviceaccount:{own}:{name}")
        }
        _ => false,
    }
}

/// Returns the rules of a role; `None` if there is no such role.
pub(super) async fn rules_of(
    api: &Server,
    kind: &str,
    name: &str,
    namespace: &str,
) -> Result<Option<Vec<Value>>, StatusError> {
    let (plural, namespace) = if kind == "ClusterRole" {
        ("clusterroles", "")
    } else {
        ("roles", namespace)
    };
    let key = Key::new(Resource::new(GROUP, plural), namespace, name);
    let role = match Store::get(&**api.store(), &key).await {
        // it allows nothing until it is written anew
        Err(StoreError::Damaged { .. }) => None,
        role => role?.map(|role| role.value()).transpose()?,
    };
    Ok(role.map(|role| items(&role, "/rules").to_vec()))
}

/// Reports whether a `LabelSelector` selects the object. An invalid one selects nothing.
pub(super) fn selects(selector: &Value, object: &Value) -> bool {
    Selection::of_labels(selector).is_some_and(|selection| selection.matches(object))
}

/// Lists the roles or bindings of a collection in the order of their names.
pub(super) async fn list(
    api: &Server,
    plural: &str,
    namespace: Option<&str>,
) -> Result<Vec<Value>, StatusError> {
    let scope = Scope {
        resource: Resource::new(GROUP, plural),
        namespace: namespace.map(str::to_owned),
    };
    let listing = api.store().list(&scope, &Page::default()).await?;
    Ok(listing
        .items
        .iter()
        .map(|object| object.value())
        .collect::<Result<_, _>>()?)
}
