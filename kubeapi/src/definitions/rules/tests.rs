//! Tests of [`super`].

use serde_json::{Value, json};

use super::*;

fn good() -> Value {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "size": {"type": "integer", "default": 1},
        "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "list": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
    }}}});
    json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "conversion": {"strategy": "None"},
            "names": {"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

/// The messages against the definition with `value` at `pointer`; null removes.
fn told(pointer: &str, value: Value) -> String {
    let mut definition = good();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    match definition.pointer_mut(parent).unwrap() {
        Value::Object(map) if value.is_null() => drop(map.remove(name)),
        Value::Object(map) => drop(map.insert(name.to_owned(), value)),
        other => panic!("{other}"),
    }
    check(&definition).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_good_definition_passes() {
    assert_eq!(check(&good()), []);
    assert!(warnings(&good()).is_empty());
}

#[test]
fn definitions_are_held_against_their_rules() {
    let rows = [
        (
            "/metadata/name",
            json!("widgets"),
            r#"metadata.name: Invalid value: "widgets": must be spec.names.plural+"."+spec.group"#,
        ),
        (
            "/spec/scope",
            json!("Universe"),
            r#"spec.scope: Unsupported value: "Universe": supported values: "Cluster", "Namespaced""#,
        ),
        ("/spec/scope", json!(null), "spec.scope: Required value"),
        (
            "/spec/names/listKind",
            json!("Widget"),
            r#"spec.names.listKind: Invalid value: "Widget": kind and listKind may not be the same"#,
        ),
        ("/spec/names/singular", json!(""), "spec.names.singular: Required value"),
        (
            "/spec/preserveUnknownFields",
            json!(true),
            "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ),
    ];
    for (pointer, value, expected) in rows {
        assert_eq!(told(pointer, value), expected);
    }
}

#[test]
fn versions_columns_and_scale_are_checked() {
    let of = |change: fn(&mut Value)| {
        let mut definition = good();
        change(&mut definition["spec"]["versions"][0]);
        check(&definition).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    type Change = fn(&mut Value);
    let rows: [(Change, &str); 8] = [
        (
            |version| version["storage"] = json!(false),
            r#"spec.versions: Invalid value: ["v1"]: must have exactly one version marked as storage version"#,
        ),
        (
            |version| version["schema"] = json!({}),
            "spec.versions[0].schema.openAPIV3Schema: Required value: schemas are required",
        ),
        (
            |version| {
                version["additionalPrinterColumns"] = json!([{"name": "A", "type": "text", "jsonPath": ".a"}])
            },
            r#"spec.versions[0].additionalPrinterColumns[0].type: Invalid value: "text": must be one of boolean,date,integer,number,string"#,
        ),
        (
            |version| {
                version["additionalPrinterColumns"] =
                    json!([{"name": "A", "type": "string", "jsonPath": "a["}])
            },
            r#"spec.versions[0].additionalPrinterColumns[0].jsonPath: Invalid value: "a[": must be a JSONPath of fields, indexes and filters, as in .spec.size"#,
        ),
        (
            |version| {
                version["subresources"] =
                    json!({"scale": {"specReplicasPath": ".status.n", "statusReplicasPath": ".status.n"}})
            },
            r#"spec.versions[0].subresources.scale.specReplicasPath: Invalid value: ".status.n": should be a json path under .spec"#,
        ),
        (
            |version| version["schema"]["openAPIV3Schema"]["type"] = json!("array"),
            "spec.versions[0].schema.openAPIV3Schema.type: Invalid value: \"array\": must be object at the root\n\
             spec.versions[0].schema.openAPIV3Schema.items: Required value: must be specified",
        ),
        (
            |version| {
                version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"] =
                    json!({"type": "int"})
            },
            r#"spec.versions[0].schema.openAPIV3Schema.properties[spec].properties[size].type: Unsupported value: "int": supported values: "array", "boolean", "integer", "number", "object", "string""#,
        ),
        (
            |version| version["name"] = json!("1"),
            "spec.versions[0].name: Invalid value: \"1\": a DNS-1035 label",
        ),
    ];
    for (change, expected) in rows {
        assert!(of(change).starts_with(expected), "{}\n{expected}", of(change));
    }
}

#[test]
fn schemas_are_structural() {
    let rows = [
        (json!({}), "type: Required value: must not be empty for specified object fields"),
        (json!({"type": "array"}), "items: Required value: must be specified"),
        (
            json!({"type": "array", "items": {}}),
            "items.type: Required value: must not be empty for specified array items",
        ),
        (json!({"type": "object", "$ref": "#/x"}), "$ref: Forbidden: $ref is not supported"),
        (
            json!({"type": "string", "pattern": "("}),
            "pattern: Invalid value: \"(\": must be a valid regular expression, but isn't",
        ),
        (
            json!({"type": "integer", "default": "x"}),
            "default: Invalid value: \"string\": <nil> in body must be of type integer: \"string\"",
        ),
        (
            json!({"type": "string", "anyOf": [{"type": "string"}]}),
            "anyOf[0].type: Forbidden: must be empty to be structural",
        ),
        (
            json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"}),
            "x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
        ),
    ];
    for (field, expected) in rows {
        let schema = json!({"type": "object", "properties": {"a": field}});
        let causes = crate::definitions::structural_check::check(&schema, "s");
        let expected = format!("s.properties[a].{expected}");
        assert!(
            causes.iter().any(|cause| cause.to_string().starts_with(&expected)),
            "{causes:?}\n{expected}"
        );
    }
}

#[test]
fn what_is_established_has_fixed_names() {
    let mut old = good();
    old["status"] =
        json!({"storedVersions": ["v1"], "conditions": [{"type": "Established", "status": "True"}]});
    let mut new = good();
    new["spec"]["scope"] = json!("Cluster");
    new["spec"]["versions"][0]["name"] = json!("v2");
    let causes: Vec<_> = update(&old, &new).iter().map(ToString::to_string).collect();
    assert_eq!(
        causes,
        [
            r#"spec.scope: Invalid value: "Cluster": field is immutable"#,
            r#"status.storedVersions[0]: Invalid value: "v1": must appear in spec.versions"#,
        ]
    );
}

#[test]
fn what_is_not_enforced_is_said() {
    let mut definition = good();
    let spec = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    spec["properties"]["name"] = json!({"type": "string", "pattern": "^\\p{L}$"});
    definition["spec"]["conversion"]["strategy"] = json!("Webhook");
    assert_eq!(check(&definition), []);
    assert_eq!(warnings(&definition).len(), 1);
}

#[test]
fn rules_that_cannot_be_evaluated_are_refused() {
    const RULES: &str =
        "spec.versions[0].schema.openAPIV3Schema.properties[spec].x-kubernetes-validations[0]";
    let cases = [
        (
            json!({"rule": "self.nothing > 0"}),
            format!(
                "{RULES}.rule: Invalid value: apiextensions.ValidationRule{{Rule:\"self.nothing > 0\", Message:\"\", MessageExpression:\"\", Reason:(*apiextensions.FieldValueErrorReason)(nil), FieldPath:\"\", OptionalOldSelf:(*bool)(nil)}}: compilation failed: ERROR: <input>:1:5: undefined field 'nothing'\n | self.nothing > 0\n | ....^"
            ),
        ),
        (json!({"rule": ""}), format!("{RULES}.rule: Required value: rule is not specified")),
        (
            json!({"rule": "true", "message": " "}),
            format!("{RULES}.message: Invalid value: \" \": message must be non-empty if specified"),
        ),
        (
            json!({"rule": "true", "message": "a\nb"}),
            format!("{RULES}.message: Invalid value: \"a\\nb\": message must not contain line breaks"),
        ),
        (
            json!({"rule": "true &&\ntrue"}),
            format!(
                "{RULES}.message: Required value: message must be specified if rule contains line breaks"
            ),
        ),
        (
            json!({"rule": "true", "reason": "Because"}),
            format!(
                "{RULES}.reason: Unsupported value: \"Because\": supported values: \"FieldValueDuplicate\", \"FieldValueForbidden\", \"FieldValueInvalid\", \"FieldValueRequired\""
            ),
        ),
    ];
    for (rule, expected) in cases {
        let mut definition = good();
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"] =
            json!([rule]);
        assert_eq!(check(&definition).iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
    }
}
