//! Applies the overriders of a target to a Deployment, in KubeEdge's order: replicas, images, commands, arguments, environment,
//! resources. Pure.
//!
//! Source: `cloud/pkg/controllermanager/edgeapplication/overridemanager` of KubeEdge. Differences: variables keep their order, and requests
//! and limits need not exist in the template.

use crds::apps::{
    CommandOverrider, EnvOverrider, ImageOverrider, ListOperator, Operator, Overriders,
    ResourcesOverrider,
};
use serde_json::{Map, Value, json};

use super::image;

/// The containers of a Deployment.
const CONTAINERS: &str = "/spec/template/spec/containers";

/// Applies all overriders; the error says which cannot be applied.
pub(super) fn apply(deployment: &mut Value, overriders: &Overriders) -> Result<(), String> {
    if let Some(replicas) = overriders.replicas {
        let spec = deployment.get_mut("spec").and_then(Value::as_object_mut);
        let spec = spec.ok_or("replicas: the Deployment has no spec")?;
        spec.insert("replicas".to_owned(), json!(replicas));
    }
    for overrider in &overriders.image_overriders {
        images(deployment, overrider)?;
    }
    for (field, list) in [
        ("command", &overriders.command_overriders),
        ("args", &overriders.args_overriders),
    ] {
        for overrider in list {
            words(
                container(deployment, field, &overrider.container_name)?,
                field,
                overrider,
            );
        }
    }
    for overrider in &overriders.env_overriders {
        variables(
            container(deployment, "env", &overrider.container_name)?,
            overrider,
        );
    }
    for overrider in &overriders.resources_overriders {
        resources(
            container(deployment, "resources", &overrider.container_name)?,
            overrider,
        );
    }
    Ok(())
}

/// Changes one image, or those of all containers.
fn images(deployment: &mut Value, overrider: &ImageOverrider) -> Result<(), String> {
    let changed = |image: &mut Value| {
        if let Some(name) = image.as_str() {
            *image = image::change(name, overrider).into();
        }
    };
    if let Some(predicate) = &overrider.predicate {
        let path = &predicate.path;
        let image = deployment
            .pointer_mut(path)
            .filter(|image| image.is_string());
        changed(image.ok_or_else(|| format!("imageOverriders: there is no image at {path}"))?);
        return Ok(());
    }
    let containers = deployment
        .pointer_mut(CONTAINERS)
        .and_then(Value::as_array_mut);
    for container in containers.into_iter().flatten() {
        if let Some(image) = container.get_mut("image") {
            changed(image);
        }
    }
    Ok(())
}

/// Returns the container of this name.
fn container<'a>(
    deployment: &'a mut Value,
    field: &str,
    name: &str,
) -> Result<&'a mut Map<String, Value>, String> {
    let containers = deployment
        .pointer_mut(CONTAINERS)
        .and_then(Value::as_array_mut);
    let mut containers = containers.into_iter().flatten();
    let found = containers.find(|container| container["name"] == name);
    let found = found.and_then(Value::as_object_mut);
    found.ok_or_else(|| {
        format!(
            "the overrider of {field} names container {name:?}, which the Deployment does not have"
        )
    })
}

/// Returns a list in a container, which is created if it is missing.
fn list<'a>(container: &'a mut Map<String, Value>, field: &str) -> Option<&'a mut Vec<Value>> {
    let list = container.entry(field).or_insert_with(|| json!([]));
    if list.is_null() {
        *list = json!([]);
    }
    list.as_array_mut()
}

fn words(container: &mut Map<String, Value>, field: &str, overrider: &CommandOverrider) {
    let Some(list) = list(container, field) else {
        return;
    };
    match overrider.operator {
        ListOperator::Add => list.extend(overrider.value.iter().cloned().map(Value::from)),
        ListOperator::Remove => {
            list.retain(|word| {
                !overrider
                    .value
                    .iter()
                    .any(|removed| word == removed.as_str())
            });
        }
    }
}

fn variables(container: &mut Map<String, Value>, overrider: &EnvOverrider) {
    let Some(list) = list(container, "env") else {
        return;
    };
    match overrider.operator {
        Operator::Add => list.extend(overrider.value.iter().map(|variable| json!(variable))),
        Operator::Remove => list.retain(|known| {
            let mut removed = overrider.value.iter();
            !removed.any(|removed| known["name"] == removed.name.as_str())
        }),
        Operator::Replace => {
            for variable in &overrider.value {
                match list
                    .iter_mut()
                    .find(|known| known["name"] == variable.name.as_str())
                {
                    Some(known) => *known = json!(variable),
                    None => list.push(json!(variable)),
                }
            }
        }
    }
}

