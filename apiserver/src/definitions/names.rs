//! Decides which names a definition gets: those that no other kind of its group has. Pure.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use kubeapi::object::definition_status::conditions::{is_true, set};
use kubeapi::{
    object::{as_map, child, items, text_or_empty},
    registry::Registry,
};

/// The names that are taken in a group.
#[derive(Default)]
struct TakenNames {
    /// Plurals, singulars and short names.
    resources: BTreeSet<String>,
    /// Kinds and kinds of lists.
    kinds: BTreeSet<String>,
}

/// Returns the definitions, by index, whose status changes, with the new state. Earlier ones have precedence.
pub(super) fn decide_names(
    registry: &Registry,
    definitions: &[Value],
    now: &str,
) -> Vec<(usize, Value)> {
    // without the schemas, which can be large
    let mut standing: Vec<_> = definitions.iter().map(relevant_fields).collect();
    let mut changed = Vec::new();
    for index in 0..standing.len() {
        let taken = taken_names(registry, &standing, index);
        let Some(definition) = standing.get_mut(index) else {
            continue;
        };
        let before = definition.get("status").cloned();
        decide(definition, &taken, now);
        let after = definition.get("status").cloned();
        if after != before {
            changed.extend(after.map(|after| (index, after)));
        }
    }
    changed
}

/// The fields of a definition that matter here.
fn relevant_fields(definition: &Value) -> Value {
    json!({
        "spec": {"group": definition.pointer("/spec/group"), "names": definition.pointer("/spec/names")},
        "status": definition.get("status"),
    })
}

/// Returns the names of the other kinds in the group of the definition at `index`.
fn taken_names(registry: &Registry, definitions: &[Value], index: usize) -> TakenNames {
    let group = definitions
        .get(index)
        .map(|definition| text_or_empty(definition, "/spec/group"));
    let group = group.unwrap_or_default();
    let mut taken = TakenNames::default();
    for kind in registry
        .kinds()
        .iter()
        .filter(|kind| kind.builtin.is_some() && kind.group == group)
    {
        taken
            .resources
            .extend([kind.plural.clone(), kind.singular.clone()]);
        taken.resources.extend(kind.short_names.iter().cloned());
        taken.kinds.extend([kind.kind.clone(), kind.list_kind()]);
    }
    let others = definitions
        .iter()
        .enumerate()
        .filter(|(other, definition)| {
            *other != index && text_or_empty(definition, "/spec/group") == group
        });
    for (_, other) in others {
        let accepted =
            |name: &str| text_or_empty(other, &format!("/status/acceptedNames/{name}")).to_owned();
        taken
            .resources
            .extend([accepted("plural"), accepted("singular")]);
        taken.resources.extend(
            items(other, "/status/acceptedNames/shortNames")
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned),
        );
        taken.kinds.extend([accepted("kind"), accepted("listKind")]);
    }
    taken
}

fn decide(definition: &mut Value, taken: &TakenNames, now: &str) {
    let asked = definition
        .pointer("/spec/names")
        .cloned()
        .unwrap_or_else(|| json!({}));
    let mut accepted = definition
        .pointer("/status/acceptedNames")
        .cloned()
        .unwrap_or_else(|| json!({}));
    let mut conflict = None;
    let fields = [
        ("plural", &taken.resources, "PluralConflict"),
        ("singular", &taken.resources, "SingularConflict"),
        ("shortNames", &taken.resources, "ShortNamesConflict"),
        ("kind", &taken.kinds, "KindConflict"),
        ("listKind", &taken.kinds, "ListKindConflict"),
    ];
    for (field, taken, reason) in fields {
        let wanted = asked.get(field).cloned().unwrap_or_default();
        let clashes: Vec<_> = clashes(&wanted, accepted.get(field), taken);
        if clashes.is_empty() {
            kubeapi::object::assign(
                as_map(&mut accepted),
                field,
                Some(wanted).filter(|wanted| !wanted.is_null()),
            );
        } else {
            conflict = Some((reason, clashes.join(", ")));
        }
    }
    kubeapi::object::assign(
        as_map(&mut accepted),
        "categories",
        asked.get("categories").cloned(),
    );
    child(as_map(definition), "status").insert("acceptedNames".into(), accepted);
    match &conflict {
        Some((reason, why)) => set(definition, "NamesAccepted", false, reason, why, now),
        None => set(
            definition,
            "NamesAccepted",
            true,
            "NoConflicts",
            "no conflicts found",
            now,
        ),
    }
    // what was established stays so, under the names that it has
    if is_true(definition, "Established") {
        return;
    }
    match conflict {
        Some(_) => set(
            definition,
            "Established",
            false,
            "NotAccepted",
            "not all names are accepted",
            now,
        ),
        None => {
            let message = "the initial names have been accepted";
            set(
                definition,
                "Established",
                true,
                "InitialNamesAccepted",
                message,
                now,
            );
        }
    }
}

