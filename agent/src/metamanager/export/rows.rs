//! Rows of EdgeCore's database. Pure.
//!
//! A row of `meta` has the resource of a message as its key and the object as its value; EdgeCore starts pods from those of type `pod`
//! and asks for all others by key. A row of `meta_v2` is what MetaServer's clients read.
//!
//! Source: KubeEdge 1.23, `edge/pkg/metamanager/dao/models`, `edge/pkg/metamanager/client`, `pkg/metaserver/key.go`.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use objectstore::{Key, Resource};
use serde_json::{Map, Value, json};

use super::DeviceRows;
use crate::metamanager::{record::Record, takeover::TokenRequest};

/// A table of EdgeCore's database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Table {
    Meta,
    MetaV2,
    Device,
    DeviceAttr,
    DeviceTwin,
    SubTopics,
    TargetUrls,
}

impl Table {
    /// All tables.
    pub(super) const ALL: [Self; 7] = [
        Self::Meta,
        Self::MetaV2,
        Self::Device,
        Self::DeviceAttr,
        Self::DeviceTwin,
        Self::SubTopics,
        Self::TargetUrls,
    ];

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.name() == name)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Meta => "meta",
            Self::MetaV2 => "meta_v2",
            Self::Device => "device",
            Self::DeviceAttr => "device_attr",
            Self::DeviceTwin => "device_twin",
            Self::SubTopics => "sub_topics",
            Self::TargetUrls => "target_urls",
        }
    }

    /// Returns the columns in their order.
    fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Meta => &["key", "type", "value"],
            Self::MetaV2 => &[
                "key",
                "group_version_resource",
                "namespace",
                "name",
                "resource_version",
                "value",
            ],
            Self::Device => &["id", "name", "description", "state", "last_online"],
            Self::DeviceAttr => &[
                "id",
                "deviceid",
                "name",
                "description",
                "value",
                "optional",
                "attr_type",
                "metadata",
            ],
            Self::DeviceTwin => &[
                "id",
                "deviceid",
                "name",
                "description",
                "expected",
                "actual",
                "expected_meta",
                "actual_meta",
                "expected_version",
                "actual_version",
                "optional",
                "attr_type",
                "metadata",
            ],
            Self::SubTopics => &["topic"],
            Self::TargetUrls => &["url"],
        }
    }

    /// Returns the statement that creates the table, as EdgeCore's ORM writes it.
    pub(super) fn schema(self) -> &'static str {
        match self {
            Self::Meta => {
                "CREATE TABLE `meta` (`key` text,`type` text,`value` text,PRIMARY KEY (`key`))"
            }
            Self::MetaV2 => {
                "CREATE TABLE `meta_v2` (`key` text,`group_version_resource` text,`namespace` text,`name` text,\
                 `resource_version` integer,`value` text,PRIMARY KEY (`key`))"
            }
            Self::Device => {
                "CREATE TABLE `device` (`id` text,`name` text,`description` text,`state` text,`last_online` text,\
                 PRIMARY KEY (`id`))"
            }
            Self::DeviceAttr => {
                "CREATE TABLE `device_attr` (`id` integer PRIMARY KEY AUTOINCREMENT,`deviceid` text,`name` text,\
                 `description` text,`value` text,`optional` numeric,`attr_type` text,`metadata` text)"
            }
            Self::DeviceTwin => {
                "CREATE TABLE `device_twin` (`id` integer PRIMARY KEY AUTOINCREMENT,`deviceid` text,`name` text,\
                 `description` text,`expected` text,`actual` text,`expected_meta` text,`actual_meta` text,\
                 `expected_version` text,`actual_version` text,`optional` numeric,`attr_type` text,`metadata` text)"
            }
            Self::SubTopics => "CREATE TABLE `sub_topics` (`topic` text,PRIMARY KEY (`topic`))",
            Self::TargetUrls => "CREATE TABLE `target_urls` (`url` text,PRIMARY KEY (`url`))",
        }
    }

    /// Returns the statement that writes a row; writing the same row again replaces the first.
    pub(super) fn insert(self) -> &'static str {
        match self {
            Self::Meta => "INSERT OR REPLACE INTO meta VALUES (?, ?, ?)",
            Self::MetaV2 => "INSERT OR REPLACE INTO meta_v2 VALUES (?, ?, ?, ?, ?, ?)",
            Self::Device => "INSERT OR REPLACE INTO device VALUES (?, ?, ?, ?, ?)",
            Self::DeviceAttr => {
                "INSERT OR REPLACE INTO device_attr VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
            }
            Self::DeviceTwin => {
                "INSERT OR REPLACE INTO device_twin VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
            }
            Self::SubTopics => "INSERT OR REPLACE INTO sub_topics VALUES (?)",
            Self::TargetUrls => "INSERT OR REPLACE INTO target_urls VALUES (?)",
        }
    }
}

