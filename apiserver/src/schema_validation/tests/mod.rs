//! Tests of [`super`].

use serde_json::{Value, json};

use super::node::SchemaValidator;
use kubeapi::cause::Cause;

mod patterns;
mod rules;

fn schema() -> SchemaValidator {
    SchemaValidator::new(&json!({
        "type": "object",
        "required": ["spec"],
        "properties": {"spec": {
            "type": "object",
            "required": ["size"],
            "maxProperties": 20,
            "properties": {
                "size": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 9},
                "step": {"type": "number", "multipleOf": 0.5, "minimum": 0, "exclusiveMinimum": true},
                "color": {"type": "string", "enum": ["red", "green"], "default": "red"},
                "name": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 4},
                "when": {"type": "string", "format": "date-time"},
                "port": {"x-kubernetes-int-or-string": true},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1},
                "empty": {"type": "object"},
                "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {"known": {"type": "object", "properties": {"a": {"type": "string"}}}}},
                "list": {"type": "array", "maxItems": 2, "minItems": 1, "items": {"type": "object", "properties": {
                    "name": {"type": "string"}, "on": {"type": "boolean", "default": false}}}},
                "keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
                "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "maybe": {"type": "string", "nullable": true},
                "template": {"type": "object", "x-kubernetes-embedded-resource": true,
                    "properties": {"spec": {"type": "object"}}},
                "one": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                    "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
                "any": {"type": "integer", "anyOf": [{"minimum": 10}, {"maximum": 1}]},
                "all": {"type": "integer", "allOf": [{"minimum": 10}, {"maximum": 1}]},
                "not": {"type": "integer", "not": {"enum": [5]}},
            },
        }},
    }))
}

#[track_caller]
fn expect(cases: Vec<(Value, Vec<Cause>)>) {
    for (mut fields, expected) in cases {
        if fields.get("size").is_none() {
            fields["size"] = 1.into();
        }
        assert_eq!(
            schema().check(&json!({"spec": fields})).unwrap(),
            expected,
            "{fields}"
        );
    }
}

fn invalid(field: &str, value: Value, why: &str) -> Vec<Cause> {
    let field = format!("spec.{field}");
    vec![Cause::invalid(
        field.as_str(),
        &value,
        &format!("{field} in body {why}"),
    )]
}

fn of_type(field: &str, found: &str, expected: &str) -> Vec<Cause> {
    let field = format!("spec.{field}");
    let why = format!("{field} in body must be of type {expected}: {found:?}");
    vec![Cause::type_invalid(field.as_str(), found, &why)]
}

#[test]
fn values_without_a_type_are_checked_as_in_go() {
    let validator = SchemaValidator::new(&json!({"type": "object", "properties": {
        "address": {"format": "ipv4"}, "zero": {"enum": [0]}, "step": {"multipleOf": 1.5}, "small": {"multipleOf": 1e-8}}}));
    let cases = [
        (json!({"address": "192.0.2.1", "zero": 0.0, "step": 4.5}), 0),
        // any integer is a multiple of 1.5 cut to 1, and none is one of 0
        (json!({"address": [], "step": 35}), 0),
        (json!({"address": 1}), 1),
        (json!({"address": false}), 1),
        (json!({"address": {}}), 1),
        (json!({"zero": false}), 1),
        (json!({"step": 4.6}), 1),
        (json!({"small": 5}), 1),
    ];
    for (object, causes) in cases {
        let found = validator.check(&object).unwrap();
        assert_eq!(found.len(), causes, "{object} {found:?}");
    }
}

#[test]
fn values_have_their_types() {
    expect(vec![
        (json!({}), vec![]),
        (json!({"size": "1"}), of_type("size", "string", "integer")),
        (json!({"size": 1.5}), of_type("size", "number", "integer")),
        (json!({"size": null}), of_type("size", "null", "integer")),
        (json!({"size": 1.0, "step": 2.5, "port": "web"}), vec![]),
        (
            json!({"port": true}),
            of_type("port", "boolean", "integer,string"),
        ),
        (json!({"list": {}}), of_type("list", "object", "array")),
        (
            json!({"list": [{"on": 1}]}),
            of_type("list[0].on", "integer", "boolean"),
        ),
        (
            json!({"labels": {"a": 1}}),
            of_type("labels.a", "integer", "string"),
        ),
        (
            json!({"when": "today"}),
            of_type("when", "today", "date-time"),
        ),
        (
            json!({"when": "2025-01-01T00:00:00Z", "maybe": null}),
            vec![],
        ),
    ]);
}

