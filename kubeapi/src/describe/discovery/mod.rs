//! Discovery: lists the groups, versions and resources of the API.

use std::cmp::Reverse;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

use crate::{
    registry::{Builtin, Kind, Registry, version_priority},
    request::{review_kind::ReviewKind, subresource::Subresource},
};

/// The Kubernetes version whose API this is.
pub const KUBERNETES_VERSION: &str = "v1.33.0";

/// Returns `/version`: the Kubernetes version whose API this is.
pub(crate) fn version() -> Value {
    json!({
        "major": "1",
        "minor": "33",
        "gitVersion": format!("{KUBERNETES_VERSION}+outrigger"),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, architecture()),
    })
}

/// Returns the processor architecture by Go's name.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        other => other,
    }
}

/// Returns `/api`.
pub(crate) fn core_versions() -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}],
    })
}

/// Returns `/apis`.
pub(crate) fn groups(registry: &Registry) -> Value {
    let groups: Vec<_> = named_groups(registry)
        .into_iter()
        .filter_map(|name| body(registry, name))
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// Returns `/apis/<group>`.
pub(crate) fn group(registry: &Registry, group: &str) -> Option<Value> {
    let mut group = body(registry, group)?;
    group["kind"] = "APIGroup".into();
    group["apiVersion"] = "v1".into();
    Some(group)
}

/// Returns `/`: the paths that exist, without those of objects.
pub(crate) fn root(registry: &Registry) -> Value {
    const OTHERS: [&str; 9] = [
        "/api",
        "/api/v1",
        "/apis",
        "/healthz",
        "/livez",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        "/readyz",
    ];
    let mut paths: Vec<_> = OTHERS.map(str::to_owned).into();
    paths.push("/version".to_owned());
    for group in named_groups(registry) {
        paths.push(format!("/apis/{group}"));
        paths.extend(
            versions(registry, group)
                .iter()
                .map(|version| format!("/apis/{group}/{version}")),
        );
    }
    paths.sort();
    json!({"paths": paths})
}

/// Returns `/api/v1` or `/apis/<group>/<version>`.
pub(crate) fn resources(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let kinds = registry
        .group_version(group, version)
        .flat_map(|kind| list_items(kind));
    let resources: Vec<_> = kinds
        .chain(ReviewKind::of(group, version).map(review))
        .collect();
    if resources.is_empty() {
        return None;
    }
    let group_version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    Some(json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources,
    }))
}

/// Returns `/api` and everything below it in one response.
pub(crate) fn aggregated_core(registry: &Registry) -> Value {
    aggregated_list(registry, &[""])
}

/// Returns `/apis` and everything below it in one response.
pub(crate) fn aggregated_discovery(registry: &Registry) -> Value {
    aggregated_list(registry, &named_groups(registry))
}

/// Returns every group but the core one.
fn named_groups(registry: &Registry) -> Vec<&str> {
    let mut groups = Vec::new();
    // Groups that users define come last, in the order of their names: the first one counts if a short name has several meanings.
    let own = registry
        .kinds()
        .iter()
        .filter(|kind| kind.builtin.is_some())
        .map(|kind| kind.group.as_str());
    let mut defined: Vec<_> = registry
        .kinds()
        .iter()
        .map(|kind| kind.group.as_str())
        .collect();
    defined.sort_unstable();
    for group in own.chain(ReviewKind::GROUPS).chain(defined) {
        if !group.is_empty() && !groups.contains(&group) {
            groups.push(group);
        }
    }
    groups
}

/// Returns the versions of a group, the preferred one first.
fn versions<'a>(registry: &'a Registry, group: &str) -> Vec<&'a str> {
    let all = registry
        .group_versions()
        .into_iter()
        .filter(|(own, _)| *own == group);
    let mut versions: Vec<_> = all.map(|(_, version)| version).collect();
    if ReviewKind::GROUPS.contains(&group) && !versions.contains(&"v1") {
        versions.push("v1");
    }
    versions.sort_by_key(|version| Reverse(version_priority(version)));
    versions
}

fn body(registry: &Registry, group: &str) -> Option<Value> {
    let version =
        |version: &str| json!({"groupVersion": format!("{group}/{version}"), "version": version});
    let versions: Vec<_> = versions(registry, group).into_iter().map(version).collect();
    let preferred = versions.first().filter(|_| !group.is_empty())?.clone();
    Some(json!({"name": group, "versions": versions, "preferredVersion": preferred}))
}

fn verbs(kind: &Kind) -> &'static [&'static str] {
    if kind.is(Builtin::Computed) {
        return &["get", "list"];
    }
    if kind.is(Builtin::Namespace) {
        return &[
            "create", "delete", "get", "list", "patch", "update", "watch",
        ];
    }
    &[
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch",
    ]
}