/// A row: its values in the order of the columns.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(super) table: Table,
    pub(super) values: Vec<Value>,
}

/// All rows, and the names of what there is no row for.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    pub(super) rows: Vec<Row>,
    pub(super) skipped: BTreeMap<&'static str, Vec<String>>,
}

impl Rows {
    pub(super) fn push(&mut self, table: Table, values: Vec<Value>) {
        self.rows.push(Row { table, values });
    }

    /// Notes something that EdgeCore cannot store.
    pub(super) fn skip(&mut self, what: &'static str, name: impl Into<String>) {
        let names = self.skipped.entry(what).or_default();
        let name = name.into();
        if !names.contains(&name) {
            names.push(name);
        }
    }

    /// Adds an object that EdgeCore has from the cloud, under the word that messages use for its kind.
    pub(super) fn push_cloud_object(
        &mut self,
        word: &str,
        kind: &str,
        key: &Key,
        mut object: Value,
    ) {
        if !kind.is_empty()
            && let Some(map) = object.as_object_mut()
        {
            map.entry("apiVersion").or_insert_with(|| "v1".into());
            map.entry("kind").or_insert_with(|| kind.into());
        }
        let row = wire::ResourcePath::object(&key.namespace, &word.to_owned().into(), &key.name);
        self.push(
            Table::Meta,
            vec![row.as_str().into(), word.into(), object.to_string().into()],
        );
        self.push_copy(key, &object);
    }

    /// Adds what MetaServer's clients read; an object without its kind is not for them.
    pub(super) fn push_copy(&mut self, key: &Key, object: &Value) {
        let text = |field: &str| {
            object
                .get(field)
                .and_then(Value::as_str)
                .filter(|text| !text.is_empty())
        };
        let (Some(version), Some(kind)) = (text("apiVersion"), text("kind")) else {
            return;
        };
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let plural = plural(kind);
        let place = |text: &str, empty: &str| if text.is_empty() { empty } else { text }.to_owned();
        let row = format!(
            "/{}/{version}/{plural}/{}/{}",
            place(group, "core"),
            place(&key.namespace, wire::CLUSTER),
            key.name
        );
        let revision = object
            .pointer("/metadata/resourceVersion")
            .and_then(Value::as_str);
        let revision: i64 = revision
            .and_then(|text| text.parse().ok())
            .unwrap_or_default();
        let values = vec![
            row.into(),
            format!("{group}/{version}, Resource={plural}").into(),
            key.namespace.as_str().into(),
            key.name.as_str().into(),
            revision.into(),
            object.to_string().into(),
        ];
        self.push(Table::MetaV2, values);
    }

