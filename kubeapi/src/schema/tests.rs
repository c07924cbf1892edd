use serde_json::{Value, json};

use super::{Rule, Schema};
use crate::registry::Registry;

fn of(plural: &str) -> Registry {
    let registry = Registry::builtin();
    assert!(registry.kinds().iter().any(|kind| kind.plural == plural));
    registry
}

fn with_schema<T>(plural: &str, test: impl FnOnce(&Schema) -> T) -> T {
    let registry = of(plural);
    let kind = registry.kinds().iter().find(|kind| kind.plural == plural).unwrap();
    test(kind.schema())
}

fn custom() -> Schema {
    Schema::definition(&json!({
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": {
                "type": "object",
                "required": ["size"],
                "properties": {
                    "size": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 9},
                    "color": {"type": "string", "enum": ["red", "green"], "default": "red"},
                    "port": {"x-kubernetes-int-or-string": true},
                    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                    "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    "ratio": {"type": "number"},
                    "list": {"type": "array", "items": {"type": "object", "properties": {
                        "name": {"type": "string"}, "on": {"type": "boolean", "default": false}}}},
                    "maybe": {"type": "string", "nullable": true},
                },
            },
        },
    }))
}

#[test]
fn every_published_type_takes_an_empty_object() {
    for kind in Registry::builtin().kinds() {
        let findings = kind.schema().check(&json!({"metadata": {"name": "a"}}));
        assert!(findings.unknown.is_empty() && findings.mismatches.is_empty(), "{kind:?}: {findings:?}");
        let findings = kind.schema().check(&json!({"metadata": {"labels": {"a": 1}}, "other": 1}));
        assert_eq!(findings.unknown, ["other"], "{kind:?}");
        assert_eq!(findings.mismatches[0].path, "metadata.labels.a", "{kind:?}");
    }
}

#[test]
fn wrong_types_are_found_where_they_stand() {
    let cases = [
        (json!({"spec": {"containers": {}}}), "spec.containers object array"),
        (json!({"spec": {"containers": [{"image": 5}]}}), "spec.containers[0].image number 5 string"),
        (json!({"spec": {"nodeName": true}}), "spec.nodeName bool string"),
        (json!({"spec": {"hostNetwork": "yes"}}), "spec.hostNetwork string \"yes\" boolean"),
        (json!({"spec": {"priority": 3_000_000_000_i64}}), "spec.priority number 3000000000 int32"),
        (json!({"spec": {"priority": 1.5}}), "spec.priority number 1.5 int32"),
        (
            json!({"metadata": {"creationTimestamp": "today"}}),
            "metadata.creationTimestamp string \"today\" RFC 3339 time",
        ),
        (
            json!({"spec": {"containers": [{"resources": {"limits": {"cpu": "much"}}}]}}),
            "spec.containers[0].resources.limits.cpu string \"much\" quantity",
        ),
        (
            json!({"spec": {"containers": [{"livenessProbe": {"httpGet": {"port": 1.5}}}]}}),
            "spec.containers[0].livenessProbe.httpGet.port number 1.5 integer or string",
        ),
        (json!([]), " array object"),
    ];
    with_schema("pods", |schema| {
        for (object, expected) in cases {
            let found = schema.check(&object).mismatches;
            let found: Vec<_> =
                found.iter().map(|one| format!("{} {} {}", one.path, one.found, one.expected)).collect();
            assert_eq!(found, [expected], "{object}");
        }
    });
    with_schema("secrets", |schema| {
        let found = schema.check(&json!({"data": {"a": "%"}})).mismatches;
        assert_eq!((found[0].path.as_str(), found[0].expected), ("data.a", "base64 string"));
    });
}

#[test]
fn values_of_the_right_type_are_taken() {
    let pod = json!({
        "metadata": {"creationTimestamp": "2025-01-01T00:00:00Z", "managedFields": [{"fieldsV1": {"f:a": {}}}]},
        "spec": {"containers": [{
            "resources": {"limits": {"cpu": 2, "memory": "1Gi"}},
            "livenessProbe": {"httpGet": {"port": "web"}},
            "readinessProbe": {"httpGet": {"port": 80}},
        }], "securityContext": null},
    });
    let findings = with_schema("pods", |schema| schema.check(&pod));
    assert!(findings.mismatches.is_empty() && findings.unknown.is_empty(), "{findings:?}");
}

