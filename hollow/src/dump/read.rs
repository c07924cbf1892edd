//! Reads the objects of a dump: documents of YAML or JSON, each an object or a list. Pure.

use std::collections::{HashMap, hash_map::Entry};

use serde_json::Value;

use super::{Error, Skipped};
use crate::manifests;

/// Returns the objects. Of those with one name, the last one is taken, as by `kubectl apply`.
pub(super) fn objects(text: &str, skipped: &mut Skipped) -> Result<Vec<Value>, Error> {
    let mut all = Vec::new();
    for (number, document) in parse(text)?.into_iter().enumerate() {
        flatten(document, &format!("document {}", number + 1), &mut all)?;
    }
    let mut places = HashMap::new();
    let mut objects: Vec<Value> = Vec::with_capacity(all.len());
    for object in all {
        match places.entry(key(&object)) {
            Entry::Vacant(place) => {
                place.insert(objects.len());
                objects.push(object);
            }
            Entry::Occupied(place) => {
                let Some(earlier) = objects.get_mut(*place.get()) else {
                    continue;
                };
                let earlier = std::mem::replace(earlier, object);
                // `kubectl get pods,all` prints pods twice
                if objects
                    .get(*place.get())
                    .is_some_and(|later| !is_same(&earlier, later))
                {
                    skipped.add("the dump contains another object with its name", &earlier);
                }
            }
        }
    }
    Ok(objects)
}

/// Parses JSON, which is the faster one, or YAML.
fn parse(text: &str) -> Result<Vec<Value>, Error> {
    let json = serde_json::Deserializer::from_str(text).into_iter();
    match json.collect() {
        Ok(values) => Ok(values),
        Err::<Vec<Value>, serde_json::Error>(_) => {
            manifests::documents(text).map_err(Error::Syntax)
        }
    }
}

/// Adds an object, or the items of a list.
fn flatten(document: Value, place: &str, all: &mut Vec<Value>) -> Result<(), Error> {
    match document {
        Value::Null => Ok(()),
        Value::Object(mut fields) if fields.get("items").is_some_and(Value::is_array) => {
            let Some(Value::Array(items)) = fields.remove("items") else {
                return Ok(());
            };
            (items.into_iter().enumerate()).try_for_each(|(number, item)| {
                flatten(item, &format!("{place}, item {}", number + 1), all)
            })
        }
        object => {
            let text = |pointer| object.pointer(pointer).and_then(Value::as_str);
            let fields = [
                ("/apiVersion", "apiVersion"),
                ("/kind", "kind"),
                ("/metadata/name", "metadata.name"),
            ];
            let missing = fields
                .into_iter()
                .find(|(pointer, _)| text(pointer).is_none());
            if let Some((_, missing)) = missing {
                let known = [text("/kind"), text("/metadata/name")];
                let known: Vec<_> = known.into_iter().flatten().map(limits::excerpt).collect();
                let known = match known.is_empty() {
                    true => String::new(),
                    false => format!(" ({})", known.join(" ")),
                };
                return Err(Error::NoObject {
                    place: format!("{place}{known}"),
                    missing,
                });
            }
            all.push(object);
            Ok(())
        }
    }
}

/// Returns group, kind, namespace and name of an object.
fn key(object: &Value) -> [String; 4] {
    let text = |pointer| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let version = text("/apiVersion");
    let group = version.split_once('/').map_or("", |(group, _)| group);
    [
        group,
        text("/kind"),
        text("/metadata/namespace"),
        text("/metadata/name"),
    ]
    .map(str::to_owned)
}

/// Reports whether two entries are one object, perhaps read at different times.
fn is_same(one: &Value, other: &Value) -> bool {
    let uid = |object: &Value| object.pointer("/metadata/uid").cloned();
    one == other || (uid(one).is_some() && uid(one) == uid(other))
}
