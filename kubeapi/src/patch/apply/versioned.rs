//! Owners who wrote in other versions of the object: their fields are compared and removed in the version in which they wrote.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    managers::{Manager, ManagerEntry, Managers},
    set::Set,
    unowned_fields,
    walk::{self, Changes, Source},
};
use crate::patch::{
    error::PatchError,
    merge_schema::MergeSchema,
    target::{ApplyOptions, Versions},
};

/// The changes of a write, in the version of the writer and in those of other managers.
pub(super) struct Changed {
    pub(super) own: Changes,
    others: BTreeMap<String, Changes>,
}

impl Changed {
    /// Removes the managers that wrote in a version which no longer exists; returns the versions, if they have different fields.
    pub(super) fn versions_of<'a>(
        managers: &mut Managers,
        manager: &Manager,
        options: &ApplyOptions<'a>,
    ) -> Option<&'a dyn Versions> {
        let versions = options.versions?;
        managers.retain_versions(manager, |version| versions.schema(version).is_some());
        Some(versions)
    }

    /// Returns the changes from `old` to `new`, which are `own` in the version of `manager`. `old` is an empty object for a creation.
    pub(super) fn new(
        managers: &Managers,
        manager: &Manager,
        (old, new): (&Value, &Value),
        own: Changes,
        options: &ApplyOptions<'_>,
    ) -> Result<Self, PatchError> {
        let mut others = BTreeMap::new();
        let is_creation = old.as_object().is_none_or(serde_json::Map::is_empty);
        if let Some(versions) = options.versions.filter(|_| !is_creation) {
            let unowned = unowned_fields(options);
            for ManagerEntry { manager: other, .. } in managers.others(manager) {
                let version = &other.api_version;
                if *version == manager.api_version || others.contains_key(version) {
                    continue;
                }
                let schema = schema(versions, version);
                let (old, new) = (
                    versions.convert(old, version)?,
                    versions.convert(new, version)?,
                );
                let mut changes = walk::changes(&old, &new, schema, Source::Merge);
                changes.leave_out(&unowned);
                others.insert(version.clone(), changes);
            }
        }
        Ok(Self { own, others })
    }

    /// Returns the changes in the version in which `other` wrote.
    pub(super) fn of(&self, other: &Manager) -> &Changes {
        self.others.get(&other.api_version).unwrap_or(&self.own)
    }

    /// Removes the fields that `manager` changed or removed from the other managers.
    pub(super) fn take_from(&self, managers: &mut Managers, manager: &Manager) {
        for ManagerEntry {
            manager: other,
            fields,
            ..
        } in managers.others_mut(manager)
        {
            let changes = self.of(other);
            fields.subtract(&changes.set);
            fields.remove_below(&changes.gone);
        }
    }
}

fn schema<'a>(versions: &'a dyn Versions, api_version: &str) -> MergeSchema<'a> {
    versions
        .schema(api_version)
        .map_or(MergeSchema::Free, MergeSchema::Root)
}

/// Returns `merged`, an object in `api_version`, without the fields that its manager applied last time (`last`, in `last_version`) and that
/// nobody owns any more in any version.
pub(super) fn prune(
    merged: &Value,
    (last, last_version): (&Set, &str),
    managers: &Managers,
    api_version: &str,
    (versions, unowned): (&dyn Versions, &Set),
) -> Result<Value, PatchError> {
    if last.is_empty() || versions.schema(last_version).is_none() {
        return Ok(merged.clone());
    }
    let owned_in = |version: &str| {
        let mut owned = managers.owned_fields(Some(version));
        owned.join(unowned.clone());
        owned
    };
    let last_schema = schema(versions, last_version);
    let before = versions.convert(merged, last_version)?;
    let mut pruned = before.clone();
    walk::prune(&mut pruned, last, &owned_in(last_version), last_schema);
    if pruned == before {
        return Ok(merged.clone());
    }
    // what is owned in another version comes back
    for version in managers.api_versions() {
        if version == last_version {
            continue;
        }
        let schema = schema(versions, &version);
        let mut whole = versions.convert(merged, &version)?;
        let kept = walk::fields(&versions.convert(&pruned, &version)?, schema);
        let mut removed = walk::fields(&whole, schema);
        removed.subtract(&kept);
        let mut owned = owned_in(&version);
        owned.join(kept);
        walk::prune(&mut whole, &removed, &owned, schema);
        pruned = whole;
    }
    // what this manager never had is not removed either
    let kept = walk::fields(&versions.convert(&pruned, last_version)?, last_schema);
    let mut removed = walk::fields(&before, last_schema);
    removed.subtract(&kept);
    let removed = removed.common(last);
    let mut result = before;
    walk::prune(&mut result, &removed, &kept, last_schema);
    let mut result = versions.convert(&result, api_version)?;
    // conversions leave out the owners, who are written later
    if let (Some(owners), Some(metadata)) = (
        merged.pointer("/metadata/managedFields"),
        result.get_mut("metadata").and_then(Value::as_object_mut),
    ) {
        metadata.insert("managedFields".into(), owners.clone());
    }
    Ok(result)
}