/// Returns a kind and its subresources as items of an `APIResourceList`.
fn list_items(kind: &Kind) -> Vec<Value> {
    let mut resource = Map::new();
    resource.insert("name".into(), kind.plural.as_str().into());
    resource.insert("singularName".into(), kind.singular.as_str().into());
    resource.insert("namespaced".into(), kind.namespaced.into());
    resource.insert("kind".into(), kind.kind.as_str().into());
    resource.insert("verbs".into(), json!(verbs(kind)));
    names(kind, &mut resource);
    if !kind.is(Builtin::Computed) {
        resource.insert(
            "storageVersionHash".into(),
            storage_version_hash(kind).into(),
        );
    }
    let part = |part: Subresource| {
        let own = part.kind(kind);
        let mut body = json!({
            "name": format!("{}/{}", kind.plural, part.name()),
            "singularName": "",
            "namespaced": kind.namespaced,
            "kind": own.map_or(kind.kind.as_str(), |(_, _, name)| name),
            "verbs": part.verbs(),
        });
        if let Some((group, version, _)) = own.filter(|(group, _, _)| *group != kind.group) {
            body["group"] = group.into();
            body["version"] = version.into();
        }
        body
    };
    std::iter::once(Value::Object(resource))
        .chain(Subresource::of(kind).into_iter().map(part))
        .collect()
}

/// Returns what changes with the version in which objects of a kind are stored.
fn storage_version_hash(kind: &Kind) -> String {
    let (group, version) = kind.storage_version();
    let name = format!("{group}/{version}/{}", kind.kind);
    let hash = ring::digest::digest(&ring::digest::SHA256, name.as_bytes());
    STANDARD.encode(hash.as_ref().iter().take(8).copied().collect::<Vec<_>>())
}

/// Returns the item for a review kind, such as an access review.
fn review(review: ReviewKind) -> Value {
    json!({
        "name": review.plural(), "singularName": review.kind().to_lowercase(), "namespaced": review.is_namespaced(),
        "kind": review.kind(), "verbs": ["create"],
    })
}

fn aggregated_review(review: ReviewKind) -> Value {
    json!({
        "resource": review.plural(),
        "responseKind": {"group": review.group(), "version": "v1", "kind": review.kind()},
        "scope": if review.is_namespaced() { "Namespaced" } else { "Cluster" },
        "singularResource": review.kind().to_lowercase(),
        "verbs": ["create"],
    })
}

fn names(kind: &Kind, resource: &mut Map<String, Value>) {
    for (field, names) in [
        ("shortNames", &kind.short_names),
        ("categories", &kind.categories),
    ] {
        if !names.is_empty() {
            resource.insert(field.into(), json!(names));
        }
    }
}

fn aggregated_list(registry: &Registry, groups: &[&str]) -> Value {
    let version = |group: &str, version: &str| {
        let resources = registry
            .group_version(group, version)
            .map(|kind| aggregated_resource(kind));
        let resources: Vec<_> = resources
            .chain(ReviewKind::of(group, version).map(aggregated_review))
            .collect();
        json!({"version": version, "resources": resources, "freshness": "Current"})
    };
    let group = |group: &&str| {
        let versions: Vec<_> = versions(registry, group)
            .into_iter()
            .map(|name| version(group, name))
            .collect();
        let metadata = if group.is_empty() {
            json!({})
        } else {
            json!({"name": group})
        };
        json!({"metadata": metadata, "versions": versions})
    };
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": groups.iter().map(group).collect::<Vec<_>>(),
    })
}

fn aggregated_resource(kind: &Kind) -> Value {
    let own = (
        kind.group.as_str(),
        kind.version.as_str(),
        kind.kind.as_str(),
    );
    let response = |(group, version, kind): (&str, &str, &str)| json!({"group": group, "version": version, "kind": kind});
    let mut resource = Map::new();
    resource.insert("resource".into(), kind.plural.as_str().into());
    resource.insert("responseKind".into(), response(own));
    resource.insert(
        "scope".into(),
        if kind.namespaced {
            "Namespaced"
        } else {
            "Cluster"
        }
        .into(),
    );
    resource.insert("singularResource".into(), kind.singular.as_str().into());
    resource.insert("verbs".into(), json!(verbs(kind)));
    names(kind, &mut resource);
    let parts: Vec<_> = Subresource::of(kind)
        .into_iter()
        .map(|part| {
            let answered = response(part.kind(kind).unwrap_or(own));
            json!({"subresource": part.name(), "responseKind": answered, "verbs": part.verbs()})
        })
        .collect();
    if !parts.is_empty() {
        resource.insert("subresources".into(), parts.into());
    }
    Value::Object(resource)
}

#[cfg(test)]
mod tests;
