//! `metadata.managedFields`: who owns which fields.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::set::Set;
use crate::{
    object::{items, metadata, text_or_empty},
    patch::target::{ApplyOptions, Target},
};

/// The most managers of ordinary writes; the oldest are merged, as in the API server, so that many different clients cannot make
/// every object large.
const MAX_UPDATERS: usize = 10;

/// The name of the merged managers.
const ANCIENT: &str = "ancient-changes";

/// The operation by which a manager came to own its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// An owner of fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Manager {
    pub(super) name: String,
    pub(super) operation: Operation,
    /// The API version of its latest write. It does not distinguish managers that apply.
    pub(super) api_version: String,
    pub(super) subresource: String,
}

impl Manager {
    pub(super) fn new(
        target: &Target<'_>,
        options: &ApplyOptions<'_>,
        operation: Operation,
    ) -> Self {
        let api_version = match target.group {
            "" => target.version.to_owned(),
            group => format!("{group}/{}", target.version),
        };
        let (name, subresource) = (options.manager.to_owned(), options.subresource.to_owned());
        Self {
            name,
            operation,
            api_version,
            subresource,
        }
    }

    fn is(&self, other: &Self) -> bool {
        self.name == other.name
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    /// Returns the description that messages about conflicts contain.
    pub(super) fn describe(&self) -> String {
        let mut text = format!("{:?}", self.name);
        if !self.subresource.is_empty() {
            text += &format!(" with subresource {:?}", self.subresource);
        }
        if self.operation == Operation::Update {
            text += &format!(" using {}", self.api_version);
        }
        text
    }
}

/// A manager with its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ManagerEntry {
    pub(super) manager: Manager,
    pub(super) time: Option<String>,
    pub(super) fields: Set,
}

/// All managers of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Managers(Vec<ManagerEntry>);

impl Managers {
    /// Reads the managers of `object`. An invalid entry is left out.
    pub(super) fn read(object: &Value) -> Self {
        Self(
            items(object, "/metadata/managedFields")
                .iter()
                .filter_map(read_entry)
                .collect(),
        )
    }

    /// Reports whether there are entries, all of them valid.
    pub(super) fn can_read(entries: &[Value]) -> bool {
        let is_valid = |entry: &Value| {
            matches!(text_or_empty(entry, "/operation"), "Apply" | "Update")
                && text_or_empty(entry, "/fieldsType") == "FieldsV1"
                && !text_or_empty(entry, "/apiVersion").is_empty()
        };
        !entries.is_empty() && entries.iter().all(is_valid)
    }

    /// Returns the entry of `manager`.
    pub(super) fn entry(&self, manager: &Manager) -> Option<&ManagerEntry> {
        self.0.iter().find(|entry| entry.manager.is(manager))
    }

    /// Returns the fields of `manager`.
    pub(super) fn fields(&self, manager: &Manager) -> Option<&Set> {
        self.entry(manager).map(|entry| &entry.fields)
    }

    /// Removes the other managers that wrote in a version without `exists`.
    pub(super) fn retain_versions(&mut self, manager: &Manager, exists: impl Fn(&str) -> bool) {
        self.0
            .retain(|entry| entry.manager.is(manager) || exists(&entry.manager.api_version));
    }

    /// Returns the versions in which managers wrote, each once.
    pub(super) fn api_versions(&self) -> BTreeSet<String> {
        let versions = self.0.iter().map(|entry| &entry.manager.api_version);
        versions.cloned().collect()
    }

