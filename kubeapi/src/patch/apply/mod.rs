//! Server-side apply: each manager sends the fields that it wants; the server knows who owns which, merges them, and refuses to take
//! a field from another owner.

use serde_json::{Map, Value, json};

use self::{
    managers::{Manager, ManagerEntry, Managers, Operation},
    set::{Set, Step},
    versioned::Changed,
    walk::Source,
};
use super::{
    error::{Conflict, PatchError},
    merge_schema::MergeSchema,
    target::{ApplyOptions, Target},
};
use crate::object::{assign, items, metadata, text_or_empty};

mod client_side;
mod managers;
mod set;
mod versioned;
mod walk;

/// Fields of the metadata that the server writes or that identify the object: they have no owner.
const UNOWNED_METADATA: [&str; 8] = [
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "generation",
    "managedFields",
    "resourceVersion",
];

/// Applies `body` to `current`, if there is an object yet.
pub(super) fn apply(
    target: &Target<'_>,
    current: Option<&Value>,
    body: &Value,
    options: &ApplyOptions<'_>,
) -> Result<Value, PatchError> {
    let merge_schema = MergeSchema::of(target);
    let config = extract_written(target, body, merge_schema, options)?;
    let live = current.cloned().unwrap_or_else(|| json!({}));
    let manager = Manager::new(target, options, Operation::Apply);
    let before = current.map(Managers::read).unwrap_or_default();
    let last_version = before
        .entry(&manager)
        .map_or(&manager, |entry| &entry.manager)
        .api_version
        .clone();
    let mut last = before.fields(&manager).cloned().unwrap_or_default();
    last.remove_below(&unowned_fields(options));

    let mut object = live.clone();
    walk::merge(&mut object, &config, merge_schema);
    let mut applied = walk::fields(&config, merge_schema);
    applied.remove_below(&unowned_fields(options));

    let mut managers = before.clone();
    managers.set(manager.clone(), applied, options.now);
    let versions = Changed::versions_of(&mut managers, &manager, options);
    if let Some(versions) = versions
        .filter(|_| managers.api_versions().len() > 1 || last_version != manager.api_version)
    {
        object = versioned::prune(
            &object,
            (&last, &last_version),
            &managers,
            &manager.api_version,
            (versions, &unowned_fields(options)),
        )?;
    } else {
        let mut owned = managers.owned_fields(None);
        owned.join(unowned_fields(options));
        walk::prune(&mut object, &last, &owned, merge_schema);
    }
    let changes = walk::changes(&live, &object, merge_schema, Source::Merge);
    let changed = Changed::new(&managers, &manager, (&live, &object), changes, options)?;
    let is_kubectl = options.manager == client_side::KUBECTL;
    if !options.force {
        let allowed = match is_kubectl {
            true => client_side::unchanged_fields(&live, &manager.api_version, merge_schema),
            false => Set::default(),
        };
        let conflicts = conflicts(&managers, &manager, &changed, &allowed);
        if !conflicts.is_empty() {
            return Err(conflict(conflicts));
        }
    }
    if is_kubectl {
        client_side::update_annotation(&mut object, body);
    }
    changed.take_from(&mut managers, &manager);
    // An apply that changes nothing is not a write and does not update the managers' times.
    if live != object || before.fields(&manager) != managers.fields(&manager) {
        managers.write(&mut object);
    }
    Ok(object)
}

/// Returns the fields that others own and the apply changes, except those that are allowed: for each manager, its description and paths.
fn conflicts(
    managers: &Managers,
    manager: &Manager,
    changed: &Changed,
    allowed: &Set,
) -> Vec<(String, Vec<String>)> {
    let of = |entry: &ManagerEntry| {
        let mut common = entry.fields.common(&changed.of(&entry.manager).set);
        common.subtract(allowed);
        (entry.manager.describe(), common.paths())
    };
    managers
        .others(manager)
        .map(of)
        .filter(|(_, paths)| !paths.is_empty())
        .collect()
}

/// Merges a configuration into `object`, without owners.
pub(super) fn merge_configuration(
    merge_schema: MergeSchema<'_>,
    object: &Value,
    configuration: &Value,
) -> Result<Value, String> {
    if let Some(fault) = walk::fault(configuration, merge_schema, "") {
        return Err(format!(
            "failed to convert patch object to typed object: {fault}"
        ));
    }
    let mut atomic = Vec::new();
    walk::find_atomic(configuration, merge_schema, "", &mut atomic);
    if !atomic.is_empty() {
        return Err(format!(
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}",
            atomic.join(", ")
        ));
    }
    let mut merged = object.clone();
    walk::merge(&mut merged, configuration, merge_schema);
    Ok(merged)
}

