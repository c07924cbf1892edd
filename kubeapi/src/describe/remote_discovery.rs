//! Adds groups and versions of other servers to discovery. Pure.

use std::cmp::Reverse;

use serde_json::{Map, Value, json};

use crate::{
    object::{items, text_or_empty},
    registry::version_priority,
    request::remote::RemoteVersion,
};

/// Returns the groups of other servers with their versions, each the preferred one first.
fn by_group(remotes: &[RemoteVersion]) -> Vec<(&str, Vec<&RemoteVersion>)> {
    let mut sorted: Vec<_> = remotes.iter().collect();
    sorted.sort_by_key(|remote| {
        (
            Reverse((remote.group_priority, remote.version_priority)),
            remote.group.as_str(),
            // of versions with the same priority, the stable and newer one first
            Reverse(version_priority(&remote.version)),
            remote.version.as_str(),
        )
    });
    let mut groups: Vec<(&str, Vec<&RemoteVersion>)> = Vec::new();
    for remote in sorted {
        match groups.iter_mut().find(|(group, _)| *group == remote.group) {
            Some((_, versions)) => versions.push(remote),
            None => groups.push((&remote.group, vec![remote])),
        }
    }
    groups
}

/// Returns `/` with the paths of other servers.
pub(crate) fn root(mut own: Value, remotes: &[RemoteVersion]) -> Value {
    let mut paths: Vec<_> = items(&own, "/paths").to_vec();
    for (group, versions) in by_group(remotes) {
        paths.push(format!("/apis/{group}").into());
        paths.extend(
            versions
                .iter()
                .map(|remote| format!("/apis/{group}/{}", remote.version).into()),
        );
    }
    paths.sort_by(|one, two| one.as_str().cmp(&two.as_str()));
    paths.dedup();
    own["paths"] = paths.into();
    own
}

/// Returns `/apis` with the groups of other servers.
pub(crate) fn groups(mut own: Value, remotes: &[RemoteVersion]) -> Value {
    let mut groups = items(&own, "/groups").to_vec();
    for (group, versions) in by_group(remotes) {
        match groups
            .iter_mut()
            .find(|known| text_or_empty(known, "/name") == group)
        {
            Some(known) => add_versions(known, group, &versions),
            None => groups.push(new_group(group, &versions)),
        }
    }
    own["groups"] = groups.into();
    own
}

/// Returns `/apis/<group>`, if this API (`own`) or another server has it.
pub(crate) fn group(own: Option<Value>, group: &str, remotes: &[RemoteVersion]) -> Option<Value> {
    let found = by_group(remotes)
        .into_iter()
        .find(|(name, _)| *name == group);
    let Some((_, versions)) = found else {
        return own;
    };
    let mut all = match own {
        Some(mut own) => {
            add_versions(&mut own, group, &versions);
            own
        }
        None => new_group(group, &versions),
    };
    all["kind"] = "APIGroup".into();
    all["apiVersion"] = "v1".into();
    Some(all)
}

fn version_item(group: &str, remote: &RemoteVersion) -> Value {
    let version = &remote.version;
    json!({"groupVersion": format!("{group}/{version}"), "version": version})
}

fn new_group(group: &str, versions: &[&RemoteVersion]) -> Value {
    let versions: Vec<_> = versions
        .iter()
        .map(|remote| version_item(group, remote))
        .collect();
    let preferred = versions.first().cloned().unwrap_or_default();
    json!({"name": group, "versions": versions, "preferredVersion": preferred})
}

/// Adds the versions that a group of this API lacks.
fn add_versions(known: &mut Value, group: &str, versions: &[&RemoteVersion]) {
    let mut all = items(known, "/versions").to_vec();
    for remote in versions {
        let item = version_item(group, remote);
        if !all.contains(&item) {
            all.push(item);
        }
    }
    known["versions"] = all.into();
}