    pub(super) fn others<'a>(
        &'a self,
        manager: &'a Manager,
    ) -> impl Iterator<Item = &'a ManagerEntry> {
        self.0.iter().filter(|entry| !entry.manager.is(manager))
    }

    pub(super) fn others_mut<'a>(
        &'a mut self,
        manager: &'a Manager,
    ) -> impl Iterator<Item = &'a mut ManagerEntry> {
        self.0.iter_mut().filter(|entry| !entry.manager.is(manager))
    }

    /// Sets the fields of `manager`, which wrote at `now`.
    pub(super) fn set(&mut self, manager: Manager, fields: Set, now: &str) {
        // as in kube-apiserver, which converts the owners of a scale without their times
        let time = (manager.subresource != "scale").then(|| now.to_owned());
        match self.0.iter_mut().find(|entry| entry.manager.is(&manager)) {
            Some(entry) => {
                *entry = ManagerEntry {
                    manager,
                    time,
                    fields,
                }
            }
            None => self.0.push(ManagerEntry {
                manager,
                time,
                fields,
            }),
        }
    }

    /// Returns every field that has an owner, or (`api_version`) an owner who wrote in this version.
    pub(super) fn owned_fields(&self, api_version: Option<&str>) -> Set {
        let mut owned = Set::default();
        self.0
            .iter()
            .filter(|entry| api_version.is_none_or(|version| entry.manager.api_version == version))
            .for_each(|entry| owned.join(entry.fields.clone()));
        owned
    }

    /// Writes the managers into `object`: those that apply first, then by age.
    pub(super) fn write(mut self, object: &mut Value) {
        self.0.retain(|entry| !entry.fields.is_empty());
        let age = |entry: &ManagerEntry| {
            (
                entry.manager.operation,
                entry.time.clone(),
                entry.manager.name.clone(),
            )
        };
        self.0.sort_by_key(age);
        self.join_ancient();
        let metadata = metadata(object);
        metadata.shift_remove("managedFields");
        if !self.0.is_empty() {
            let entries = self.0.iter().map(write_entry).collect();
            metadata.insert("managedFields".to_owned(), Value::Array(entries));
        }
    }

    /// Merges the oldest managers of ordinary writes. The entries must be in order.
    fn join_ancient(&mut self) {
        let is_updater = |entry: &ManagerEntry| entry.manager.operation == Operation::Update;
        let surplus = self
            .0
            .iter()
            .filter(|entry| is_updater(entry))
            .count()
            .saturating_sub(MAX_UPDATERS);
        if surplus == 0 {
            return;
        }
        let first = self.0.iter().position(is_updater).unwrap_or_default();
        // One more than the surplus is merged, since the merged ones leave one entry.
        let mut joined: Vec<ManagerEntry> = Vec::new();
        for entry in self.0.drain(first..=first + surplus) {
            let manager = Manager {
                name: ANCIENT.to_owned(),
                subresource: String::new(),
                ..entry.manager
            };
            match joined
                .iter_mut()
                .find(|ancient| ancient.manager.is(&manager))
            {
                Some(ancient) => {
                    ancient.fields.join(entry.fields);
                    ancient.time = entry.time;
                }
                None => joined.push(ManagerEntry { manager, ..entry }),
            }
        }
        self.0.splice(first..first, joined);
    }
}

fn read_entry(entry: &Value) -> Option<ManagerEntry> {
    let operation = match text_or_empty(entry, "/operation") {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return None,
    };
    let manager = Manager {
        name: text_or_empty(entry, "/manager").to_owned(),
        operation,
        api_version: text_or_empty(entry, "/apiVersion").to_owned(),
        subresource: text_or_empty(entry, "/subresource").to_owned(),
    };
    let time = entry.get("time").and_then(Value::as_str).map(str::to_owned);
    let fields = entry
        .get("fieldsV1")?
        .as_object()
        .filter(|fields| !fields.is_empty())?;
    Some(ManagerEntry {
        manager,
        time,
        fields: Set::read(fields),
    })
}

fn write_entry(
    ManagerEntry {
        manager,
        time,
        fields,
    }: &ManagerEntry,
) -> Value {
    let mut entry = Map::new();
    entry.insert("manager".into(), json!(manager.name));
    entry.insert("operation".into(), json!(manager.operation.as_str()));
    entry.insert("apiVersion".into(), json!(manager.api_version));
    if let Some(time) = time {
        entry.insert("time".into(), json!(time));
    }
    entry.insert("fieldsType".into(), json!("FieldsV1"));
    entry.insert("fieldsV1".into(), fields.write());
    if !manager.subresource.is_empty() {
        entry.insert("subresource".into(), json!(manager.subresource));
    }
    Value::Object(entry)
}
