//! Checks whether everything has arrived: the cloud's objects on the nodes, and the nodes' statuses in the cloud.

use std::{collections::BTreeSet, sync::Arc};

use futures::FutureExt;
use objectstore::{Key, MemoryStore, Page, Resource, Scope, Store};
use serde_json::Value;

use crate::{
    node::Node,
    objects::{number_of, number_of_node, uid_of, used_objects},
    watcher::get,
};

/// Returns what has not arrived yet.
pub(crate) fn missing(cloud: &Arc<MemoryStore>, nodes: &[Node]) -> Vec<String> {
    nodes.iter().flat_map(|node| of_node(cloud, node)).collect()
}

fn of_node(cloud: &Arc<MemoryStore>, node: &Node) -> Vec<String> {
    let (name, store) = (node.name.as_str(), node.store.inner());
    let machine = node.machine.lock();
    let mut missing = Vec::new();
    let wanted: Vec<Value> = list(cloud, "pods")
        .into_iter()
        .filter(|pod| pod["spec"]["nodeName"] == name)
        .collect();
    let uids: BTreeSet<String> = wanted.iter().map(uid_of).collect();
    for pod in &wanted {
        let key = key_of("pods", pod);
        let here = get(store, &key).filter(|here| uid_of(here) == uid_of(pod));
        let Some(here) = here else {
            missing.push(format!("{name} does not have {key}"));
            continue;
        };
        if !pod["metadata"]["deletionTimestamp"].is_null() {
            missing.push(format!("{key} is still being deleted"));
        }
        if here["metadata"]["labels"] != pod["metadata"]["labels"] || here["spec"] != pod["spec"] {
            missing.push(format!("{name} has an old state of {key}"));
        }
        if !machine.running.contains_key(&uid_of(pod)) {
            missing.push(format!("{key} does not run on {name}"));
        }
        let written = machine
            .written
            .get(&uid_of(pod))
            .copied()
            .unwrap_or_default();
        let (told, kept) = (number_of(pod), number_of(&here));
        if told != kept || kept < written {
            missing.push(format!(
                "{key}: written {written}, stored {kept}, in the cloud {told}"
            ));
        }
        missing.extend(
            used_objects(pod)
                .filter_map(|(plural, object)| differs(cloud, store, plural, &object, name)),
        );
    }
    for (uid, pod) in machine
        .running
        .iter()
        .filter(|(uid, _)| !uids.contains(*uid))
    {
        missing.push(format!("{pod} ({uid}) runs on {name} and is not wanted"));
    }
    let left = list(store, "pods")
        .iter()
        .map(uid_of)
        .filter(|uid| !uids.contains(uid))
        .count();
    if left > 0 {
        missing.push(format!(
            "{name} still stores {left} pods that are not wanted"
        ));
    }
    let key = Key::new(Resource::new("", "nodes"), "", name);
    let told = get(cloud, &key).map(|node| number_of_node(&node));
    if told.is_none_or(|told| told < machine.node_written) {
        missing.push(format!(
            "{name} has said {} of itself, the cloud has {told:?}",
            machine.node_written
        ));
    }
    missing
}

fn differs(
    cloud: &Arc<MemoryStore>,
    store: &Arc<MemoryStore>,
    plural: &str,
    name: &str,
    node: &str,
) -> Option<String> {
    let key = Key::new(Resource::new("", plural), "default", name);
    let (wanted, here) = (get(cloud, &key), get(store, &key));
    let data = |object: &Option<Value>| {
        object
            .as_ref()
            .map(|object| (uid_of(object), object["data"].clone()))
    };
    (data(&wanted) != data(&here)).then(|| format!("{node} has another state of {key}"))
}

fn key_of(plural: &str, object: &Value) -> Key {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    Key::new(Resource::new("", plural), text("namespace"), text("name"))
}

/// Returns all objects of a collection.
pub(crate) fn list(store: &Arc<MemoryStore>, plural: &str) -> Vec<Value> {
    let scope = Scope {
        resource: Resource::new("", plural),
        namespace: None,
    };
    let listing = store
        .list(&scope, &Page::default())
        .now_or_never()
        .and_then(Result::ok);
    let items = listing.map(|listing| listing.items).unwrap_or_default();
    items
        .iter()
        .filter_map(|object| object.value().ok())
        .collect()
}
