//! Tests of [`super`].

use serde_json::{Value, json};

use super::*;
use crate::definitions::keywords;

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
fn messages(pointer: &str, value: Value) -> String {
    let mut definition = good();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    match definition.pointer_mut(parent).unwrap() {
        Value::Object(map) if value.is_null() => drop(map.remove(name)),
        Value::Object(map) => drop(map.insert(name.to_owned(), value)),
        other => panic!("{other}"),
    }
    check(&definition, None)
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn a_good_definition_passes() {
    assert_eq!(check(&good(), None), []);
}

#[test]
fn definitions_are_held_against_their_rules() {
    let rows = [
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
        (
            "/spec/names/singular",
            json!(""),
            "spec.names.singular: Required value",
        ),
        (
            "/spec/preserveUnknownFields",
            json!(true),
            "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ),
    ];
    for (pointer, value, expected) in rows {
        assert_eq!(messages(pointer, value), expected);
    }
}

#[test]
fn versions_columns_and_scale_are_checked() {
    let of = |change: fn(&mut Value)| {
        let mut definition = good();
        change(&mut definition["spec"]["versions"][0]);
        check(&definition, None)
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("\n")
    };
    type Change = fn(&mut Value);
    let rows: [(Change, &str); 8] = [
        (
            |version| version["storage"] = json!(false),
            "spec.versions: Invalid value: [",
        ),
        (
            |version| version["schema"] = json!({}),
            "spec.versions[0].schema.openAPIV3Schema: Required value",
        ),
        (
            |version| {
                version["additionalPrinterColumns"] =
                    json!([{"name": "A", "type": "text", "jsonPath": ".a"}])
            },
            r#"spec.additionalPrinterColumns[0].type: Invalid value: "text": must be one of boolean,date,integer,number,string"#,
        ),
        (
            |version| {
                version["additionalPrinterColumns"] =
                    json!([{"name": "A", "type": "string", "jsonPath": "a["}])
            },
            r#"spec.additionalPrinterColumns[0].JSONPath: Invalid value: "a[": must be a simple json path starting with ."#,
        ),
        (
            |version| version["subresources"] = json!({"scale": {"specReplicasPath": ".status.n", "statusReplicasPath": ".status.n"}}),
            r#"spec.subresources.scale.specReplicasPath: Invalid value: ".status.n": should be a json path under .spec"#,
        ),
        (
            |version| version["schema"]["openAPIV3Schema"]["type"] = json!("array"),
            "spec.validation.openAPIV3Schema.items: Required value: must be specified\n\
             spec.validation.openAPIV3Schema.type: Invalid value: \"array\": must be object at the root",
        ),
        (
            |version| {
                version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"] =
                    json!({"type": "int"})
            },
            r#"spec.validation.openAPIV3Schema.properties[spec].properties[size].type: Unsupported value: "int": supported values: "array", "boolean", "integer", "number", "object", "string""#,
        ),
        (
            |version| version["name"] = json!("1"),
            "spec.versions[0].name: Invalid value: \"1\": a DNS-1035 label",
        ),
    ];
    for (change, expected) in rows {
        assert!(
            of(change).starts_with(expected),
            "{}\n{expected}",
            of(change)
        );
    }
}

/// Schemas of a field `a`, and how a cause of it begins, after the field's path.
const FIELDS: &str = include_str!("structural.txt");

#[test]
fn schemas_are_structural() {
    for line in FIELDS.lines() {
        let (field, expected) = line.split_once(" ⇒ ").unwrap();
        let field: Value = serde_json::from_str(field).unwrap();
        let causes = faults_of_schema(&json!({"type": "object", "properties": {"a": field}}));
        let expected = format!("s.properties[a].{expected}");
        assert!(
            causes.lines().any(|cause| cause.starts_with(&expected)),
            "{causes}\n{expected}"
        );
    }
}

/// Returns the faults of a schema at `s`.
fn faults_of_schema(schema: &Value) -> String {
    let causes = keywords::check(schema, "s", &Ratchets::of(None));
    causes
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn what_is_established_has_fixed_names() {
    let mut old = good();
    old["status"] = json!({"storedVersions": ["v1"], "conditions": [{"type": "Established", "status": "True"}]});
    let mut new = good();
    new["spec"]["scope"] = json!("Cluster");
    new["spec"]["versions"][0]["name"] = json!("v2");
    let causes: Vec<_> = update(&old, &new).iter().map(ToString::to_string).collect();
    assert_eq!(
        causes,
        [r#"spec.scope: Invalid value: "Cluster": field is immutable"#,]
    );
}

#[test]
fn patterns_of_unicode_and_webhooks_are_accepted() {
    let mut definition = good();
    let spec =
        &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    spec["properties"]["name"] = json!({"type": "string", "pattern": "^\\p{L}$"});
    definition["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
        "clientConfig": {"url": "https://a.example/"}, "conversionReviewVersions": ["v1"],
    }});
    assert_eq!(check(&definition, None), []);
}

#[test]
fn rules_that_cannot_be_evaluated_are_refused() {
    const RULES: &str =
        "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0]";
    let cases = [
        (
            json!({"rule": "self.nothing > 0"}),
            format!(
                "{RULES}.rule: Invalid value: {{\"Rule\":\"self.nothing > 0\",\"Message\":\"\",\"MessageExpression\":\"\",\"Reason\":null,\"FieldPath\":\"\",\"OptionalOldSelf\":null}}: compilation failed: ERROR: <input>:1:5: undefined field 'nothing'\n | self.nothing > 0\n | ....^"
            ),
        ),
        (
            json!({"rule": ""}),
            format!("{RULES}.rule: Required value: rule is not specified"),
        ),
        (
            json!({"rule": "true", "message": " "}),
            format!("{RULES}.message: Invalid value: \" \": must be non-empty if specified"),
        ),
        (
            json!({"rule": "true", "message": "a\nb"}),
            format!("{RULES}.message: Invalid value: \"a\\nb\": must not contain line breaks"),
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
        assert_eq!(
            check(&definition, None)
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>(),
            [expected]
        );
    }
}

#[test]
fn root_metadata_schema_may_have_only_the_names() {
    let of = |metadata: Value| {
        faults_of_schema(&json!({"type": "object", "properties": {"metadata": metadata}}))
    };
    assert_eq!(of(json!({"type": "object"})), "");
    assert_eq!(
        of(json!({"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}}})),
        ""
    );
    let why = "s.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified";
    assert_eq!(
        of(json!({"type": "object", "properties": {"labels": {"type": "object"}}})),
        why
    );
    assert_eq!(
        of(json!({"type": "string"})),
        "s.properties[metadata].type: Invalid value: \"string\": must be object"
    );
    assert_eq!(
        faults_of_schema(
            &json!({"type": "object", "properties": {"kind": {"type": "string", "default": "A"}}})
        ),
        "s.properties[kind].default: Forbidden: must not be set in top-level kind"
    );
    assert_eq!(
        faults_of_schema(&json!({"type": "object", "additionalProperties": {"type": "string"}})),
        "s.additionalProperties: Forbidden: must not be used at the root"
    );
    // what is narrowed is declared
    assert_eq!(
        faults_of_schema(
            &json!({"type": "object", "anyOf": [{"properties": {"b": {"minLength": 1}}}]})
        ),
        "s.properties[b]: Required value: because it is defined in s.anyOf[0].properties[b]"
    );
    assert_eq!(
        faults_of_schema(&json!({"type": "object", "$schema": "x"})),
        "s: Invalid value: \"\": OpenAPIV3Schema 'schema' is not supported"
    );
}

/// Changes of the spec of a good definition, and all faults that they cause: `¶` is between two causes, `…` cuts the rest.
const CHANGES: &str = include_str!("changes.txt");

/// Puts `change` over `value`, lists item by item.
fn put(value: &mut Value, change: &Value) {
    match (value, change) {
        (Value::Object(map), Value::Object(change)) => {
            change
                .iter()
                .for_each(|(name, change)| put(map.entry(name).or_insert(Value::Null), change));
        }
        (Value::Array(list), Value::Array(change)) => {
            list.iter_mut()
                .zip(change)
                .for_each(|(value, change)| put(value, change));
        }
        (value, change) => *value = change.clone(),
    }
}

#[test]
fn every_part_of_a_definition_is_checked() {
    for line in CHANGES.lines() {
        let (change, expected) = line.split_once(" ⇒ ").unwrap();
        let mut definition = good();
        put(
            &mut definition["spec"],
            &serde_json::from_str(change).unwrap(),
        );
        let causes: Vec<_> = check(&definition, None)
            .iter()
            .map(ToString::to_string)
            .collect();
        let found = causes.join(" ¶ ");
        match expected.split_once('…') {
            Some((expected, _)) => assert!(found.starts_with(expected), "{found}\n{expected}"),
            None => assert_eq!(found, expected, "{change}"),
        }
    }
    let mut definition = good();
    let version = definition["spec"]["versions"][0].clone();
    definition["spec"]["versions"]
        .as_array_mut()
        .unwrap()
        .push(version);
    let causes: Vec<_> = check(&definition, None)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert!(
        causes[0].ends_with(": must contain unique version names"),
        "{causes:?}"
    );
    assert!(
        causes[1].ends_with(": must have exactly one version marked as storage version"),
        "{causes:?}"
    );
}

#[test]
fn faults_of_one_version_are_reported_at_its_path() {
    let mut definition = good();
    let mut beta = definition["spec"]["versions"][0].clone();
    beta["name"] = json!("v1beta1");
    beta["storage"] = json!(false);
    beta["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"] = json!({});
    definition["spec"]["versions"]
        .as_array_mut()
        .unwrap()
        .push(beta);
    let found: Vec<_> = check(&definition, None)
        .iter()
        .map(ToString::to_string)
        .collect();
    let expected = "spec.versions[1].schema.openAPIV3Schema.properties[spec].properties[size].type: Required value: must not be empty for specified object fields";
    assert_eq!(found, [expected]);
}

#[test]
fn groups_of_kubernetes_need_an_approval() {
    let of = |annotation: Option<&str>| {
        let mut definition = good();
        definition["metadata"]["name"] = json!("widgets.example.k8s.io");
        definition["spec"]["group"] = json!("example.k8s.io");
        if let Some(annotation) = annotation {
            definition["metadata"]["annotations"] =
                json!({"api-approved.kubernetes.io": annotation});
        }
        let causes = check(&definition, None);
        causes.first().map(ToString::to_string).unwrap_or_default()
    };
    assert!(of(None).starts_with("metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval annotation"));
    assert!(of(Some("yes")).starts_with(
        "metadata.annotations[api-approved.kubernetes.io]: Invalid value: \"yes\": protected groups"
    ));
    assert_eq!(of(Some("unapproved, a test")), "");
    assert_eq!(of(Some("https://a.example/1")), "");
}

#[test]
fn existing_faults_do_not_block_an_update() {
    let with = |field: Value| {
        let mut definition = good();
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
            ["a"] = field;
        definition
    };
    for field in [
        json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"}),
        json!({"type": "array", "items": {"type": "string", "nullable": true}, "x-kubernetes-list-type": "set"}),
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "default": {"b": "c"}}),
    ] {
        let old = with(field);
        assert_ne!(check(&old, None), []);
        let mut new = old.clone();
        new["spec"]["names"]["shortNames"] = json!(["w"]);
        assert_eq!(check(&new, Some(&old)), []);
    }
}

#[test]
fn unknown_formats_cause_warnings() {
    let mut definition = good();
    let spec =
        &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    spec["properties"]["a"] = json!({"type": "string", "format": "date-time"});
    spec["properties"]["b"] = json!({"type": "string", "format": "fancy"});
    spec["properties"]["c"] =
        json!({"type": "array", "items": {"type": "integer", "format": "int8"}});
    let expected = [
        "unrecognized format \"fancy\"",
        "unrecognized format \"int8\"",
    ];
    assert_eq!(format_warnings(&definition, None), expected);
    assert_eq!(format_warnings(&definition, Some(&good())), expected);
    assert!(format_warnings(&definition, Some(&definition)).is_empty());
}