/// Returns `/apis` and everything below it; `resources` are those of each of `remotes`, if its server answers.
pub(crate) fn with_resources(
    mut own: Value,
    remotes: &[RemoteVersion],
    resources: &[Option<Value>],
) -> Value {
    let mut all = items(&own, "/items").to_vec();
    for (group, versions) in by_group(remotes) {
        let versions = versions.into_iter().map(|remote| {
            let index = remotes.iter().position(|other| other == remote);
            let list = index.and_then(|index| resources.get(index)?.as_ref());
            aggregated_version(remote, list)
        });
        let versions: Vec<_> = versions.collect();
        match all
            .iter_mut()
            .find(|known| text_or_empty(known, "/metadata/name") == group)
        {
            Some(known) => {
                let is_other = |own: &&Value| {
                    let name = text_or_empty(own, "/version");
                    versions
                        .iter()
                        .all(|remote| text_or_empty(remote, "/version") != name)
                };
                let own: Vec<_> = items(known, "/versions")
                    .iter()
                    .filter(is_other)
                    .cloned()
                    .collect();
                known["versions"] = own.into_iter().chain(versions).collect();
            }
            None => all.push(json!({"metadata": {"name": group}, "versions": versions})),
        }
    }
    own["items"] = all.into();
    own
}

fn aggregated_version(remote: &RemoteVersion, list: Option<&Value>) -> Value {
    let freshness = if list.is_some() { "Current" } else { "Stale" };
    let resources = list
        .map(|list| aggregated_resources(remote, list))
        .unwrap_or_default();
    json!({"version": remote.version, "resources": resources, "freshness": freshness})
}

/// Converts an `APIResourceList`.
fn aggregated_resources(remote: &RemoteVersion, list: &Value) -> Vec<Value> {
    let all = items(list, "/resources");
    let response = |resource: &Value| {
        let text = |field: &str, otherwise: &str| match text_or_empty(resource, field) {
            "" => otherwise.to_owned(),
            found => found.to_owned(),
        };
        json!({
            "group": text("/group", &remote.group), "version": text("/version", &remote.version),
            "kind": text_or_empty(resource, "/kind"),
        })
    };
    let is_part = |resource: &&Value| text_or_empty(resource, "/name").contains('/');
    let wholes = all.iter().filter(|resource| !is_part(resource));
    let convert = |resource: &Value| {
        let name = text_or_empty(resource, "/name");
        let is_namespaced = resource.get("namespaced") == Some(&Value::Bool(true));
        let mut converted = Map::new();
        converted.insert("resource".into(), name.into());
        converted.insert("responseKind".into(), response(resource));
        let scope = if is_namespaced {
            "Namespaced"
        } else {
            "Cluster"
        };
        converted.insert("scope".into(), scope.into());
        for (field, from) in [
            ("singularResource", "singularName"),
            ("verbs", "verbs"),
            ("shortNames", "shortNames"),
            ("categories", "categories"),
        ] {
            if let Some(value) = resource.get(from) {
                converted.insert(field.into(), value.clone());
            }
        }
        let parts = all.iter().filter_map(|part| {
            let (whole, part_name) = text_or_empty(part, "/name").split_once('/')?;
            (whole == name).then(|| {
                json!({"subresource": part_name, "responseKind": response(part), "verbs": part.get("verbs")})
            })
        });
        let parts: Vec<_> = parts.collect();
        if !parts.is_empty() {
            converted.insert("subresources".into(), parts.into());
        }
        Value::Object(converted)
    };
    wholes.map(convert).collect()
}

/// Returns `/openapi/v3` with the documents of other servers.
pub(crate) fn index(mut own: Value, remotes: &[RemoteVersion]) -> Value {
    for remote in remotes {
        let path = format!("apis/{}/{}", remote.group, remote.version);
        let url = format!("/openapi/v3/{path}");
        own["paths"][path.as_str()] = json!({"serverRelativeURL": url});
    }
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_versions_are_ordered_as_by_kube_aggregator() {
        let remote = |group: &str, version: &str, priorities: (i64, i64)| RemoteVersion {
            group: group.into(),
            version: version.into(),
            group_priority: priorities.0,
            version_priority: priorities.1,
        };
        let remotes = [
            remote("a", "v1alpha1", (100, 15)),
            remote("a", "v1", (100, 15)),
            remote("a", "v2beta1", (100, 15)),
            remote("a", "v10", (100, 15)),
            remote("a", "x", (100, 15)),
            remote("a", "v3", (100, 10)),
            remote("b", "v1", (200, 1)),
        ];
        let found = by_group(&remotes).into_iter().map(|(group, versions)| {
            let versions: Vec<_> = versions.iter().map(|one| one.version.as_str()).collect();
            format!("{group}: {}", versions.join(" "))
        });
        assert_eq!(
            found.collect::<Vec<_>>(),
            ["b: v1", "a: v10 v1 v2beta1 v1alpha1 x v3"]
        );
    }
}
