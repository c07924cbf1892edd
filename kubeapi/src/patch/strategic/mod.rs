//! Kubernetes' strategic merge patch: a merge that knows which lists have keys, with directives for what a merge cannot express.
//!
//! `$patch: replace | delete` on an object or a list's item, `$retainKeys`, `$setElementOrder/<list>`,
//! `$deleteFromPrimitiveList/<list>`; null deletes.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::{
    error::PatchError,
    merge_schema::{MergeSchema, builtin::ListMerge},
    order::{OrderedItem, interleave},
};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ORDER: &str = "$setElementOrder/";
const DELETE_VALUES: &str = "$deleteFromPrimitiveList/";

/// Returns `current` merged with `body`.
pub(super) fn apply(
    current: &Value,
    body: &Value,
    merge_schema: MergeSchema<'_>,
) -> Result<Value, PatchError> {
    let Value::Object(patch) = body else {
        return Err(bad("invalid JSON document"));
    };
    let mut object = current.clone();
    merge_maps(crate::object::as_map(&mut object), patch, merge_schema)?;
    Ok(object)
}

fn bad(why: impl Into<String>) -> PatchError {
    PatchError::BadRequest(why.into())
}

fn merge_maps(
    original: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    at: MergeSchema<'_>,
) -> Result<(), PatchError> {
    match patch.get(DIRECTIVE) {
        None => {}
        Some(Value::String(directive)) if directive == "replace" => {
            *original = plain_map(patch);
            return Ok(());
        }
        Some(Value::String(directive)) if directive == "delete" => {
            original.clear();
            return Ok(());
        }
        Some(other) => return Err(unknown_directive(other, patch)),
    }
    retain_keys(original, patch)?;
    for (name, values) in directives(patch, DELETE_VALUES) {
        delete_values(original, name, values)?;
    }
    for (name, order) in directives(patch, SET_ORDER) {
        let order = order
            .as_array()
            .ok_or_else(|| bad("invalid patch format of setElementOrder list"))?;
        merge_field(original, name, patch.get(name), Some(order), at.field(name))?;
    }
    crate::object::remove_nulled(original, patch);
    for (name, value) in patch.iter().filter(|(_, value)| !value.is_null()) {
        if !is_directive(name) && !patch.contains_key(&format!("{SET_ORDER}{name}")) {
            merge_field(original, name, Some(value), None, at.field(name))?;
        }
    }
    Ok(())
}

/// Returns the directives of `patch` that begin with `prefix`, by the field that they concern.
fn directives<'a>(
    patch: &'a Map<String, Value>,
    prefix: &'static str,
) -> impl Iterator<Item = (&'a str, &'a Value)> {
    patch
        .iter()
        .filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, value)))
}

fn is_directive(name: &str) -> bool {
    name == DIRECTIVE
        || name == RETAIN_KEYS
        || name.starts_with(SET_ORDER)
        || name.starts_with(DELETE_VALUES)
}

fn unknown_directive(directive: &Value, patch: &Map<String, Value>) -> PatchError {
    bad(format!(
        "unknown patch type: {directive} in map: {}",
        Value::Object(patch.clone())
    ))
}

/// Applies `$retainKeys`: of the stored fields only these stay; for objects in which only one field at a time makes sense.
fn retain_keys(
    original: &mut Map<String, Value>,
    patch: &Map<String, Value>,
) -> Result<(), PatchError> {
    let Some(keys) = patch.get(RETAIN_KEYS) else {
        return Ok(());
    };
    let keys = keys
        .as_array()
        .ok_or_else(|| bad("invalid patch format of retainKeys"))?;
    let keys: HashSet<_> = keys.iter().filter_map(Value::as_str).collect();
    let kept = |name: &str| keys.contains(name);
    if patch
        .iter()
        .any(|(name, value)| !value.is_null() && !is_directive(name) && !kept(name))
    {
        return Err(bad("patch content doesn't match retainKeys list"));
    }
    original.retain(|name, _| kept(name));
    Ok(())
}

fn delete_values(
    original: &mut Map<String, Value>,
    name: &str,
    values: &Value,
) -> Result<(), PatchError> {
    let values = values
        .as_array()
        .ok_or_else(|| bad("invalid patch format of primitive list"))?;
    if let Some(Value::Array(list)) = original.get_mut(name) {
        let values: HashSet<_> = values.iter().map(Value::to_string).collect();
        list.retain(|value| !values.contains(&value.to_string()));
    }
    Ok(())
}

/// Merges one field; `value` is `None` if the patch only orders the list.
fn merge_field(
    original: &mut Map<String, Value>,
    name: &str,
    value: Option<&Value>,
    order: Option<&Vec<Value>>,
    at: MergeSchema<'_>,
) -> Result<(), PatchError> {
    match (original.get_mut(name), value) {
        (_, Some(Value::Null)) => {
            original.shift_remove(name);
        }
        (Some(Value::Object(original)), Some(Value::Object(patch))) => {
            merge_maps(original, patch, at)?
        }
        (Some(Value::Array(original)), patch @ (Some(Value::Array(_)) | None)) => {
            let patch = patch
                .and_then(Value::as_array)
                .map_or(&[][..], Vec::as_slice);
            match at.list_merge() {
                ListMerge::Key(key) => {
                    merge_items(original, &List { key, patch, order }, at.items())?
                }
                ListMerge::Values => merge_values(original, patch, order)?,
                ListMerge::Replace if value.is_some() => *original = plain_list(patch),
                ListMerge::Replace => {}
            }
        }
        (Some(place), Some(value)) => *place = plain(value),
        (None, Some(value)) => {
            original.insert(name.to_owned(), plain(value));
        }
        (_, None) => {}
    }
    Ok(())
}