/// Returns the parts of `body` that this endpoint writes.
fn extract_written(
    target: &Target<'_>,
    body: &Value,
    merge_schema: MergeSchema<'_>,
    options: &ApplyOptions<'_>,
) -> Result<Value, PatchError> {
    let refuse = |why: String| Err(PatchError::BadRequest(why));
    let Value::Object(map) = body else {
        return refuse("error decoding YAML: the configuration is no object".to_owned());
    };
    let api_version = Manager::new(target, options, Operation::Apply).api_version;
    let (version, kind) = (
        text_or_empty(body, "/apiVersion"),
        text_or_empty(body, "/kind"),
    );
    if version != api_version || kind != target.kind {
        let slash = if version.contains('/') { "" } else { "/" };
        return refuse(format!(
            "invalid object type: {slash}{version}, Kind={kind}"
        ));
    }
    if !items(body, "/metadata/managedFields").is_empty() {
        return refuse("metadata.managedFields must be nil".to_owned());
    }
    let written = map
        .iter()
        .filter(|(name, _)| !options.ignored.contains(&name.as_str()));
    let mut config = Map::from_iter(written.map(|(name, value)| (name.clone(), value.clone())));
    if let Some(Value::Object(metadata)) = config.get_mut("metadata") {
        // Typed clients send the server's own fields as null, but do not want to delete them.
        metadata
            .retain(|name, value| !value.is_null() || !UNOWNED_METADATA.contains(&name.as_str()));
    }
    let config = Value::Object(config);
    if let Some(fault) = walk::fault(&config, merge_schema, "") {
        let (namespace, name) = (
            text_or_empty(body, "/metadata/namespace"),
            text_or_empty(body, "/metadata/name"),
        );
        let object = if namespace.is_empty() {
            format!("/{name}")
        } else {
            format!("{namespace}/{name}")
        };
        let (group, version, kind) = (target.group, target.version, target.kind);
        return refuse(format!(
            "failed to create typed patch object ({object}; {group}/{version}, Kind={kind}): {fault}"
        ));
    }
    Ok(config)
}

/// Updates the owners for a write other than an apply: the writer owns what it changed.
pub(super) fn track(
    target: &Target<'_>,
    old: Option<&Value>,
    new: &mut Value,
    options: &ApplyOptions<'_>,
) -> Result<(), PatchError> {
    let given = new.pointer("/metadata/managedFields");
    if given.is_some_and(|given| *given == json!([]) || *given == json!([{}])) {
        // An empty list is how a client says that nobody shall own anything.
        Managers::default().write(new);
        return Ok(());
    }
    let nothing = json!({});
    let mut changes = walk::changes(
        old.unwrap_or(&nothing),
        new,
        MergeSchema::of(target),
        Source::Write,
    );
    changes.leave_out(&unowned_fields(options));

    let is_same = changes.set.is_empty() && changes.gone.is_empty();
    let kept = old.and_then(|old| old.pointer("/metadata/managedFields"));
    if !Managers::can_read(items(new, "/metadata/managedFields")) {
        // Most clients send what they read; a client that leaves the field out does not mean to change it.
        assign(metadata(new), "managedFields", kept.cloned());
    } else if kept != new.pointer("/metadata/managedFields") {
        Managers::read(new).write(new);
    }
    let was_reset = old.is_some() && items(new, "/metadata/managedFields").is_empty();
    if is_same || was_reset {
        // owners that were removed are counted again only after an apply
        return Ok(());
    }
    let mut managers = Managers::read(new);
    let manager = Manager::new(target, options, Operation::Update);
    Changed::versions_of(&mut managers, &manager, options);
    let states = (old.unwrap_or(&nothing), &*new);
    let changed = match Changed::new(&managers, &manager, states, changes, options) {
        // as in kube-apiserver, a write does not fail because of those who wrote in other versions: then nobody owns anything
        Err(PatchError::Inconvertible(_)) => {
            Managers::default().write(new);
            return Ok(());
        }
        changed => changed?,
    };
    changed.take_from(&mut managers, &manager);
    let changes = changed.own;
    let mut fields = managers.fields(&manager).cloned().unwrap_or_default();
    fields.remove_below(&changes.gone);
    fields.join(changes.set);
    managers.set(manager, fields, options.now);
    managers.write(new);
    Ok(())
}

/// Returns the fields of which a write does not make its manager the owner.
fn unowned_fields(options: &ApplyOptions<'_>) -> Set {
    let mut unowned = Set::default();
    for name in ["apiVersion", "kind"].iter().chain(options.ignored) {
        unowned.put(Step::field(name), Set::leaf());
    }
    for name in UNOWNED_METADATA {
        unowned
            .below(Step::field("metadata"))
            .put(Step::field(name), Set::leaf());
    }
    unowned
}

/// Returns a conflict in the real server's words, which clients show.
fn conflict(mut managers: Vec<(String, Vec<String>)>) -> PatchError {
    managers.sort();
    let message = match managers.as_slice() {
        [(manager, paths)] if paths.len() == 1 => {
            format!(
                "Apply failed with 1 conflict: conflict with {manager}: {}",
                paths.concat()
            )
        }
        _ => {
            let count: usize = managers.iter().map(|(_, paths)| paths.len()).sum();
            let lines = managers.iter().flat_map(|(manager, paths)| {
                let paths = paths.iter().map(|path| format!("- {path}"));
                std::iter::once(format!("conflicts with {manager}:")).chain(paths)
            });
            let lines: Vec<_> = lines.collect();
            format!("Apply failed with {count} conflicts: {}", lines.join("\n"))
        }
    };
    let conflicts = managers.into_iter().flat_map(|(manager, paths)| {
        paths.into_iter().map(move |field| Conflict {
            field,
            message: format!("conflict with {manager}"),
        })
    });
    PatchError::Conflict {
        message,
        conflicts: conflicts.collect(),
    }
}

#[cfg(test)]
mod tests;
