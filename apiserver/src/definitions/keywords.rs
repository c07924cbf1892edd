//! Validates the keywords of an `openAPIV3Schema`: those that are not supported, types of lists and maps, and rules in CEL. Pure.

use serde_json::Value;

use super::{
    defaults, expressions, list_types,
    ratchets::Ratchets,
    schema_parts::{flag, inner},
    structural_check,
};
use kubeapi::{cause::Cause, object::text_or_empty};

/// The types of values.
pub(super) const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// Returns what is invalid in the schema at `path`.
pub(super) fn check(schema: &Value, path: &str, ratchets: &Ratchets) -> Vec<Cause> {
    let unsupported = structural_check::unsupported_keyword(schema);
    let mut causes = match unsupported {
        Some(_) => Vec::new(),
        None => structural_check::check(schema, path),
    };
    if unsupported.is_none() && causes.is_empty() {
        causes = defaults::check(schema, path, ratchets.pruned_defaults);
    }
    let place = Place {
        has_rules: unsupported.is_none() && causes.is_empty(),
        is_root: true,
        is_in_metadata: false,
        no_default: None,
        uncorrelatable: None,
    };
    let mut walk = Walk {
        ratchets,
        causes: Vec::new(),
        of_rules: Vec::new(),
    };
    walk.node(schema, path, &place);
    causes.extend(walk.causes);
    causes.extend(walk.of_rules);
    if let (true, Some(why)) = (causes.is_empty(), unsupported) {
        causes.push(Cause::invalid(path, &"".into(), &why));
    }
    causes
}

/// Where a schema is.
#[derive(Clone)]
struct Place {
    /// Whether rules are compiled: not under `not` and the like.
    has_rules: bool,
    is_root: bool,
    /// Whether it is of the metadata, type or name of a whole object.
    is_in_metadata: bool,
    /// Why there can be no default.
    no_default: Option<String>,
    /// The path of the enclosing value whose parts cannot be correlated with old ones.
    uncorrelatable: Option<String>,
}

struct Walk<'a> {
    ratchets: &'a Ratchets,
    causes: Vec<Cause>,
    /// Faults of rules, which are reported after all others.
    of_rules: Vec<Cause>,
}

impl Walk<'_> {
    fn node(&mut self, schema: &Value, path: &str, place: &Place) {
        let before = self.causes.len();
        self.causes
            .extend(unsupported_keywords(schema, path, place));
        for (step, inner) in inner(schema) {
            let keyword = step.split('[').next().unwrap_or_default();
            self.node(
                inner,
                &format!("{path}.{step}"),
                &place.of(schema, path, keyword, &step),
            );
        }
        self.causes.extend(list_types::check(
            schema,
            path,
            self.ratchets.atomic_sets,
            self.ratchets.map_keys,
        ));
        self.causes.extend(expressions::texts(schema, path));
        if place.has_rules && self.causes.len() == before {
            let uncorrelatable = place.uncorrelatable.as_deref();
            self.of_rules.extend(expressions::check(
                schema,
                path,
                place.is_root,
                uncorrelatable,
            ));
        }
    }
}

impl Place {
    /// Returns the place of a schema within.
    fn of(&self, schema: &Value, path: &str, keyword: &str, step: &str) -> Self {
        let mut place = Self {
            is_root: false,
            ..self.clone()
        };
        let uncorrelatable = || Some(path.to_owned());
        match keyword {
            "additionalProperties" => {
                if self.is_in_metadata {
                    place.no_default =
                        Some("inside additionalProperties applying to object metadata".to_owned());
                }
            }
            "properties" => {
                if text_or_empty(schema, "/x-kubernetes-map-type") == "atomic" {
                    place.uncorrelatable = place.uncorrelatable.or_else(uncorrelatable);
                }
                let name = step
                    .strip_prefix("properties[")
                    .and_then(|step| step.strip_suffix(']'));
                let name = name.filter(|name| matches!(*name, "metadata" | "kind" | "apiVersion"));
                if let Some(name) =
                    name.filter(|_| self.is_root || flag(schema, "x-kubernetes-embedded-resource"))
                {
                    place.is_in_metadata = true;
                    if self.is_root {
                        place.no_default = Some(format!("in top-level {name}"));
                    }
                }
            }
            "items" => {
                if text_or_empty(schema, "/x-kubernetes-list-type") != "map" {
                    place.uncorrelatable = place.uncorrelatable.or_else(uncorrelatable);
                }
            }
            _ => place.has_rules = false,
        }
        place
    }
}

/// Reports whether a keyword is there with something in it.
fn is_set(schema: &Value, name: &str) -> bool {
    match schema.get(name) {
        None | Some(Value::Null) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Object(map)) => !map.is_empty(),
        Some(_) => true,
    }
}

fn unsupported_keywords(schema: &Value, path: &str, place: &Place) -> Vec<Cause> {
    let mut causes = Vec::new();
    let type_ = text_or_empty(schema, "/type");
    if !type_.is_empty() && !TYPES.contains(&type_) {
        causes.push(Cause::unsupported(
            format!("{path}.type"),
            &type_.into(),
            &TYPES,
        ));
    }
    let mut forbid =
        |name: &str, why: &str| causes.push(Cause::forbidden(format!("{path}.{name}"), why));
    if let (true, Some(reason)) = (is_set(schema, "default"), &place.no_default) {
        forbid("default", &format!("must not be set {reason}"));
    }
    // those of nothing are refused as well, where the API server cannot tell them from absent ones
    for name in [
        "id",
        "additionalItems",
        "patternProperties",
        "definitions",
        "dependencies",
        "$ref",
    ] {
        let is_there = is_set(schema, name)
            || matches!(name, "additionalItems" | "$ref" | "dependencies")
                && schema.get(name).is_some_and(|value| !value.is_null());
        if is_there {
            forbid(name, &format!("{name} is not supported"));
        }
    }
    if type_ == "null" {
        forbid(
            "type",
            "type cannot be set to null, use nullable as an alternative",
        );
    }
    if schema
        .get("items")
        .is_some_and(|items| items.as_array().is_some_and(|items| !items.is_empty()))
    {
        forbid("items", "items must be a schema object and not an array");
    }
    if place.is_in_metadata && flag(schema, "x-kubernetes-embedded-resource") {
        forbid(
            "x-kubernetes-embedded-resource",
            "must not be used inside of resource meta",
        );
    }
    if flag(schema, "uniqueItems") {
        let why =
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        forbid("uniqueItems", why);
    }
    let rest = schema
        .get("additionalProperties")
        .filter(|rest| !rest.is_null());
    if is_set(schema, "properties") && rest.is_some_and(|rest| rest != &Value::Bool(true)) {
        forbid(
            "additionalProperties",
            "additionalProperties and properties are mutual exclusive",
        );
    }
    causes
}