/// A patch of a list of objects.
struct List<'a> {
    key: &'static str,
    patch: &'a [Value],
    order: Option<&'a Vec<Value>>,
}

impl List<'_> {
    /// Returns the key that distinguishes `item` from the others.
    fn key_of(&self, item: &Value) -> Option<String> {
        item.get(self.key).map(Value::to_string)
    }

    fn required_key(&self, item: &Value) -> Result<String, PatchError> {
        self.key_of(item).ok_or_else(|| {
            bad(format!(
                "map: {item} does not contain declared merge key: {}",
                self.key
            ))
        })
    }
}

fn merge_items(
    original: &mut Vec<Value>,
    list: &List<'_>,
    at: MergeSchema<'_>,
) -> Result<(), PatchError> {
    let (mut wanted, mut deleted, mut replaced) = (Vec::new(), HashSet::new(), false);
    for patch in list.patch {
        let map = patch
            .as_object()
            .ok_or_else(|| bad("lists of lists are not supported"))?;
        match (
            map.get(DIRECTIVE),
            map.get(DIRECTIVE).and_then(Value::as_str),
        ) {
            (None, _) => wanted.push(list.required_key(patch)?),
            (_, Some("replace")) => replaced = true,
            (_, Some("delete")) => {
                deleted.insert(list.required_key(patch)?);
            }
            (_, Some("merge")) => {
                return Err(bad("merging lists cannot yet be specified in the patch"));
            }
            (Some(other), _) => return Err(unknown_directive(other, map)),
        }
    }
    if replaced {
        // as they are: items with the same key stay apart
        let kept = list.patch.iter();
        let kept = kept.filter(|patch| patch.get(DIRECTIVE).is_none());
        *original = kept.map(plain).collect();
        return Ok(());
    }
    let mut items = Vec::new();
    let mut places = HashMap::new();
    for (place, item) in std::mem::take(original).into_iter().enumerate() {
        let key = list.key_of(&item);
        if key.as_ref().is_none_or(|key| !deleted.contains(key)) {
            places.entry(key).or_insert(items.len());
            items.push(existing_item(place, item));
        }
    }
    for patch in list
        .patch
        .iter()
        .filter(|patch| patch.get(DIRECTIVE).is_none())
    {
        let place = *places.entry(list.key_of(patch)).or_insert(items.len());
        match (items.get_mut(place), patch) {
            (
                Some(OrderedItem {
                    item: Value::Object(item),
                    ..
                }),
                Value::Object(patch),
            ) => {
                merge_maps(item, patch, at)?;
            }
            _ => items.push(OrderedItem {
                item: plain(patch),
                stood: None,
                wanted: None,
            }),
        }
    }
    if let Some(order) = list.order {
        let order = order
            .iter()
            .map(|item| list.required_key(item))
            .collect::<Result<Vec<_>, _>>()?;
        wanted = checked_order(&wanted, order)?;
    }
    place(&mut items, &wanted, |item| list.key_of(item));
    *original = interleave(items);
    Ok(())
}

fn merge_values(
    original: &mut Vec<Value>,
    patch: &[Value],
    order: Option<&Vec<Value>>,
) -> Result<(), PatchError> {
    let mut items: Vec<_> = std::mem::take(original)
        .into_iter()
        .enumerate()
        .map(|(place, item)| existing_item(place, item))
        .collect();
    let mut known: HashSet<_> = items.iter().map(|item| item.item.to_string()).collect();
    for value in patch {
        if known.insert(value.to_string()) {
            items.push(OrderedItem {
                item: value.clone(),
                stood: None,
                wanted: None,
            });
        }
    }
    let mut wanted: Vec<_> = patch.iter().map(Value::to_string).collect();
    if let Some(order) = order {
        wanted = checked_order(&wanted, order.iter().map(Value::to_string).collect())?;
    }
    place(&mut items, &wanted, |value| Some(value.to_string()));
    *original = interleave(items);
    Ok(())
}

fn existing_item(place: usize, item: Value) -> OrderedItem<Value> {
    OrderedItem {
        item,
        stood: Some(place),
        wanted: None,
    }
}

fn place(
    items: &mut [OrderedItem<Value>],
    wanted: &[String],
    key: impl Fn(&Value) -> Option<String>,
) {
    let mut places = HashMap::new();
    for (place, key) in wanted.iter().enumerate() {
        places.entry(key.as_str()).or_insert(place);
    }
    for item in items {
        item.wanted = key(&item.item).and_then(|key| places.get(key.as_str()).copied());
    }
}

/// Returns `order`, which must contain the items of the patch's list in the same order.
fn checked_order(listed: &[String], order: Vec<String>) -> Result<Vec<String>, PatchError> {
    let mut rest = order.iter();
    if listed.iter().all(|key| rest.any(|ordered| ordered == key)) {
        return Ok(order);
    }
    let (listed, order) = (listed.join(" "), order.join(" "));
    Err(bad(format!(
        "The order in patch list:\n[{listed}]\n doesn't match $setElementOrder list:\n[{order}]\n"
    )))
}

/// Returns `value` without directives, and without the fields and items that it deletes.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(plain_map(map)),
        Value::Array(items) => Value::Array(plain_list(items)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn plain_map(map: &Map<String, Value>) -> Map<String, Value> {
    let kept = map
        .iter()
        .filter(|(name, value)| !is_directive(name) && !value.is_null());
    kept.map(|(name, value)| (name.clone(), plain(value)))
        .collect()
}

fn plain_list(items: &[Value]) -> Vec<Value> {
    // An item with a directive changes a stored list; here there is none.
    items
        .iter()
        .filter(|item| item.get(DIRECTIVE).is_none())
        .map(plain)
        .collect()
}

#[cfg(test)]
mod tests;
