//! Tests of [`super`], and of `docs/pod-fields.md`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use k8s_openapi::{
    api::core::v1::{PodSpec, Volume},
    schemars::generate::SchemaSettings,
};
use serde_json::{Value, json};

use super::*;
use crate::volume_source::VolumeSource;

/// What the page says of one field.
#[derive(Debug)]
struct Row {
    verdict: String,
    /// The message if the field is refused, the reason if it is ignored.
    note: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The page: type → field → row.
fn page() -> BTreeMap<String, BTreeMap<String, Row>> {
    let text = fs::read_to_string(root().join("docs/pod-fields.md")).unwrap();
    let mut page = BTreeMap::<String, BTreeMap<String, Row>>::new();
    let (mut kind, mut is_list) = (String::new(), false);
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            kind = title.to_owned();
        }
        // a list of supported fields continues until the next empty line
        is_list = line.starts_with("Supported: ") || is_list && !line.is_empty();
        let cells: Vec<&str> = line
            .trim_matches('|')
            .splitn(3, " | ")
            .map(str::trim)
            .collect();
        let rows: Vec<(&str, Row)> = match cells.as_slice() {
            [field, verdict, note] if line.starts_with("| `") => {
                let (verdict, note) = ((*verdict).to_owned(), (*note).to_owned());
                vec![(field.trim_matches('`'), Row { verdict, note })]
            }
            _ if is_list => {
                let supported = || Row {
                    verdict: "supported".to_owned(),
                    note: String::new(),
                };
                let fields = line.split('`').skip(1).step_by(2);
                fields.map(|field| (field, supported())).collect()
            }
            _ => Vec::new(),
        };
        for (field, row) in rows {
            let before = page
                .entry(kind.clone())
                .or_default()
                .insert(field.to_owned(), row);
            assert!(before.is_none(), "{kind}.{field} is listed twice");
        }
    }
    page
}

/// The names of the tests of each supported field, by `TYPE.FIELD`.
fn coverage() -> BTreeMap<String, Vec<String>> {
    let text = fs::read_to_string(root().join("tests/coverage/pod-fields.txt")).unwrap();
    let entry = |line: &str| {
        let (field, tests) = line.split_once(": ").expect("TYPE.FIELD: TEST, …");
        let tests = tests.split(", ").map(str::to_owned).collect();
        (field.to_owned(), tests)
    };
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(entry)
        .collect()
}

/// The published schema: type → field → the field's own type, if it has fields.
fn schema() -> BTreeMap<String, BTreeMap<String, Option<String>>> {
    let mut generator = SchemaSettings::openapi3().into_generator();
    generator.subschema_for::<PodSpec>();
    let definitions = generator.take_definitions(true);
    let short = |name: &str| name.rsplit('.').next().unwrap_or(name).to_owned();
    let of = |schema: &Value| {
        let text = schema.to_string();
        let name = text
            .split("#/components/schemas/")
            .nth(1)?
            .split('"')
            .next()?;
        definitions
            .get(name)
            .is_some_and(|schema| schema["properties"].is_object())
            .then(|| short(name))
    };
    let fields = |schema: &Value| {
        let properties = schema["properties"].as_object()?;
        Some(
            properties
                .iter()
                .map(|(field, schema)| (field.clone(), of(schema)))
                .collect(),
        )
    };
    definitions
        .iter()
        .filter_map(|(name, schema)| Some((short(name), fields(schema)?)))
        .collect()
}

/// The types that a pod's specification is made of, without those below fields that the page says are not supported.
fn walk_types(
    page: &BTreeMap<String, BTreeMap<String, Row>>,
) -> BTreeMap<String, BTreeSet<String>> {
    let schema = schema();
    let (mut found, mut next) = (
        BTreeMap::<String, BTreeSet<String>>::new(),
        vec!["PodSpec".to_owned()],
    );
    while let Some(kind) = next.pop() {
        if found.contains_key(&kind) {
            continue;
        }
        let fields = &schema[&kind];
        let rows = page.get(&kind);
        for (field, below) in fields {
            let verdict = rows
                .and_then(|rows| rows.get(field))
                .map(|row| row.verdict.as_str());
            if verdict.is_none_or(|verdict| verdict == "supported") {
                next.extend(below.clone());
            }
        }
        found.insert(kind, fields.keys().cloned().collect());
    }
    found
}

#[test]
fn every_field_is_on_the_page() {
    let page = page();
    let schema = walk_types(&page);
    let told = |field: &(String, String)| {
        page.get(&field.0)
            .is_some_and(|rows| rows.contains_key(&field.1))
    };
    let pairs = |kind: &String, fields: &BTreeSet<String>| -> Vec<_> {
        fields
            .iter()
            .map(|field| (kind.clone(), field.clone()))
            .collect()
    };
    let all: BTreeSet<_> = schema
        .iter()
        .flat_map(|(kind, fields)| pairs(kind, fields))
        .collect();
    let silent: Vec<_> = all.iter().filter(|field| !told(field)).collect();
    assert!(
        silent.is_empty(),
        "neither supported nor refused nor ignored: {silent:?}"
    );
    for (kind, rows) in &page {
        for (field, row) in rows {
            assert!(
                all.contains(&(kind.clone(), field.clone())),
                "{kind}.{field} is no field of a pod"
            );
            let known = matches!(row.verdict.as_str(), "supported" | "refused" | "ignored");
            let has_note = row.verdict == "supported" || !row.note.is_empty();
            assert!(known && has_note, "{kind}.{field}: {row:?}");
        }
    }
}

