//! Compares and merges objects along their structure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::set::{Set, Step};
use crate::patch::{
    merge_schema::{KeyField, MergeSchema, ValueParts},
    order::{OrderedItem, order_applied},
};

/// Returns a list's items with the steps to them, in the list's order; `None` if an item has no key or two have the same.
fn steps<'v>(keys: Option<&[KeyField<'_>]>, list: &'v [Value]) -> Option<Vec<(Step, &'v Value)>> {
    let step = |item| match keys {
        Some(keys) => Step::item(keys, item).ok(),
        None => Some(Step::value(item)),
    };
    let steps: Vec<_> = list
        .iter()
        .map(|item| Some((step(item)?, item)))
        .collect::<Option<_>>()?;
    let different: BTreeMap<_, _> = steps.iter().map(|(step, item)| (step, item)).collect();
    (different.len() == steps.len()).then_some(steps)
}

/// The children of a value.
enum Children<'v> {
    Whole,
    Fields(&'v Map<String, Value>),
    Items(Vec<(Step, &'v Value)>),
}

/// Returns the children of `value`. A stored list may be older than the schema: one whose items have no unique keys counts as atomic.
fn children<'v>(value: &'v Value, at: MergeSchema<'_>) -> Children<'v> {
    match (value, at.parts(value)) {
        (Value::Object(map), ValueParts::Fields) => Children::Fields(map),
        (Value::Array(list), ValueParts::Keyed(keys)) => {
            steps(Some(&keys), list).map_or(Children::Whole, Children::Items)
        }
        (Value::Array(list), ValueParts::Values) => {
            steps(None, list).map_or(Children::Whole, Children::Items)
        }
        _ => Children::Whole,
    }
}

/// Returns every field of a configuration: an object belongs to it only if it is empty, or if the schema does not name its field.
pub(super) fn fields(value: &Value, at: MergeSchema<'_>) -> Set {
    let mut set = Set::default();
    match children(value, at) {
        Children::Whole => set.add(),
        Children::Fields(map) => {
            for (name, value) in map {
                let mut inner = fields(value, at.field(name));
                if value.as_object().is_some_and(Map::is_empty) || !at.has_field(name) {
                    inner.add();
                }
                set.put(Step::field(name), inner);
            }
        }
        Children::Items(items) => {
            for (step, item) in items {
                let mut inner = fields(item, at.items());
                inner.add();
                set.put(step, inner);
            }
        }
    }
    set
}

/// Where a new object comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Source {
    /// A write of the whole object: Kubernetes leaves out empty lists and maps of its types.
    Write,
    /// The merge with a configuration, which keeps them.
    Merge,
}

impl Source {
    fn has(self, name: &str, value: &Value, at: MergeSchema<'_>) -> bool {
        self == Self::Merge || !at.leaves_out(name, value)
    }
}

/// Returns every field of an added value: all objects and lists in it belong to it themselves.
fn all_fields(value: &Value, at: MergeSchema<'_>, source: Source) -> Set {
    let mut set = Set::leaf();
    match children(value, at) {
        Children::Whole => {}
        Children::Fields(map) => {
            for (name, value) in map
                .iter()
                .filter(|(name, value)| source.has(name, value, at))
            {
                set.put(Step::field(name), all_fields(value, at.field(name), source));
            }
        }
        Children::Items(items) => {
            for (step, item) in items {
                set.put(step, all_fields(item, at.items(), source));
            }
        }
    }
    set
}

/// Returns the empty object or list that Kubernetes has instead of an absent field like `value`, if it always has the field.
fn empty_like(value: &Value, at: MergeSchema<'_>, name: &str) -> Option<Value> {
    match children(value, at.field(name)) {
        _ if !at.is_always_present(name) => None,
        Children::Whole => None,
        Children::Fields(_) => Some(Value::Object(Map::new())),
        Children::Items(_) => Some(Value::Array(Vec::new())),
    }
}

/// The changes between two objects.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Changes {
    /// Added and changed fields.
    pub(super) set: Set,
    /// The roots of removed parts.
    pub(super) gone: Set,
}

