//! Tests of [`super`].

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;

use super::*;

fn registry() -> Registry {
    let version = |name: &str| json!({"name": name, "served": true, "storage": name == "v1", "subresources": {"status": {}}});
    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster",
            "names": {"kind": "Widget", "plural": "widgets", "shortNames": ["wd"]},
            "versions": [version("v1alpha1"), version("v1beta2"), version("v1"), version("v1beta10")],
        },
    }))
    .unwrap();
    Registry::builtin().with_crds(&[definition])
}

#[test]
fn groups_name_their_versions_the_preferred_first() {
    insta::assert_json_snapshot!(groups(&registry()));
    let group = group(&registry(), "example.com").unwrap();
    assert_eq!(
        (&group["kind"], &group["preferredVersion"]["version"]),
        (&json!("APIGroup"), &json!("v1"))
    );
    let versions: Vec<_> = group["versions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|version| &version["version"])
        .collect();
    assert_eq!(versions, ["v1", "v1beta10", "v1beta2", "v1alpha1"]);
    assert!(super::group(&registry(), "absent").is_none());
    assert!(super::group(&registry(), "").is_none());
}

#[test]
fn resources_name_their_verbs_and_parts() {
    let registry = registry();
    let lines = |group, version| {
        let list = resources(&registry, group, version).unwrap();
        let line = |resource: &Value| {
            let fields = [
                "name",
                "singularName",
                "kind",
                "namespaced",
                "verbs",
                "shortNames",
                "categories",
                "group",
            ];
            let fields: Vec<_> = fields
                .iter()
                .map(|field| resource[field].to_string())
                .collect();
            fields.join(" ")
        };
        let lines: Vec<_> = list["resources"]
            .as_array()
            .unwrap()
            .iter()
            .map(line)
            .collect();
        format!("{}\n{}", list["groupVersion"], lines.join("\n"))
    };
    insta::assert_snapshot!([lines("", "v1"), lines("example.com", "v1beta2")].join("\n\n"));
    assert!(resources(&registry, "", "v2").is_none());
}

#[test]
fn everything_stands_in_the_aggregated_answer() {
    let registry = registry();
    let all = aggregated_discovery(&registry);
    let names: Vec<_> = all["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|group| &group["metadata"]["name"])
        .collect();
    let own = names
        .iter()
        .position(|name| **name == "example.com")
        .unwrap();
    assert_eq!(
        (names[0], names[1], own),
        (&json!("apps"), &json!("batch"), names.len() - 1)
    );
    insta::assert_json_snapshot!(all["items"][own]["versions"][0]);
    let core = aggregated_core(&registry);
    assert_eq!(
        core["items"][0]["versions"][0]["resources"]
            .as_array()
            .unwrap()
            .len(),
        15
    );
}
