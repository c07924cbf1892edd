//! Tests of [`super`].

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::*;

fn registry() -> Registry {
    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "properties": {"spec": {"type": "object"}}}}}],
        },
    }))
    .unwrap();
    Registry::builtin().with_crds(&[definition])
}

#[test]
fn the_index_names_every_document() {
    let registry = registry();
    let index = index(&registry);
    insta::assert_json_snapshot!(index);
    for path in index["paths"].as_object().unwrap().keys() {
        let (group, version) = path
            .strip_prefix("api")
            .unwrap()
            .trim_start_matches("s/")
            .rsplit_once('/')
            .unwrap();
        assert!(document(&registry, group, version).is_some(), "{path}");
    }
    assert!(document(&registry, "", "v2").is_none());
}

fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
    match value {
        Value::Object(map) => {
            found.extend(map.get("$ref").and_then(Value::as_str));
            map.values().for_each(|value| references(value, found));
        }
        Value::Array(list) => list.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[test]
fn every_reference_leads_somewhere() {
    let registry = registry();
    for (group, version) in registry.group_versions() {
        let document = document(&registry, group, version).unwrap();
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        assert!(!found.is_empty());
        for reference in found {
            assert!(
                document
                    .pointer(reference.strip_prefix('#').unwrap())
                    .is_some(),
                "{reference}"
            );
        }
    }
}

#[test]
fn kubectl_finds_what_it_asks_of_a_kind() {
    let registry = registry();
    for kind in registry.kinds() {
        let document = document(&registry, &kind.group, &kind.version).unwrap();
        let own = json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
        let patches: Vec<_> = document["paths"]
            .as_object()
            .unwrap()
            .values()
            .map(|path| &path["patch"])
            .collect();
        let patch = patches.into_iter().find(|patch| patch[GVK] == own).unwrap();
        let parameters: Vec<_> = patch["parameters"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| &one["name"])
            .collect();
        assert!(
            parameters.contains(&&json!("fieldValidation"))
                && parameters.contains(&&json!("dryRun"))
        );
        let schemas = document["components"]["schemas"].as_object().unwrap();
        let schema = schemas
            .values()
            .find(|schema| schema[GVK][0] == own)
            .unwrap();
        assert_eq!(schema["type"], "object", "{kind:?}");
    }
}

#[test]
fn a_list_is_described_as_one() {
    let registry = registry();
    for kind in registry.kinds() {
        let document = document(&registry, &kind.group, &kind.version).unwrap();
        let lists = document["paths"]
            .as_object()
            .unwrap()
            .values()
            .map(|path| &path["get"]);
        let own = json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
        let mut lists = lists
            .filter(|get| get["x-kubernetes-action"] == "list" && get[GVK] == own)
            .peekable();
        assert!(lists.peek().is_some(), "{kind:?}");
        for list in lists {
            let schema = &list["responses"]["200"]["content"]["application/json"]["schema"]["$ref"];
            let schema = document
                .pointer(schema.as_str().unwrap().strip_prefix('#').unwrap())
                .unwrap();
            assert_eq!(schema[GVK][0]["kind"], kind.list_kind(), "{kind:?}");
            let item = schema["properties"]["items"]["items"]["$ref"]
                .as_str()
                .unwrap();
            let item = document.pointer(item.strip_prefix('#').unwrap()).unwrap();
            assert_eq!(item[GVK][0], own, "{kind:?}");
        }
    }
}

#[test]
fn paths_of_a_kind() {
    let document = document(&registry(), "example.com", "v1").unwrap();
    insta::assert_json_snapshot!(document["paths"]["/apis/example.com/v1/widgets/{name}"]["patch"]);
    let schema = document
        .pointer("/components/schemas/com.example.v1.Widget")
        .unwrap();
    let fields: BTreeSet<_> = schema["properties"].as_object().unwrap().keys().collect();
    assert_eq!(
        Vec::from_iter(fields),
        ["apiVersion", "kind", "metadata", "spec"]
    );
}
