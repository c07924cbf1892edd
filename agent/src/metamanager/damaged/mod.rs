//! Removes damaged objects that the cloud cannot send again because this agent wrote them for itself, before any module starts,
//! with a warning each. Objects that the cloud has are repaired from the cloud (`remote/repair.rs`).

use std::sync::Arc;

use objectstore::{Expect, Key, Page, Resource, Scope, Store, StoreError, Write};
use serde_json::json;
use tracing::warn;

use super::desired::schema_error;

/// The groups of collections that the agent writes for itself, and what the loss of one of their objects means.
const LOCAL_COLLECTIONS: [(&str, &str); 6] = [
    (
        "twins.outrigger.dev",
        "reported values of a device are unknown until its mapper reports again",
    ),
    (
        "history.outrigger.dev",
        "part of the device history is lost",
    ),
    (
        "outbox.outrigger.dev",
        "messages that waited for the cloud are lost",
    ),
    ("mappers.outrigger.dev", "a mapper has to register again"),
    (
        "edgecore.outrigger.dev",
        "a row of EdgeCore's database is not taken over",
    ),
    (TOPICS, "the topic of a rule is written again"),
];
/// The group of the topics of rules: their names are all that they hold.
const TOPICS: &str = "eventbus.outrigger.dev";

/// The collections that EdgeD reads as lists.
const LISTED_BY_EDGED: [&str; 5] = [
    "pods",
    "configmaps",
    "secrets",
    "persistentvolumes",
    "persistentvolumeclaims",
];

/// Removes damaged objects that cannot be recovered, and readable objects that do not have the type of their collection:
/// objects of that kind are no longer accepted, and what the cloud sends instead is stored as new.
///
/// # Errors
/// The store fails.
pub(crate) async fn remove_unrecoverable(store: &Arc<dyn Store>) -> Result<(), StoreError> {
    for plural in LISTED_BY_EDGED {
        let scope = Scope {
            resource: Resource::new("", plural),
            namespace: None,
        };
        for object in store.list(&scope, &Page::default()).await?.items {
            if let Some(fault) = object
                .value()
                .map_or(None, |value| schema_error(&object.key, &value))
            {
                warn!(object = %object.key, "invalid stored object removed: {fault}");
                write(store, &object.key, None).await?;
                write(store, &super::record::record_key(&object.key), None).await?;
            }
        }
    }
    for key in store.damaged_objects().now().keys() {
        let group = key
            .resource
            .as_str()
            .split_once('.')
            .map_or("", |(_, group)| group);
        let Some((_, meaning)) = LOCAL_COLLECTIONS.iter().find(|(own, _)| *own == group) else {
            continue;
        };
        warn!(object = %key, "damaged stored object removed: {meaning}");
        let value = (group == TOPICS).then(|| json!({"metadata": {"name": key.name}}));
        write(store, key, value).await?;
    }
    Ok(())
}

/// Removes every damaged copy of MetaServer: the cloud sends it again when a client asks for it.
///
/// # Errors
/// The store fails.
pub(crate) async fn remove_damaged_copies(store: &Arc<dyn Store>) -> Result<(), StoreError> {
    for key in store.damaged_objects().now().keys() {
        write(store, key, None).await?;
        // with its record removed, the copy counts as unknown, whichever of the two was damaged
        let other = match super::record::is_record_collection(&key.resource) {
            true => super::record::object_key(key),
            false => Some(super::record::record_key(key)),
        };
        if let Some(other) = other {
            write(store, &other, None).await?;
        }
    }
    Ok(())
}

async fn write(
    store: &Arc<dyn Store>,
    key: &Key,
    value: Option<serde_json::Value>,
) -> Result<(), StoreError> {
    let write = Write {
        key: key.clone(),
        expect: Expect::Anything,
        value,
    };
    match store.commit(vec![write]).await {
        Ok(_) | Err(StoreError::Missing(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
