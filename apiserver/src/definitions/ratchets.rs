//! Rules that an update need not keep if the former definition did not. Pure.

use serde_json::Value;

use super::{defaults, list_types, schema_parts::inner};
use kubeapi::object::items;

/// What may stay as it was in an update: rules that the former definition broke are not held against the new one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ratchets {
    /// Items of sets are atomic.
    pub(super) atomic_sets: bool,
    /// Keys of lists are required or have a default, and are never null.
    pub(super) map_keys: bool,
    /// Defaults have no unknown fields.
    pub(super) pruned_defaults: bool,
}

impl Ratchets {
    /// Returns the rules for a definition that replaces `old`.
    pub(super) fn of(old: Option<&Value>) -> Self {
        let versions = old
            .map(|old| items(old, "/spec/versions"))
            .unwrap_or_default();
        let schemas: Vec<_> = versions
            .iter()
            .filter_map(|version| version.pointer("/schema/openAPIV3Schema"))
            .collect();
        let holds =
            |faults: fn(&Value) -> bool| !schemas.iter().any(|schema| is_any(schema, faults));
        Self {
            atomic_sets: holds(|schema| list_types::item_of_set(schema, "").is_some()),
            map_keys: holds(|schema| !list_types::keys(schema, "").is_empty()),
            pruned_defaults: holds(defaults::has_unknown_fields),
        }
    }
}

/// Reports whether the schema or one within it has a property.
fn is_any(schema: &Value, has: fn(&Value) -> bool) -> bool {
    has(schema)
        || inner(schema)
            .into_iter()
            .any(|(_, inner)| is_any(inner, has))
}
