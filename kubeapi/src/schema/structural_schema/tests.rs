//! Tests of [`super`].

use serde_json::json;

use super::*;

fn schema() -> Structural {
    Structural::new(&json!({
        "type": "object",
        "properties": {"spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer"},
                "color": {"type": "string", "default": "red"},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "empty": {"type": "object"},
                "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {"known": {"type": "object", "properties": {"a": {"type": "string"}}}}},
                "list": {"type": "array", "items": {"type": "object", "properties": {
                    "name": {"type": "string"}, "on": {"type": "boolean", "default": false}}}},
                "maybe": {"type": "string", "nullable": true},
                "template": {"type": "object", "x-kubernetes-embedded-resource": true,
                    "properties": {"spec": {"type": "object"}}},
            },
        }},
    }))
}

#[test]
fn unknown_fields_are_pruned_at_every_level() {
    let mut object = json!({
        "apiVersion": "v", "kind": "k", "metadata": {"x": 1}, "else": 1,
        "spec": {
            "size": 1, "other": 1, "raw": {"kept": 1, "known": {"a": "", "b": 1}}, "labels": {"kept": "b"},
            "list": [{"name": "a", "more": 1}], "empty": {"gone": 1},
            "template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "status": {}},
        },
    });
    let mut pruned = schema().prune(&mut object);
    pruned.sort();
    let expected = [
        "else",
        "spec.empty.gone",
        "spec.list[0].more",
        "spec.other",
        "spec.raw.known.b",
        "spec.template.status",
    ];
    assert_eq!(pruned, expected);
    let expected = json!({
        "apiVersion": "v", "kind": "k", "metadata": {"x": 1},
        "spec": {
            "size": 1, "raw": {"kept": 1, "known": {"a": ""}}, "labels": {"kept": "b"}, "list": [{"name": "a"}],
            "empty": {}, "template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}},
        },
    });
    assert_eq!(object, expected);
}

#[test]
fn defaults_stand_where_their_object_is() {
    let cases = [
        (json!({}), json!({})),
        (
            json!({"spec": {"size": 1}}),
            json!({"spec": {"size": 1, "color": "red"}}),
        ),
        (
            json!({"spec": {"color": "green", "list": [{}, {"on": true}]}}),
            json!({"spec": {"color": "green", "list": [{"on": false}, {"on": true}]}}),
        ),
        // a null that may not be is none
        (
            json!({"spec": {"color": null, "size": null, "maybe": null, "raw": {"kept": null}}}),
            json!({"spec": {"color": "red", "maybe": null, "raw": {"kept": null}}}),
        ),
    ];
    for (mut object, expected) in cases {
        schema().fill_defaults(&mut object).unwrap();
        assert_eq!(object, expected);
    }
}
