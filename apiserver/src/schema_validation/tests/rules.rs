//! `x-kubernetes-validations`.

use serde_json::{Value, json};

use crate::schema_validation::{check_rules, node::SchemaValidator};

/// The fields that the rules of the table are about.
fn spec() -> Value {
    json!({
        "type": "object",
        "properties": {
            "size": {"type": "integer"}, "max": {"type": "integer"}, "ratio": {"type": "number"},
            "name": {"type": "string"}, "on": {"type": "boolean"},
            "port": {"x-kubernetes-int-or-string": true},
            "when": {"type": "string", "format": "date-time"}, "span": {"type": "string", "format": "duration"},
            "raw": {"type": "string", "format": "byte"}, "memory": {"type": "string"},
            "a-b.c/d": {"type": "string"}, "namespace": {"type": "string"},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "items": {"type": "array", "items": {"type": "object", "properties": {
                "name": {"type": "string"}, "size": {"type": "integer"}}}},
            "keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "properties": {"name": {"type": "string"}, "size": {"type": "integer"}}}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "properties": {"known": {"type": "string"}}},
            "maybe": {"type": "string", "nullable": true},
            "inner": {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}},
        },
    })
}

/// A schema whose `spec`, or what `pointer` names within, has this rule.
fn schema(pointer: &str, rule: Value) -> SchemaValidator {
    let mut spec = spec();
    spec.pointer_mut(pointer).unwrap()["x-kubernetes-validations"] = json!([rule]);
    SchemaValidator::new(&json!({"type": "object", "properties": {"spec": spec}}))
}

fn messages(schema: &SchemaValidator, object: &Value, old: Option<&Value>) -> Vec<String> {
    let (object, old) = (json!({"spec": object}), old.map(|old| json!({"spec": old})));
    schema
        .check_all(&object, old.as_ref())
        .unwrap()
        .causes
        .iter()
        .map(ToString::to_string)
        .collect()
}