/// All sources in which there are tests of pods.
fn sources() -> Vec<String> {
    let mut open: Vec<_> = ["edged/src", "e2e/tests", "tests/tests"]
        .map(|path| root().join(path))
        .into();
    let mut found = Vec::new();
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().path())
        {
            if entry.is_dir() {
                open.push(entry);
            } else if entry.extension().is_some_and(|extension| extension == "rs") {
                found.push(fs::read_to_string(entry).unwrap());
            }
        }
    }
    found
}

/// As Rust writes the field.
fn snake(field: &str) -> String {
    let one = |c: char| {
        if c.is_ascii_uppercase() {
            format!("_{}", c.to_ascii_lowercase())
        } else {
            c.to_string()
        }
    };
    field.chars().map(one).collect()
}

/// `tests/coverage/pod-fields.txt` names tests for each supported field, and their files contain the field's name.
#[test]
fn every_supported_field_is_shown_by_tests() {
    let (sources, mut coverage) = (sources(), coverage());
    let mut wrong = Vec::new();
    for (kind, rows) in page() {
        for (field, _) in rows.iter().filter(|(_, row)| row.verdict == "supported") {
            let tests = coverage
                .remove(&format!("{kind}.{field}"))
                .unwrap_or_default();
            if tests.is_empty() {
                wrong.push(format!("{kind}.{field}: no test"));
            }
            for test in tests {
                let head = format!("fn {test}(");
                let file = sources.iter().find(|text| {
                    text.split(&head)
                        .next()
                        .is_some_and(|before| before.len() < text.len() && before.contains("test]"))
                });
                match file {
                    None => wrong.push(format!("{kind}.{field}: there is no test {test}")),
                    Some(text)
                        if !text.contains(field.as_str()) && !text.contains(&snake(field)) =>
                    {
                        wrong.push(format!("{kind}.{field}: {test} has no word of it"));
                    }
                    Some(_) => {}
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(
        coverage.is_empty(),
        "not supported on the page: {coverage:?}"
    );
}

/// The smallest specification that the rule refuses.
fn offending(rule: &Rule) -> Value {
    let value = match rule.when {
        RefusedValues::Any => json!({"x": "x"}),
        RefusedValues::Exactly("false") => json!(false),
        RefusedValues::Exactly(value) => json!(value),
        RefusedValues::AllExcept(_) => json!("x"),
    };
    rule.path
        .rsplit('.')
        .fold(value, |inner, step| match step.strip_suffix("[]") {
            Some(list) => json!({ list: [{}, inner] }),
            None => json!({ step: inner }),
        })
}

/// Each rule refuses, and says what the page says.
#[test]
fn every_rule_refuses() {
    let text = fs::read_to_string(root().join("docs/pod-fields.md")).unwrap();
    let mut messages = BTreeMap::new();
    for rule in RULES {
        let all = refused_fields(rule.scope, &offending(rule));
        let [one] = all.as_slice() else {
            panic!("{}: {all:?}", rule.path)
        };
        assert_eq!(one.required_feature, rule.required_feature);
        assert!(
            text.contains(&format!("| {} |", one.message)),
            "the page has not: {}",
            one.message
        );
        messages.insert(one.message.clone(), rule.path);
    }
    for (kind, rows) in page() {
        for (field, row) in rows.iter().filter(|(_, row)| row.verdict == "refused") {
            let path = messages
                .get(&row.note)
                .unwrap_or_else(|| panic!("{kind}.{field}: nothing says {}", row.note));
            assert_eq!(
                path.rsplit('.').next(),
                Some(field.as_str()),
                "{kind}.{field}"
            );
        }
    }
}

#[test]
fn what_is_not_set_is_not_refused() {
    let pod = json!({"containers": [], "hostUsers": true, "os": {"name": "linux"}, "resources": {},
        "securityContext": {"supplementalGroupsPolicy": "Merge"}});
    assert_eq!(refused_fields(Scope::Pod, &pod), []);
    let container = json!({"name": "c", "volumeMounts": [{"name": "v", "recursiveReadOnly": "IfPossible"}], "volumeDevices": [],
        "resources": {"claims": null}, "lifecycle": {"preStop": {"sleep": {"seconds": 1}}}});
    assert_eq!(refused_fields(Scope::Container, &container), []);
    for volume in [
        json!({"emptyDir": {"medium": "Memory"}}),
        json!({"emptyDir": {"medium": ""}}),
        json!({"hostPath": {"path": "/nfs"}}),
        json!({"projected": {"sources": [{"secret": {"name": "s"}}]}}),
    ] {
        assert_eq!(refused_fields(Scope::Volume, &volume), [], "{volume}");
    }
}

/// A type of volumes is refused by a rule, or is one of [`VolumeSource`]; none is both or neither.
#[test]
fn every_type_of_volume_is_refused_or_known() {
    for field in schema()["Volume"].keys().filter(|field| *field != "name") {
        let value = json!({"name": "v", field: {"x": "x"}});
        let is_refused = !refused_fields(Scope::Volume, &value).is_empty();
        let volume: Volume = serde_json::from_value(value).unwrap();
        assert_ne!(is_refused, VolumeSource::of(&volume).is_some(), "{field}");
    }
}