#[test]
fn a_definition_says_what_is_allowed() {
    let object = json!({
        "metadata": {"anything": 1},
        "spec": {"color": "blue", "size": 10, "other": 1, "raw": {"x": 1}, "labels": {"a": "b", "c": 1}, "ratio": 0.5,
            "list": [{"name": "a", "more": 1}], "maybe": null, "port": "web"},
        "else": {},
    });
    let findings = custom().check(&object);
    let mut unknown = findings.unknown;
    unknown.sort();
    assert_eq!(unknown, ["else", "spec.list[0].more", "spec.other"]);
    let rules: Vec<_> =
        findings.refused.iter().map(|refusal| (refusal.path.as_str(), &refusal.rule)).collect();
    let colors = Rule::Enum(vec!["red".into(), "green".into()]);
    assert_eq!(rules, [("spec.color", &colors), ("spec.size", &Rule::Maximum(9.0))]);
    assert_eq!(findings.mismatches[0].path, "spec.labels.c");
    assert_eq!(custom().check(&json!({})).missing, ["spec"]);
    assert_eq!(custom().check(&json!({"spec": {"size": null}})).missing, ["spec.size"]);
    assert_eq!(custom().check(&json!({"spec": {"size": 0}})).refused[0].rule, Rule::Minimum(1.0));
}

#[test]
fn unknown_fields_are_pruned() {
    let mut object = json!({"apiVersion": "v", "kind": "k", "metadata": {"x": 1}, "else": 1,
        "spec": {"size": 1, "other": 1, "raw": {"kept": 1}, "labels": {"kept": "b"}, "list": [{"name": "a", "more": 1}]}});
    custom().prune(&mut object);
    let expected = json!({"apiVersion": "v", "kind": "k", "metadata": {"x": 1},
        "spec": {"size": 1, "raw": {"kept": 1}, "labels": {"kept": "b"}, "list": [{"name": "a"}]}});
    assert_eq!(object, expected);
}

#[test]
fn defaults_stand_where_their_object_is() {
    let mut object = json!({"spec": {"size": 1, "list": [{}, {"on": true}]}});
    custom().fill_defaults(&mut object);
    assert_eq!(object, json!({"spec": {"size": 1, "list": [{"on": false}, {"on": true}], "color": "red"}}));
    let mut absent = json!({});
    custom().fill_defaults(&mut absent);
    assert_eq!(absent, json!({}));
}

#[test]
fn objects_are_stored_without_nulls_and_with_amounts_as_text() {
    let mut pod = json!({"metadata": {"creationTimestamp": null, "labels": {"a": null}}, "status": null,
        "spec": {"nodeName": null, "containers": [{"image": null, "resources": {"limits": {"cpu": 2, "memory": 0.5}}}]}});
    with_schema("pods", |schema| schema.normalise(&mut pod));
    let expected = json!({"metadata": {"labels": {}},
        "spec": {"containers": [{"resources": {"limits": {"cpu": "2", "memory": "0.5"}}}]}});
    assert_eq!(pod, expected);
    let mut object = json!({"spec": {"maybe": null, "color": null, "raw": {"kept": null}}});
    custom().normalise(&mut object);
    assert_eq!(object, json!({"spec": {"maybe": null, "raw": {"kept": null}}}));
}

#[test]
fn a_type_that_contains_itself_has_an_end() {
    let definition = |depth: usize| {
        let deep = (0..depth).fold(json!({"type": "string"}), |inner: Value, _| json!({"items": inner}));
        json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": deep}}]}})
    };
    with_schema("customresourcedefinitions", |schema| {
        let findings = schema.check(&definition(20));
        assert!(findings.mismatches.is_empty() && findings.unknown.is_empty(), "{findings:?}");
    });
}
