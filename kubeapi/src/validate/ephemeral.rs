//! Checks ephemeral containers: they are added to a running pod and never change.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::faults::{faults, required};
use crate::{
    cause::Cause,
    names,
    object::{items, text_or_empty},
};

const LIST: &str = "/spec/ephemeralContainers";
const FIELD: &str = "spec.ephemeralContainers";

/// Returns the faults of the change from `old` to `new`.
pub(crate) fn ephemeral_containers(old: &Value, new: &Value) -> Vec<Cause> {
    let name = |container: &Value| text_or_empty(container, "/name").to_owned();
    let (before, after) = (items(old, LIST), items(new, LIST));
    let by_name: HashMap<_, _> = after.iter().map(|container| (name(container), container)).collect();
    let mut causes = Vec::new();
    for container in before {
        let own = name(container);
        match by_name.get(&own) {
            Some(other) if *other == container => {}
            Some(_) => {
                let why = format!("existing ephemeral containers {own:?} may not be changed\n");
                causes.push(Cause::forbidden(FIELD, &why));
            }
            None => {
                let why = format!("existing ephemeral containers {own:?} may not be removed\n");
                causes.push(Cause::forbidden(FIELD, &why));
            }
        }
    }
    let mut taken: HashSet<_> = ["/spec/containers", "/spec/initContainers"]
        .into_iter()
        .flat_map(|list| items(new, list))
        .map(name)
        .collect();
    for (index, container) in after.iter().enumerate() {
        let (path, own) = (format!("{FIELD}[{index}]"), name(container));
        causes.extend(required(container, &path, "image"));
        match required(container, &path, "name") {
            Some(cause) => causes.push(cause),
            None => causes.extend(faults(&format!("{path}.name"), &own, names::dns_label(&own))),
        }
        let target = text_or_empty(container, "/targetContainerName").to_owned();
        if !target.is_empty() && !taken.contains(&target) {
            causes.push(Cause::not_found(format!("{path}.targetContainerName"), &target));
        }
        if taken.contains(&own) {
            causes.push(Cause::duplicate(format!("{path}.name"), &own));
        }
        taken.insert(own);
        for forbidden in ["ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle"] {
            if container.get(forbidden).is_some_and(|value| value != &Value::Array(Vec::new())) {
                let why = "cannot be set for an Ephemeral Container";
                causes.push(Cause::forbidden(format!("{path}.{forbidden}"), why));
            }
        }
        if container
            .get("resources")
            .and_then(Value::as_object)
            .is_some_and(|resources| !resources.is_empty())
        {
            let why = "cannot be set for an Ephemeral Container";
            causes.push(Cause::forbidden(format!("{path}.resources"), why));
        }
    }
    causes
}