/// Returns a message for each name in `wanted` (a text or a list of texts) that is taken.
fn clashes(wanted: &Value, accepted: Option<&Value>, taken: &BTreeSet<String>) -> Vec<String> {
    if accepted == Some(wanted) {
        return Vec::new();
    }
    let names: Vec<_> = match wanted {
        Value::String(name) => vec![name.as_str()],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    names
        .into_iter()
        .filter(|name| !name.is_empty() && taken.contains(*name))
        .map(|name| format!("{name:?} is already in use"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(group: &str, names: Value) -> Value {
        json!({"spec": {"group": group, "names": names}})
    }

    fn describe(definition: &Value) -> Vec<String> {
        let line = |condition: &Value| {
            let text = |pointer| text_or_empty(condition, pointer);
            format!(
                "{}={} {}: {}",
                text("/type"),
                text("/status"),
                text("/reason"),
                text("/message")
            )
        };
        items(definition, "/status/conditions")
            .iter()
            .map(line)
            .collect()
    }

    fn decide_all(mut definitions: Vec<Value>) -> Vec<Value> {
        for (index, status) in decide_names(&Registry::builtin(), &definitions.clone(), "now") {
            definitions[index]["status"] = status;
        }
        assert!(
            decide_names(&Registry::builtin(), &definitions, "later").is_empty(),
            "decisions are final"
        );
        definitions
    }

    #[test]
    fn the_first_has_the_name() {
        let names = json!({"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList", "shortNames": ["w"]});
        let other = json!({"plural": "wheels", "singular": "wheel", "kind": "Widget", "listKind": "WheelList", "shortNames": ["w"]});
        let decided = decide_all(vec![
            definition("example.com", names.clone()),
            definition("example.com", other.clone()),
            definition("example.org", other),
            definition("apps", json!({"plural": "deployments", "kind": "Mine"})),
        ]);
        let good = [
            "NamesAccepted=True NoConflicts: no conflicts found",
            "Established=True InitialNamesAccepted: the initial names have been accepted",
        ];
        assert_eq!(describe(&decided[0]), good);
        assert_eq!(decided[0]["status"]["acceptedNames"], names);
        let refused = "Established=False NotAccepted: not all names are accepted";
        assert_eq!(
            describe(&decided[1]),
            [
                r#"NamesAccepted=False KindConflict: "Widget" is already in use"#,
                refused
            ]
        );
        assert_eq!(describe(&decided[2]), good);
        assert_eq!(
            describe(&decided[3]),
            [
                r#"NamesAccepted=False PluralConflict: "deployments" is already in use"#,
                refused
            ]
        );
    }

    #[test]
    fn what_is_established_keeps_its_names() {
        let names = |kind: &str, short: &str| json!({"plural": kind.to_lowercase(), "kind": kind, "shortNames": [short]});
        let mut decided = decide_all(vec![
            definition("example.com", names("A", "x")),
            definition("example.com", names("B", "y")),
        ]);
        decided[1]["spec"]["names"]["shortNames"] = json!(["x"]);
        let decided = decide_all(decided);
        assert_eq!(
            decided[1]["status"]["acceptedNames"]["shortNames"],
            json!(["y"])
        );
        assert_eq!(
            describe(&decided[1]),
            [
                r#"NamesAccepted=False ShortNamesConflict: "x" is already in use"#,
                "Established=True InitialNamesAccepted: the initial names have been accepted",
            ]
        );
    }
}