/// Returns the changes from `old` to `new`.
pub(super) fn changes(old: &Value, new: &Value, at: MergeSchema<'_>, source: Source) -> Changes {
    let mut changes = Changes::default();
    match (children(old, at), children(new, at)) {
        (Children::Fields(old), Children::Fields(new)) => changes.of_fields(old, new, at, source),
        (Children::Items(old), Children::Items(new)) => {
            changes.of_items(&old, new, at.items(), source)
        }
        _ if old == new => {}
        (Children::Whole, Children::Whole) => changes.set.add(),
        _ => {
            changes.set = all_fields(new, at, source);
            changes.gone.add();
        }
    }
    changes
}

impl Changes {
    /// Removes fields of which nobody becomes the owner, with all below them, and the metadata itself.
    pub(super) fn leave_out(&mut self, unowned: &Set) {
        for set in [&mut self.set, &mut self.gone] {
            set.remove_below(unowned);
        }
        self.set
            .below(Step::field("metadata"))
            .subtract(&Set::leaf());
    }

    fn of_fields(
        &mut self,
        old: &Map<String, Value>,
        new: &Map<String, Value>,
        at: MergeSchema<'_>,
        source: Source,
    ) {
        let is_stored = |(name, value): &(&String, &Value)| source.has(name, value, at);
        let old: BTreeMap<_, _> = old.iter().filter(is_stored).collect();
        let new: BTreeMap<_, _> = new.iter().filter(is_stored).collect();
        for (&name, &value) in old.iter().filter(|(name, _)| !new.contains_key(*name)) {
            let inner = match empty_like(value, at, name) {
                Some(empty) => changes(value, &empty, at.field(name), source).gone,
                None => Set::leaf(),
            };
            self.gone.put(Step::field(name), inner);
        }
        for (name, value) in new {
            let (step, inside) = (Step::field(name), at.field(name));
            match (old.get(name).copied(), empty_like(value, at, name)) {
                (Some(before), _) => {
                    let inner = changes(before, value, inside, source);
                    self.set.put(step.clone(), inner.set);
                    self.gone.put(step, inner.gone);
                }
                (None, Some(empty)) => self
                    .set
                    .put(step, changes(&empty, value, inside, source).set),
                (None, None) => self.set.put(step, all_fields(value, inside, source)),
            }
        }
    }

    fn of_items(
        &mut self,
        old: &[(Step, &Value)],
        new: Vec<(Step, &Value)>,
        at: MergeSchema<'_>,
        source: Source,
    ) {
        let before: BTreeMap<_, _> = old.iter().map(|(step, value)| (step, *value)).collect();
        let after: BTreeSet<_> = new.iter().map(|(step, _)| step).collect();
        for (step, _) in old.iter().filter(|(step, _)| !after.contains(step)) {
            self.gone.put(step.clone(), Set::leaf());
        }
        for (step, value) in new {
            match before.get(&step) {
                Some(before) => {
                    let inner = changes(before, value, at, source);
                    self.set.put(step.clone(), inner.set);
                    self.gone.put(step, inner.gone);
                }
                None => self.set.put(step, all_fields(value, at, source)),
            }
        }
    }
}

/// Merges `config` into `live`.
pub(super) fn merge(live: &mut Value, config: &Value, at: MergeSchema<'_>) {
    let items = match (children(live, at), children(config, at)) {
        (Children::Items(live), Children::Items(config)) => {
            Some(merge_items(&live, &config, at.items()))
        }
        _ => None,
    };
    match (live, config, items, at.parts(config)) {
        (live, _, Some(items), _) => *live = Value::Array(items),
        (Value::Object(live), Value::Object(config), None, ValueParts::Fields) => {
            crate::object::remove_nulled(live, config);
            for (name, value) in config.iter().filter(|(_, value)| !value.is_null()) {
                match live.get_mut(name) {
                    Some(place) => merge(place, value, at.field(name)),
                    None => {
                        live.insert(name.clone(), without_nulls(value));
                    }
                }
            }
        }
        (live, config, None, _) => *live = without_nulls(config),
    }
}

