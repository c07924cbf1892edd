//! Converts the objects of this node's store to rows of EdgeCore's database. Pure.

use std::collections::BTreeMap;

use objectstore::{Key, Object, StoreError};
use serde_json::Value;

use super::{
    ReadDevice, pods,
    rows::{Rows, Table, with_cloud_revision},
};
use crate::{
    metamanager::{
        record::{GROUP as RECORDS, Record, record_key},
        remote::token_resource,
        server::service_object,
    },
    outbox::GROUP as OUTBOX,
};

/// The collection of devices with their values.
const DEVICES: &str = "devices.twins.outrigger.dev";

/// Returns the rows of all these objects.
///
/// # Errors
/// One of them is not valid JSON.
pub(super) fn rows_of(
    objects: &[Object],
    node_name: &str,
    read_device: ReadDevice,
) -> Result<Rows, StoreError> {
    let mut all = BTreeMap::new();
    for object in objects {
        all.insert(object.key.clone(), object.value()?);
    }
    let mut rows = Rows::default();
    for (key, value) in &all {
        if key.resource.as_str() == DEVICES {
            rows.push_device(read_device(value), key);
        } else {
            object(&mut rows, &all, node_name, key, value);
        }
    }
    Ok(rows)
}

/// Adds the rows of one object.
fn object(rows: &mut Rows, all: &BTreeMap<Key, Value>, node_name: &str, key: &Key, value: &Value) {
    let resource = key.resource.as_str();
    let record = || all.get(&record_key(key)).cloned().map(Record::read);
    if *key == service_object::key() && value.pointer("/metadata/uid").is_none() {
        // this agent's own object for the address of MetaServer
        return;
    }
    if key.resource == token_resource() {
        return rows.push_token(all, key, value);
    }
    let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
    match (plural, group) {
        ("pods", "") => pods::rows(rows, all, node_name, key, value, record()),
        ("nodes", "") if key.name != node_name => {}
        ("nodes", "") => rows.push_cloud_object(
            "node",
            "Node",
            key,
            with_cloud_revision(value, record().as_ref()),
        ),
        ("configmaps", "") => rows.push_cloud_object(
            "configmap",
            "ConfigMap",
            key,
            with_cloud_revision(value, record().as_ref()),
        ),
        ("secrets", "") => rows.push_cloud_object(
            "secret",
            "Secret",
            key,
            with_cloud_revision(value, record().as_ref()),
        ),
        ("persistentvolumes", "") => {
            rows.push_cloud_object(
                "persistentvolume",
                "PersistentVolume",
                key,
                with_cloud_revision(value, record().as_ref()),
            );
        }
        ("persistentvolumeclaims", "") => rows.push_cloud_object(
            "persistentvolumeclaim",
            "PersistentVolumeClaim",
            key,
            with_cloud_revision(value, record().as_ref()),
        ),
        (kind, "kubeedge.io") => {
            rows.push_cloud_object(kind, "", key, with_cloud_revision(value, record().as_ref()))
        }
        ("pods", RECORDS) => pods::skip_ended_pod(rows, key, value),
        (_, group) if group == RECORDS || group.ends_with(&format!(".{RECORDS}")) => {}
        ("chunks", "history.outrigger.dev") => {
            rows.skip("earlier values of devices", "their history")
        }
        ("mappers", "mappers.outrigger.dev") => rows.push_mapper(&value["mapper"]),
        ("topics", "eventbus.outrigger.dev") => {
            rows.push(Table::SubTopics, vec![key.name.clone().into()])
        }
        ("targets", "servicebus.outrigger.dev") => {
            rows.push(Table::TargetUrls, vec![key.name.clone().into()])
        }
        (table, "edgecore.outrigger.dev") => rows.push_edgecore_row(table, key, &value["row"]),
        (_, OUTBOX) => rows.skip_queued_messages(plural, value),
        (_, group) if group.ends_with("outrigger.dev") => {}
        _ => rows.push_copy(key, &with_cloud_revision(value, record().as_ref())),
    }
}