/// `spec: Invalid value: "object": failed rule: …`
fn failure_message(rule: &str) -> String {
    format!("spec: Invalid value: \"object\": failed rule: {rule}")
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table or one story")]
fn rules_are_held_against_objects() {
    // rule, object, whether it holds
    let cases = [
        ("self.size <= self.max", json!({"size": 1, "max": 2}), true),
        ("self.size <= self.max", json!({"size": 3, "max": 2}), false),
        ("!has(self.size) || self.size > 0", json!({}), true),
        (
            "has(self.name) == has(self.size)",
            json!({"name": "a"}),
            false,
        ),
        ("self.ratio > 0.5", json!({"ratio": 1}), true),
        ("self.name.startsWith('x-')", json!({"name": "y"}), false),
        ("self.name in ['a', 'b']", json!({"name": "b"}), true),
        ("self.on", json!({"on": false}), false),
        (
            "type(self.port) == int ? self.port < 100 : self.port.endsWith('%')",
            json!({"port": 50}),
            true,
        ),
        (
            "type(self.port) == int ? self.port < 100 : self.port.endsWith('%')",
            json!({"port": "50"}),
            false,
        ),
        (
            "self.when > timestamp('2024-01-01T00:00:00Z')",
            json!({"when": "2023-01-01T00:00:00Z"}),
            false,
        ),
        (
            "self.when.getFullYear() == 2024",
            json!({"when": "2024-05-01T00:00:00Z"}),
            true,
        ),
        ("self.span <= duration('1h')", json!({"span": "90m"}), false),
        ("self.raw == b'hi'", json!({"raw": "aGk="}), true),
        (
            "quantity(self.memory).isLessThan(quantity('1Gi'))",
            json!({"memory": "512Mi"}),
            true,
        ),
        (
            "self.a__dash__b__dot__c__slash__d == 'x'",
            json!({"a-b.c/d": "x"}),
            true,
        ),
        (
            "self.__namespace__ != 'kube-system'",
            json!({"namespace": "kube-system"}),
            false,
        ),
        (
            "self.labels.all(key, key.startsWith('app'))",
            json!({"labels": {"app": "a", "other": "b"}}),
            false,
        ),
        (
            "self.labels['app'] == 'a' && self.labels.app == 'a'",
            json!({"labels": {"app": "a"}}),
            true,
        ),
        ("'app' in self.labels", json!({"labels": {}}), false),
        (
            "self.labels.size() < 2",
            json!({"labels": {"a": "", "b": ""}}),
            false,
        ),
        (
            "self.tags.exists(tag, tag == 'x')",
            json!({"tags": ["a", "x"]}),
            true,
        ),
        ("self.tags == ['a', 'b']", json!({"tags": ["a", "b"]}), true),
        (
            "sets.contains(self.tags, ['z'])",
            json!({"tags": ["a"]}),
            false,
        ),
        (
            "self.items.all(item, item.size < 5)",
            json!({"items": [{"size": 1}, {"size": 9}]}),
            false,
        ),
        (
            "self.items.map(item, item.size).sum() <= self.max",
            json!({"items": [{"size": 1}, {"size": 2}], "max": 3}),
            true,
        ),
        (
            "self.items.filter(item, item.name == 'a').size() == 1",
            json!({"items": [{"name": "a"}, {"name": "a"}]}),
            false,
        ),
        (
            "self.items.exists_one(item, item.name == self.name)",
            json!({"items": [{"name": "a"}], "name": "a"}),
            true,
        ),
        (
            "self.items.all(x, self.items.exists_one(y, x.name == y.name))",
            json!({"items": [{"name": "a"}, {"name": "a"}]}),
            false,
        ),
        (
            "self.keyed.map(item, item.name).isSorted()",
            json!({"keyed": [{"name": "b"}, {"name": "a"}]}),
            false,
        ),
        (
            "self.free.known == 'x'",
            json!({"free": {"known": "x", "more": 1}}),
            true,
        ),
        (
            "self.inner == self.inner && self.inner.x == 1",
            json!({"inner": {"x": 1}}),
            true,
        ),
        ("has(self.maybe)", json!({"maybe": null}), false),
        ("self.?inner.?x.orValue(5) == 5", json!({}), true),
        ("self.name.matches('^[a-z]+$')", json!({"name": "A"}), false),
        ("self.name.size() <= 3", json!({"name": "äöü"}), true),
        (
            "!format.dns1123Label().validate(self.name).hasValue()",
            json!({"name": "Not"}),
            false,
        ),
        (
            "self.tags.all(tag, isIP(tag))",
            json!({"tags": ["10.0.0.1", "x"]}),
            false,
        ),
        (
            "self.tags.all(tag, cidr('10.0.0.0/8').containsIP(tag))",
            json!({"tags": ["10.0.0.1"]}),
            true,
        ),
        (
            "url(self.name).getScheme() == 'https'",
            json!({"name": "http://a"}),
            false,
        ),
        (
            "(has(self.size) ? 1 : 0) + (has(self.max) ? 1 : 0) == 1",
            json!({"size": 1}),
            true,
        ),
        (
            "self.tags.map(tag, tag.lowerAscii()) == self.tags",
            json!({"tags": ["A"]}),
            false,
        ),
        (
            "[self.size + self.max].all(sum, sum > 3 && sum < 10)",
            json!({"size": 2, "max": 2}),
            true,
        ),
    ];
    assert!(cases.len() >= 40);
    for (rule, object, holds) in cases {
        let expected = if holds {
            Vec::new()
        } else {
            vec![failure_message(rule)]
        };
        assert_eq!(
            messages(&schema("", json!({"rule": rule})), &object, None),
            expected,
            "{rule} {object}"
        );
    }
}

#[test]
fn a_rule_that_cannot_be_told_is_not_met() {
    let cases = [
        (
            "self.size == 1",
            json!({}),
            "spec: Invalid value: \"object\": no such key: size evaluating rule: self.size == 1",
        ),
        (
            "self.tags[3] == ''",
            json!({"tags": []}),
            "spec: Invalid value: \"object\": index out of bounds: 3 evaluating rule: self.tags[3] == ''",
        ),
        (
            "10 / self.size == 1",
            json!({"size": 0}),
            "spec: Invalid value: \"object\": division by zero evaluating rule: 10 / self.size == 1",
        ),
        (
            "self.port > 3",
            json!({"port": "a"}),
            "spec: Invalid value: \"object\": 'no such overload': call arguments did not match a supported operator, function or macro signature for rule: self.port > 3",
        ),
        (
            "self.tags.all(a, self.tags.all(b, self.tags.all(c, a + b + c != '')))",
            json!({"tags": (0..500).map(|index| index.to_string()).collect::<Vec<_>>()}),
            "spec: Invalid value: \"object\": 'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: self.tags.all(a, self.tags.all(b, self.tags.all(c, a + b + c != '')))",
        ),
    ];
    for (rule, object, expected) in cases {
        assert_eq!(
            messages(&schema("", json!({"rule": rule})), &object, None),
            [expected],
            "{rule}"
        );
    }
}

#[test]
fn the_object_of_many_rules_has_one_budget() {
    // which costs much and takes little time
    let rule = json!({"rule": "self.tags.all(tag, self.name.contains(tag) || true)"});
    let mut spec = spec();
    spec["x-kubernetes-validations"] = json!(vec![rule; 40]);
    let schema = SchemaValidator::new(&json!({"type": "object", "properties": {"spec": spec}}));
    let object =
        json!({"tags": ["1", "2", "3", "4", "5", "6", "7", "8"], "name": "a".repeat(1_000_000)});
    assert_eq!(
        messages(&schema, &object, None),
        [
            "spec: Invalid value: \"object\": validation failed due to running out of cost budget, no further validation rules will be run"
        ]
    );
}

#[test]
fn transition_rules_compare_what_can_be_told_to_be_the_same() {
    let immutable = json!({"rule": "self == oldSelf", "message": "is immutable"});
    // where the rule stands, old, new, causes
    let cases = [
        (
            "/properties/name",
            json!({"name": "a"}),
            json!({"name": "a"}),
            vec![],
        ),
        (
            "/properties/name",
            json!({"name": "a"}),
            json!({"name": "b"}),
            vec!["spec.name: Invalid value: \"string\": is immutable"],
        ),
        // nothing to compare with
        ("/properties/name", json!({}), json!({"name": "b"}), vec![]),
        ("/properties/name", json!({"name": "a"}), json!({}), vec![]),
        (
            "",
            json!({"size": 1}),
            json!({"size": 2}),
            vec!["spec: Invalid value: \"object\": is immutable"],
        ),
        (
            "/properties/labels/additionalProperties",
            json!({"labels": {"a": "1"}}),
            json!({"labels": {"a": "2", "b": "3"}}),
            vec!["spec.labels[a]: Invalid value: \"string\": is immutable"],
        ),
        // an item is known by its keys, wherever it stands
        (
            "/properties/keyed/items/properties/size",
            json!({"keyed": [{"name": "a", "size": 1}, {"name": "b", "size": 2}]}),
            json!({"keyed": [{"name": "b", "size": 3}, {"name": "a", "size": 1}]}),
            vec!["spec.keyed[0].size: Invalid value: \"integer\": is immutable"],
        ),
        (
            "/properties/keyed/items",
            json!({"keyed": [{"name": "a", "size": 1}]}),
            json!({"keyed": [{"name": "c", "size": 3}]}),
            vec![],
        ),
        // the items of other lists are nobody in particular
        (
            "/properties/items/items",
            json!({"items": [{"name": "a"}]}),
            json!({"items": [{"name": "b"}]}),
            vec![],
        ),
    ];
    for (pointer, old, new, expected) in cases {
        assert_eq!(
            messages(&schema(pointer, immutable.clone()), &new, Some(&old)),
            expected,
            "{pointer} {new}"
        );
    }
    assert_eq!(
        messages(&schema("", immutable), &json!({"size": 2}), None),
        Vec::<String>::new()
    );
    let optional = schema(
        "/properties/size",
        json!({"rule": "oldSelf.hasValue() ? self >= oldSelf.value() : self == 0", "optionalOldSelf": true}),
    );
    let rule = "spec.size: Invalid value: \"integer\": failed rule: oldSelf.hasValue() ? self >= oldSelf.value() : self == 0";
    assert_eq!(
        messages(&optional, &json!({"size": 0}), None),
        Vec::<String>::new()
    );
    assert_eq!(messages(&optional, &json!({"size": 1}), None), [rule]);
    assert_eq!(
        messages(&optional, &json!({"size": 1}), Some(&json!({"size": 2}))),
        [rule]
    );
    assert_eq!(
        messages(&optional, &json!({"size": 3}), Some(&json!({"size": 2}))),
        Vec::<String>::new()
    );
}

#[test]
fn what_did_not_change_is_told_and_not_refused() {
    let schema = schema(
        "/properties/name",
        json!({"rule": "self == 'good'", "message": "is bad"}),
    );
    let (old, new) = (
        json!({"spec": {"name": "x", "size": 1}}),
        json!({"spec": {"name": "x", "size": 2}}),
    );
    let outcome = schema.check_all(&new, Some(&old)).unwrap();
    assert!(outcome.causes.is_empty());
    assert_eq!(
        outcome.warnings,
        ["spec.name: Invalid value: \"string\": is bad"]
    );
    let changed = json!({"spec": {"name": "y"}});
    assert_eq!(
        schema.check_all(&changed, Some(&old)).unwrap().causes.len(),
        1
    );
}

#[test]
fn faults_are_told_as_the_rule_says() {
    let object = json!({"size": 5, "max": 3, "labels": {"a": "b"}});
    let cases = [
        (
            json!({"message": " too large "}),
            "spec: Invalid value: \"object\": too large",
        ),
        (
            json!({"messageExpression": "'%d is more than %d'.format([self.size, self.max])"}),
            "spec: Invalid value: \"object\": 5 is more than 3",
        ),
        (
            json!({"messageExpression": "self.name", "message": "otherwise"}),
            "spec: Invalid value: \"object\": otherwise",
        ),
        (
            json!({"messageExpression": "''"}),
            "spec: Invalid value: \"object\": failed rule: self.size <= self.max",
        ),
        (
            json!({"reason": "FieldValueForbidden", "message": "no"}),
            "spec: Forbidden: no",
        ),
        (
            json!({"reason": "FieldValueRequired", "message": "no"}),
            "spec: Required value: no",
        ),
        (
            json!({"reason": "FieldValueDuplicate", "message": "no"}),
            "spec: Duplicate value: \"object\"",
        ),
        (
            json!({"fieldPath": ".size", "message": "no"}),
            "spec.size: Invalid value: \"object\": no",
        ),
        (
            json!({"fieldPath": ".labels['a.b']", "message": "no"}),
            "spec.labels[a.b]: Invalid value: \"object\": no",
        ),
    ];
    for (more, expected) in cases {
        let mut rule = json!({"rule": "self.size <= self.max"});
        rule.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        assert_eq!(messages(&schema("", rule), &object, None), [expected]);
    }
    let root = SchemaValidator::new(&json!({"type": "object", "properties": {"spec": spec()},
        "x-kubernetes-validations": [{"rule": "self.metadata.name == 'a' && self.kind == 'Thing'"}]}));
    let object = json!({"kind": "Thing", "metadata": {"name": "b"}});
    let causes = root.check_all(&object, None).unwrap().causes;
    assert_eq!(
        causes[0].to_string(),
        "<nil>: Invalid value: \"object\": failed rule: self.metadata.name == 'a' && self.kind == 'Thing'"
    );
}

#[test]
fn rules_wait_for_what_the_schema_says() {
    let schema = schema("", json!({"rule": "self.size > 3"}));
    assert_eq!(
        messages(&schema, &json!({"size": "a"}), None),
        [
            "spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\"",
            "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"
        ]
    );
}

#[test]
fn what_cannot_be_evaluated_is_refused_where_it_is_written() {
    let cases = [
        (
            json!({"rule": "self.nothing == 1"}),
            "rule: compilation failed: ERROR: <input>:1:5: undefined field 'nothing'",
        ),
        (
            json!({"rule": "self.size"}),
            "rule: cel expression must evaluate to a bool",
        ),
        (
            json!({"rule": "self.size == 'a'"}),
            "rule: compilation failed: ERROR: <input>:1:11: found no matching overload for '_==_' applied to '(int, string)'",
        ),
        (
            json!({"rule": "size(self) > 1"}),
            "rule: compilation failed: ERROR: <input>:1:5: found no matching overload for 'size' applied to '(object)'",
        ),
        (
            json!({"rule": "self.free.more == 1"}),
            "rule: compilation failed: ERROR: <input>:1:10: undefined field 'more'",
        ),
        (
            json!({"rule": "nothing('1.0.0').major() == 1"}),
            "rule: compilation failed: ERROR: <input>:1:8: undeclared reference to 'nothing' (in container '')",
        ),
        (
            json!({"rule": "true", "messageExpression": "self.size"}),
            "messageExpression: messageExpression must evaluate to a string",
        ),
        (
            json!({"rule": "true", "messageExpression": "self.z"}),
            "messageExpression: messageExpression compilation failed: ERROR: <input>:1:5: undefined field 'z'",
        ),
        (
            json!({"rule": "true", "optionalOldSelf": true}),
            "optionalOldSelf: may not be set if oldSelf is not used in rule",
        ),
        (
            json!({"rule": "oldSelf.hasValue()"}),
            "rule: compilation failed: ERROR: <input>:1:17: found no matching overload for 'hasValue' applied to 'object.()'",
        ),
    ];
    for (rule, expected) in cases {
        let faults = check_rules(&spec(), &rule, false, None);
        let told: Vec<_> = faults
            .iter()
            .map(|fault| format!("{}: {}", fault.part, fault.why))
            .collect();
        let told = told
            .first()
            .map(|told| told.lines().next().unwrap_or_default().to_owned());
        assert_eq!(told.as_deref(), Some(expected), "{rule}");
    }
    let faults = check_rules(
        &spec(),
        &json!({"rule": "self == oldSelf"}),
        false,
        Some("spec.items"),
    );
    assert_eq!(
        faults[0].why,
        "oldSelf cannot be used on the uncorrelatable portion of the schema within spec.items"
    );
}
