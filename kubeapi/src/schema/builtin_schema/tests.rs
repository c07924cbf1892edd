//! Tests of [`super`].

use serde_json::{Value, json};

use super::Schema;
use crate::registry::{Kind, KindSchema, Registry};

fn of(plural: &str) -> Registry {
    let registry = Registry::builtin();
    assert!(registry.kinds().iter().any(|kind| kind.plural == plural));
    registry
}

fn with_schema<T>(plural: &str, test: impl FnOnce(&Schema) -> T) -> T {
    let registry = of(plural);
    let kind = registry
        .kinds()
        .iter()
        .find(|kind| kind.plural == plural)
        .unwrap();
    test(published_schema(kind))
}

fn published_schema(kind: &Kind) -> &Schema {
    match kind.schema() {
        KindSchema::Published(schema) => schema,
        KindSchema::Defined(_) => panic!("{kind:?} is from a definition"),
    }
}

#[test]
fn every_published_type_takes_an_empty_object() {
    for kind in Registry::builtin().kinds() {
        let findings = published_schema(kind).check(&json!({"metadata": {"name": "a"}}));
        assert!(
            findings.unknown.is_empty() && findings.mismatches.is_empty(),
            "{kind:?}: {findings:?}"
        );
        let findings =
            published_schema(kind).check(&json!({"metadata": {"labels": {"a": 1}}, "other": 1}));
        assert_eq!(findings.unknown, ["other"], "{kind:?}");
        assert_eq!(findings.mismatches[0].path, "metadata.labels.a", "{kind:?}");
    }
}

#[test]
fn wrong_types_are_found_where_they_stand() {
    let cases = [
        (
            json!({"spec": {"containers": {}}}),
            "spec.containers object array",
        ),
        (
            json!({"spec": {"containers": [{"image": 5}]}}),
            "spec.containers[0].image number string",
        ),
        (
            json!({"spec": {"nodeName": true}}),
            "spec.nodeName bool string",
        ),
        (
            json!({"spec": {"hostNetwork": "yes"}}),
            "spec.hostNetwork string boolean",
        ),
        (
            json!({"spec": {"priority": 3_000_000_000_i64}}),
            "spec.priority number 3000000000 int32",
        ),
        (
            json!({"spec": {"priority": 1.5}}),
            "spec.priority number 1.5 int32",
        ),
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
            let found: Vec<_> = found
                .iter()
                .map(|one| format!("{} {} {}", one.path, one.found, one.expected))
                .collect();
            assert_eq!(found, [expected], "{object}");
        }
    });
    with_schema("secrets", |schema| {
        let found = schema.check(&json!({"data": {"a": "%"}})).mismatches;
        assert_eq!(
            (found[0].path.as_str(), found[0].expected),
            ("data.a", "base64 string")
        );
        let mut lines = json!({"data": {"a": "YWJj\nZGVm\r\n"}});
        assert!(schema.check(&lines).mismatches.is_empty());
        schema.normalise(&mut lines);
        assert_eq!(lines, json!({"data": {"a": "YWJjZGVm"}}));
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
    assert!(
        findings.mismatches.is_empty() && findings.unknown.is_empty(),
        "{findings:?}"
    );
}

#[test]
fn objects_are_stored_without_nulls_and_with_amounts_as_text() {
    let mut pod = json!({"metadata": {"creationTimestamp": null, "labels": {"a": null}}, "status": null,
        "spec": {"nodeName": null, "containers": [{"image": null, "resources": {"limits": {"cpu": 2, "memory": 0.5}}}]}});
    with_schema("pods", |schema| schema.normalise(&mut pod));
    let expected = json!({"metadata": {"labels": {}},
        "spec": {"containers": [{"resources": {"limits": {"cpu": "2", "memory": "500m"}}}]}});
    assert_eq!(pod, expected);
}

#[test]
fn a_type_that_contains_itself_has_an_end() {
    let definition = |depth: usize| {
        let deep = (0..depth).fold(
            json!({"type": "string"}),
            |inner: Value, _| json!({"items": inner}),
        );
        json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": deep}}]}})
    };
    with_schema("customresourcedefinitions", |schema| {
        let findings = schema.check(&definition(20));
        assert!(
            findings.mismatches.is_empty() && findings.unknown.is_empty(),
            "{findings:?}"
        );
    });
}