#[test]
fn values_keep_to_their_rules() {
    expect(vec![
        (
            json!({"size": 0}),
            invalid("size", json!(0), "should be greater than or equal to 1"),
        ),
        (
            json!({"size": 10}),
            invalid("size", json!(10), "should be less than or equal to 9"),
        ),
        (
            json!({"step": 0.0}),
            invalid("step", json!(0.0), "should be greater than 0"),
        ),
        (
            json!({"step": 0.75}),
            invalid("step", json!(0.75), "should be a multiple of 0.5"),
        ),
        (
            json!({"name": "a"}),
            invalid("name", json!("a"), "should be at least 2 chars long"),
        ),
        (
            json!({"name": "A1"}),
            invalid("name", json!("A1"), "should match '^[a-z]+$'"),
        ),
        (
            json!({"name": "abcde"}),
            vec![Cause::too_long("spec.name", 4)],
        ),
        (
            json!({"labels": {}}),
            invalid("labels", json!({}), "should have at least 1 properties"),
        ),
        (
            json!({"list": []}),
            invalid("list", json!([]), "should have at least 1 items"),
        ),
        (
            json!({"list": [{}, {}, {}]}),
            vec![Cause::too_many("spec.list", 3, 2)],
        ),
        (
            json!({"color": "blue"}),
            vec![Cause::unsupported(
                "spec.color",
                &json!("blue"),
                &["red", "green"],
            )],
        ),
        (
            json!({"set": ["a", "b", "a"]}),
            vec![Cause::duplicate("spec.set[2]", "a")],
        ),
        (
            json!({"keyed": [{"name": "a"}, {"name": "a"}]}),
            vec![Cause::duplicate_value(
                "spec.keyed[1]",
                &json!({"name": "a"}),
            )],
        ),
        (
            json!({"template": {"apiVersion": "v1"}}),
            vec![Cause::required("spec.template.kind", "must not be empty")],
        ),
    ]);
    assert_eq!(
        schema().check(&json!({})).unwrap(),
        [Cause::required("spec", "")]
    );
    assert_eq!(
        schema().check(&json!({"spec": {}})).unwrap(),
        [Cause::required("spec.size", "")]
    );
}

#[test]
fn alternatives_are_weighed() {
    let composed = |why: &str| Cause::invalid("<nil>", &"".into(), why);
    let one = "\"spec.one\" must validate one and only one schema (oneOf).";
    let least = |field: &str| {
        let why = format!("{field} in body should be greater than or equal to 10");
        Cause::invalid(field, &json!(5), &why)
    };
    let most = Cause::invalid(
        "spec.all",
        &json!(5),
        "spec.all in body should be less than or equal to 1",
    );
    expect(vec![
        (json!({"one": {"a": "1"}, "any": 0, "not": 4}), vec![]),
        (
            json!({"one": {"a": "1", "b": "1"}}),
            vec![composed(&format!("{one} Found 2 valid alternatives"))],
        ),
        (
            json!({"one": {}}),
            vec![
                Cause::required("spec.one.a", ""),
                composed(&format!("{one} Found none valid")),
            ],
        ),
        (
            json!({"any": 5}),
            vec![
                least("spec.any"),
                composed("\"spec.any\" must validate at least one schema (anyOf)"),
            ],
        ),
        (
            json!({"all": 5}),
            vec![
                least("spec.all"),
                most,
                composed("\"spec.all\" must validate all the schemas (allOf). None validated"),
            ],
        ),
        (
            json!({"not": 5}),
            vec![composed("\"spec.not\" must not validate the schema (not)")],
        ),
    ]);
}

#[test]
fn an_answer_has_an_end() {
    let list: Vec<_> = (0..5000).map(|_| json!(1)).collect();
    let causes = schema()
        .check(&json!({"spec": {"size": 1, "set": list}}))
        .unwrap();
    assert_eq!(causes.len(), 500);
}