fn resources(container: &mut Map<String, Value>, overrider: &ResourcesOverrider) {
    let all = container.entry("resources").or_insert_with(|| json!({}));
    for kind in ["requests", "limits"] {
        let wanted = overrider.value.get(kind).and_then(Value::as_object);
        for (name, quantity) in wanted.into_iter().flatten() {
            all[kind][name] = quantity.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment() -> Value {
        json!({"spec": {"replicas": 1, "template": {"spec": {
        "initContainers": [{"name": "init", "image": "nginx:1"}],
        "containers": [
            {"name": "a", "image": "nginx:1", "command": ["x", "y"], "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
            {"name": "b", "image": "r.example/web:1"}
        ]}}}})
    }

    /// Returns a part of the Deployment after these overriders.
    fn after(overriders: Value, pointer: &str) -> Result<Value, String> {
        let mut deployment = deployment();
        let overriders = serde_json::from_value(overriders).unwrap();
        apply(&mut deployment, &overriders)?;
        Ok(deployment.pointer(pointer).cloned().unwrap_or_default())
    }

    #[test]
    fn overriders_change_what_they_name() {
        let a = "/spec/template/spec/containers/0";
        let b = "/spec/template/spec/containers/1";
        let list = |field: &str, container: &str, operator: &str, value: Value| json!({field: [{"containerName": container, "operator": operator, "value": value}]});
        for (overriders, pointer, wanted) in [
            (
                json!({"replicas": 0}),
                "/spec/replicas".to_owned(),
                json!(0),
            ),
            (
                json!({"imageOverriders": [{"component": "Tag", "operator": "replace", "value": "2"}]}),
                format!("{b}/image"),
                json!("r.example/web:2"),
            ),
            (
                json!({"imageOverriders": [{"component": "Tag", "operator": "replace", "value": "2"}]}),
                "/spec/template/spec/initContainers/0/image".into(),
                json!("nginx:1"),
            ),
            (
                json!({"imageOverriders": [{"component": "Tag", "operator": "replace", "value": "2", "predicate": {"path": format!("{b}/image")}}]}),
                format!("{a}/image"),
                json!("nginx:1"),
            ),
            (
                list("commandOverriders", "a", "add", json!(["z"])),
                format!("{a}/command"),
                json!(["x", "y", "z"]),
            ),
            (
                list("commandOverriders", "a", "remove", json!(["x"])),
                format!("{a}/command"),
                json!(["y"]),
            ),
            (
                list("argsOverriders", "b", "add", json!(["z"])),
                format!("{b}/args"),
                json!(["z"]),
            ),
            (
                list("argsOverriders", "b", "remove", json!(["z"])),
                format!("{b}/args"),
                json!([]),
            ),
            (
                list(
                    "envOverriders",
                    "a",
                    "replace",
                    json!([{"name": "C", "value": "3"}, {"name": "A", "value": "9"}]),
                ),
                format!("{a}/env"),
                json!([{"name": "A", "value": "9"}, {"name": "B", "value": "2"}, {"name": "C", "value": "3"}]),
            ),
            (
                list("envOverriders", "a", "remove", json!([{"name": "A"}])),
                format!("{a}/env"),
                json!([{"name": "B", "value": "2"}]),
            ),
            (
                list(
                    "envOverriders",
                    "b",
                    "add",
                    json!([{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]),
                ),
                format!("{b}/env/0/valueFrom/fieldRef/fieldPath"),
                json!("spec.nodeName"),
            ),
            (
                json!({"resourcesOverriders": [{"containerName": "b", "value": {"limits": {"cpu": "1"}}}]}),
                format!("{b}/resources"),
                json!({"limits": {"cpu": "1"}}),
            ),
        ] {
            assert_eq!(
                after(overriders.clone(), &pointer),
                Ok(wanted),
                "{overriders}"
            );
        }
    }

    #[test]
    fn absent_fields_are_created() {
        let list = |field: &str, operator: &str, value: Value| json!({field: [{"containerName": "b", "operator": operator, "value": value}]});
        let variable = json!([{"name": "A", "value": "1"}]);
        let requests = json!({"requests": {"memory": "1Mi"}});
        let of_resources =
            json!({"resourcesOverriders": [{"containerName": "b", "value": requests}]});
        for (overriders, field, wanted) in [
            (
                list("commandOverriders", "add", json!(["z"])),
                "command",
                json!(["z"]),
            ),
            (
                list("commandOverriders", "remove", json!(["z"])),
                "command",
                json!([]),
            ),
            (
                list("envOverriders", "replace", variable.clone()),
                "env",
                variable.clone(),
            ),
            (list("envOverriders", "remove", variable), "env", json!([])),
            (of_resources, "resources", requests),
        ] {
            let pointer = format!("/spec/template/spec/containers/1/{field}");
            assert_eq!(after(overriders, &pointer), Ok(wanted), "{field}");
        }
    }

    #[test]
    fn what_does_not_exist_is_named() {
        for (overriders, why) in [
            (
                json!({"commandOverriders": [{"containerName": "x", "operator": "add", "value": ["y"]}]}),
                "container \"x\"",
            ),
            (
                json!({"imageOverriders": [{"component": "Tag", "operator": "replace", "value": "2", "predicate": {"path": "/spec/x"}}]}),
                "/spec/x",
            ),
        ] {
            let error = after(overriders, "").unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