    /// Adds a token under the key that EdgeCore's kubelet uses.
    pub(super) fn push_token(&mut self, all: &BTreeMap<Key, Value>, key: &Key, kept: &Value) {
        let pods = Resource::new("", "pods");
        let pod = all
            .iter()
            .find(|(place, pod)| place.resource == pods && pod["metadata"]["uid"] == kept["pod"]);
        let pod = pod.map(|(place, _)| place.name.as_str());
        match TokenRequest::of_kept(key, kept, pod) {
            Some(request) => self.push(
                Table::Meta,
                vec![
                    request.write().into(),
                    "serviceaccounttoken".into(),
                    kept["token"].to_string().into(),
                ],
            ),
            None => self.skip(
                "tokens without a recorded request; EdgeCore requests new ones",
                key.name.as_str(),
            ),
        }
    }

    pub(super) fn skip_queued_messages(&mut self, what: &str, chunk: &Value) {
        let count = chunk["messages"].as_array().map_or(0, Vec::len);
        self.skip(
            "messages that wait for the cloud",
            format!("{count} {what}"),
        );
    }

    pub(super) fn push_device(&mut self, device: Option<DeviceRows>, key: &Key) {
        let Some(device) = device else {
            return self.skip(
                "unreadable devices; the cloud sends them",
                key.name.as_str(),
            );
        };
        if device.has_unconfirmed {
            self.skip(
                "values of devices that the cloud has not confirmed; EdgeCore reports the next values",
                device.id.as_str(),
            );
        }
        for (table, row) in device.rows {
            if let Some(table) = Table::named(table) {
                self.columns(table, &row);
            }
        }
    }

    pub(super) fn push_mapper(&mut self, mapper: &Value) {
        let text = |field: &str| mapper[field].as_str().unwrap_or_default();
        let row = json!({
            "name": text("name"), "version": text("version"), "protocol": text("protocol"),
            "address": STANDARD.encode(text("socket")),
        });
        self.push_mapper_row(text("name"), &row);
    }

    fn push_mapper_row(&mut self, name: &str, row: &Value) {
        // EdgeCore writes this prefix literally
        let key = format!("node/nodeID/namespace/devicemapper/{name}");
        self.push(
            Table::Meta,
            vec![key.into(), "devicemapper".into(), row.to_string().into()],
        );
    }

    /// Adds a row that EdgeCore has written and that no module of this agent has taken over yet.
    pub(super) fn push_edgecore_row(&mut self, table: &str, key: &Key, row: &Value) {
        match Table::named(table) {
            Some(Table::SubTopics) => self.push(Table::SubTopics, vec![key.name.clone().into()]),
            Some(Table::TargetUrls) => self.push(Table::TargetUrls, vec![key.name.clone().into()]),
            Some(table) => self.columns(table, row),
            None => self.push_mapper_row(&key.name, row),
        }
    }

    /// Adds a row whose columns have their names. Row numbers are assigned again.
    fn columns(&mut self, table: Table, row: &Value) {
        let is_numbered = table != Table::Device;
        let value = |column: &&str| match *column {
            "id" if is_numbered => Value::Null,
            column => row.get(column).cloned().unwrap_or_default(),
        };
        let values = table.columns().iter().map(value).collect();
        self.push(table, values);
    }
}

/// Returns the object with the cloud's revision instead of the store's.
pub(super) fn with_cloud_revision(object: &Value, record: Option<&Record>) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        set_revision(metadata, record.map_or(0, |record| record.revision));
    }
    object
}

pub(super) fn set_revision(metadata: &mut Map<String, Value>, revision: u64) {
    if revision == 0 {
        metadata.shift_remove("resourceVersion");
    } else {
        metadata.insert("resourceVersion".into(), revision.to_string().into());
    }
}

/// Returns the plural of a kind as KubeEdge guesses it.
///
/// Source: KubeEdge 1.23, `UnsafeKindToResource` in `pkg/metaserver/util`.
fn plural(kind: &str) -> String {
    let singular = kind.to_lowercase();
    match singular.as_str() {
        "endpoints" => singular,
        _ if singular.ends_with('s') => format!("{singular}es"),
        _ if singular.ends_with('y') => format!("{}ies", &singular[..singular.len() - 1]),
        _ => format!("{singular}s"),
    }
}
