//! Which rules hold for a caller: bindings, the roles that they name, and roles that are made of others.

use serde_json::{Value, json};

use crate::{
    Api, Identity,
    object::{items, text_or_empty},
    selector::Selection,
    status::StatusError,
    store::{Key, Page, Resource, Scope, Store},
};

const GROUP: &str = "rbac.authorization.k8s.io";

/// The group of everybody who is known.
pub(super) const AUTHENTICATED: &str = "system:authenticated";

/// Rules that hold for a caller.
#[derive(Debug)]
pub(super) struct Grant {
    /// In the words of the real server.
    pub(super) reason: String,
    pub(super) rules: Vec<Value>,
    /// Whether they hold in every namespace and for paths.
    pub(super) everywhere: bool,
}

/// What holds for `caller` everywhere and, where one is given, in `namespace`.
pub(super) async fn grants(api: &Api, caller: &Identity, namespace: &str) -> Result<Vec<Grant>, StatusError> {
    let mut grants = vec![discovery()];
    let mut bindings = listed(api, "clusterrolebindings", None).await?;
    if !namespace.is_empty() {
        bindings.extend(listed(api, "rolebindings", Some(namespace)).await?);
    }
    for binding in bindings {
        let own = text_or_empty(&binding, "/metadata/namespace");
        let Some(subject) =
            items(&binding, "/subjects").iter().find(|subject| is_subject(subject, own, caller))
        else {
            continue;
        };
        let (kind, name) =
            (text_or_empty(&binding, "/roleRef/kind"), text_or_empty(&binding, "/roleRef/name"));
        let rules = rules(api, kind, name, own).await?;
        let place = if own.is_empty() { "ClusterRoleBinding" } else { "RoleBinding" };
        let bound = text_or_empty(&binding, "/metadata/name");
        let bound = if own.is_empty() { bound.to_owned() } else { format!("{bound}/{own}") };
        let (who, whom) = (text_or_empty(subject, "/kind"), text_or_empty(subject, "/name"));
        let reason = format!("RBAC: allowed by {place} {bound:?} of {kind} {name:?} to {who} {whom:?}");
        grants.push(Grant { reason, rules, everywhere: own.is_empty() });
    }
    Ok(grants)
}

/// What everybody who is known may read and ask (`system:discovery`, `system:basic-user`).
fn discovery() -> Grant {
    let paths = [
        "/api",
        "/api/*",
        "/apis",
        "/apis/*",
        "/healthz",
        "/livez",
        "/openapi",
        "/openapi/*",
        "/readyz",
        "/version",
    ];
    let asks = json!({
        "verbs": ["create"], "apiGroups": ["authentication.k8s.io", "authorization.k8s.io"],
        "resources": ["selfsubjectreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews"],
    });
    Grant {
        reason: format!(
            "RBAC: allowed by ClusterRoleBinding \"system:discovery\" of ClusterRole \"system:discovery\" to Group {AUTHENTICATED:?}"
        ),
        rules: vec![json!({"verbs": ["get"], "nonResourceURLs": paths}), asks],
        everywhere: true,
    }
}

/// `namespace`: where the binding stands.
fn is_subject(subject: &Value, namespace: &str, caller: &Identity) -> bool {
    let name = text_or_empty(subject, "/name");
    match text_or_empty(subject, "/kind") {
        "User" => name == caller.user,
        "Group" => name == AUTHENTICATED || caller.groups.iter().any(|group| group == name),
        "ServiceAccount" => {
            let own = text_or_empty(subject, "/namespace");
            let own = if own.is_empty() { namespace } else { own };
            caller.user == format!("system:serviceaccount:{own}:{name}")
        }
        _ => false,
    }
}

/// The rules of a role; a role that is not there has none.
async fn rules(api: &Api, kind: &str, name: &str, namespace: &str) -> Result<Vec<Value>, StatusError> {
    let (plural, namespace) = if kind == "ClusterRole" { ("clusterroles", "") } else { ("roles", namespace) };
    let key = Key::new(Resource::new(GROUP, plural), namespace, name);
    let role = match Store::get(&**api.store(), &key).await? {
        Some(role) => role.value()?,
        None if plural == "clusterroles" => ready_made(name),
        None => Value::Null,
    };
    let mut rules = items(&role, "/rules").to_vec();
    let selectors = items(&role, "/aggregationRule/clusterRoleSelectors");
    if !selectors.is_empty() {
        let others = listed(api, "clusterroles", None).await?;
        for other in others.iter().filter(|other| selectors.iter().any(|own| selects(own, other))) {
            rules.extend_from_slice(items(other, "/rules"));
        }
    }
    Ok(rules)
}

/// Whether a `LabelSelector` selects the object. One that cannot be read selects nothing.
fn selects(selector: &Value, object: &Value) -> bool {
    Selection::of_labels(selector).is_some_and(|selection| selection.matches(object))
}

/// The roles for people that every cluster has. A stored one of the same name goes before.
fn ready_made(name: &str) -> Value {
    let groups = [
        "",
        "apps",
        "autoscaling",
        "batch",
        "discovery.k8s.io",
        "networking.k8s.io",
        "policy",
        "events.k8s.io",
    ];
    let shown = [
        "bindings",
        "configmaps",
        "controllerrevisions",
        "cronjobs",
        "daemonsets",
        "deployments",
        "deployments/scale",
        "endpoints",
        "endpointslices",
        "events",
        "horizontalpodautoscalers",
        "ingresses",
        "jobs",
        "limitranges",
        "namespaces",
        "networkpolicies",
        "persistentvolumeclaims",
        "poddisruptionbudgets",
        "pods",
        "pods/log",
        "pods/status",
        "replicasets",
        "replicasets/scale",
        "replicationcontrollers",
        "resourcequotas",
        "serviceaccounts",
        "services",
        "statefulsets",
        "statefulsets/scale",
    ];
    let hidden = [
        "pods/attach",
        "pods/exec",
        "pods/eviction",
        "pods/portforward",
        "pods/proxy",
        "secrets",
        "serviceaccounts/token",
    ];
    let reads = json!({"apiGroups": groups, "resources": shown, "verbs": ["get", "list", "watch"]});
    let fixed = ["events", "limitranges", "namespaces", "pods/log", "resourcequotas"];
    let changed: Vec<_> = shown.into_iter().chain(hidden).filter(|name| !fixed.contains(name)).collect();
    let all = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    let writes = json!({"apiGroups": groups, "resources": changed, "verbs": all});
    let roles = json!({"apiGroups": [GROUP], "resources": ["roles", "rolebindings"], "verbs": all});
    let rules = match name {
        "cluster-admin" => json!([
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, {"nonResourceURLs": ["*"], "verbs": ["*"]},
        ]),
        "admin" => json!([reads, writes, roles]),
        "edit" => json!([reads, writes]),
        "view" => json!([reads]),
        _ => return Value::Null,
    };
    let label = format!("{GROUP}/aggregate-to-{name}");
    json!({"rules": rules, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]}})
}

async fn listed(api: &Api, plural: &str, namespace: Option<&str>) -> Result<Vec<Value>, StatusError> {
    let scope = Scope { resource: Resource::new(GROUP, plural), namespace: namespace.map(str::to_owned) };
    let listing = api.store().list(&scope, &Page::default()).await?;
    Ok(listing.items.iter().map(|object| object.value()).collect::<Result<_, _>>()?)
}