fn merge_items(
    live: &[(Step, &Value)],
    config: &[(Step, &Value)],
    at: MergeSchema<'_>,
) -> Vec<Value> {
    let wanted: BTreeMap<_, _> = config
        .iter()
        .enumerate()
        .map(|(place, (step, item))| (step, (place, item)))
        .collect();
    let standing: BTreeSet<_> = live.iter().map(|(step, _)| step).collect();
    let kept = live.iter().enumerate().map(|(stood, (step, item))| {
        let wanted = wanted.get(step);
        let mut item = (*item).clone();
        if let Some((_, config)) = wanted {
            merge(&mut item, config, at);
        }
        OrderedItem {
            item,
            stood: Some(stood),
            wanted: wanted.map(|(place, _)| *place),
        }
    });
    let added = config
        .iter()
        .enumerate()
        .filter(|(_, (step, _))| !standing.contains(step));
    let added = added.map(|(place, (_, item))| OrderedItem {
        item: without_nulls(item),
        stood: None,
        wanted: Some(place),
    });
    order_applied(kept.chain(added).collect())
}

/// Removes nulls, which mean the same as absent fields.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(_, value)| !value.is_null());
            Value::Object(
                kept.map(|(name, value)| (name.clone(), without_nulls(value)))
                    .collect(),
            )
        }
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// Removes from `object` what a manager applied last time (`before`) and nobody owns any more. A part goes with all that is in
/// it, which are defaults.
pub(super) fn prune(object: &mut Value, before: &Set, owned: &Set, at: MergeSchema<'_>) {
    match (at.parts(object), object) {
        (ValueParts::Fields, Value::Object(map)) => map.retain(|name, value| {
            let step = Step::field(name);
            match (before.get(&step), owned.get(&step)) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(before), Some(owned)) => {
                    prune(value, before, owned, at.field(name));
                    true
                }
            }
        }),
        (ValueParts::Keyed(keys), Value::Array(list)) => {
            list.retain_mut(|item| {
                Step::item(&keys, item).map_or(true, |step| keep(item, &step, before, owned, at))
            });
        }
        (ValueParts::Values, Value::Array(list)) => {
            list.retain_mut(|item| keep(item, &Step::value(item), before, owned, at));
        }
        _ => {}
    }
}

/// Reports whether a list item is kept. Owning only fields in it does not keep it.
fn keep(item: &mut Value, step: &Step, before: &Set, owned: &Set, at: MergeSchema<'_>) -> bool {
    let Some(before) = before.get(step).filter(|before| before.is_member()) else {
        return true;
    };
    let Some(owned) = owned.get(step).filter(|owned| owned.is_member()) else {
        return false;
    };
    prune(item, before, owned, at.items());
    true
}

/// Collects the paths of objects and lists in a configuration that are only replaced as a whole.
pub(super) fn find_atomic(
    config: &Value,
    at: MergeSchema<'_>,
    path: &str,
    found: &mut Vec<String>,
) {
    if (config.is_object() || config.is_array()) && at.parts(config) == ValueParts::Whole {
        found.push(path.to_owned());
        return;
    }
    match config {
        Value::Object(map) => map.iter().for_each(|(name, value)| {
            find_atomic(value, at.field(name), &format!("{path}.{name}"), found);
        }),
        Value::Array(list) => list.iter().enumerate().for_each(|(index, item)| {
            find_atomic(item, at.items(), &format!("{path}[{index}]"), found);
        }),
        _ => {}
    }
}

/// Returns the first list in a configuration without unique keys, with the reason.
pub(super) fn fault(config: &Value, at: MergeSchema<'_>, path: &str) -> Option<String> {
    let mut seen = BTreeSet::new();
    match (config, at.parts(config)) {
        (Value::Object(map), ValueParts::Fields) => {
            map.iter().find_map(|(name, value)| fault(value, at.field(name), &format!("{path}.{name}")))
        }
        (Value::Array(list), ValueParts::Keyed(keys)) => list.iter().enumerate().find_map(|(index, item)| {
            let step = match Step::item(&keys, item) {
                Ok(step) => step,
                Err(key) => {
                    return Some(format!(
                        "{path}: element {index}: associative list with keys has an element that omits key field \
                         {key:?} (and doesn't have default value)"
                    ));
                }
            };
            let inside = format!("{path}{step}");
            if seen.contains(&step) {
                return Some(format!("{path}: duplicate entries for key {step}"));
            }
            seen.insert(step);
            fault(item, at.items(), &inside)
        }),
        (Value::Array(list), ValueParts::Values) => list.iter().find_map(|item| {
            let step = Step::value(item);
            let fault = format!("{path}: duplicate entries for key {step}");
            (!seen.insert(step)).then_some(fault)
        }),
        _ => None,
    }
}
