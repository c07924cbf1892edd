//! `ValidatingAdmissionPolicy`.

use serde_json::{Value, json};

use super::about;
use crate::world::{MAPS, WIDGETS, World, widget};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";

fn policy(name: &str, more: Value) -> Value {
    let mut spec =
        json!({"matchConstraints": {"resourceRules": about(&["CREATE", "UPDATE"], &["widgets"])}});
    spec.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    json!({"metadata": {"name": name}, "spec": spec})
}

fn binding(policy: &str, more: Value) -> Value {
    let mut spec = json!({"policyName": policy, "validationActions": ["Deny"]});
    spec.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    json!({"metadata": {"name": format!("{policy}-everywhere")}, "spec": spec})
}

/// A world with one policy in force.
async fn with_policy(more: Value, bound: Value) -> World {
    let world = World::new().await;
    world.create(POLICIES, policy("sizes", more)).await;
    world.create(BINDINGS, binding("sizes", bound)).await;
    world
}

fn denial(what: &str) -> String {
    format!(
        "widgets.example.com \"a\" is forbidden: ValidatingAdmissionPolicy 'sizes' with binding 'sizes-everywhere' denied request: {what}"
    )
}

#[tokio::test]
async fn a_policy_refuses_in_kubernetes_words() {
    // the policy, the request's object, its answer
    let cases = [
        (
            json!({"validations": [{"expression": "object.spec.size < 5"}]}),
            9,
            422,
            denial("failed expression: object.spec.size < 5"),
        ),
        (
            json!({"validations": [{"expression": "object.spec.size < 5"}]}),
            4,
            201,
            String::new(),
        ),
        (
            json!({"validations": [{"expression": "object.spec.size < 5", "message": "too large"}]}),
            9,
            422,
            denial("too large"),
        ),
        (
            json!({"validations": [{"expression": "object.spec.size < 5", "messageExpression": "'%d is too large'.format([object.spec.size])"}]}),
            9,
            422,
            denial("9 is too large"),
        ),
        (
            json!({"validations": [{"expression": "false", "reason": "Forbidden", "message": "no"}]}),
            1,
            403,
            denial("no"),
        ),
        (
            json!({"validations": [{"expression": "object.spec.none == 1"}]}),
            1,
            422,
            denial("expression 'object.spec.none == 1' resulted in error: no such key: none"),
        ),
        (
            json!({"validations": [{"expression": "object.spec.none == 1"}], "failurePolicy": "Ignore"}),
            1,
            201,
            String::new(),
        ),
        (
            json!({"variables": [{"name": "size", "expression": "object.spec.size"}, {"name": "twice", "expression": "variables.size * 2"}],
                "validations": [{"expression": "variables.twice < 10", "messageExpression": "'twice is ' + string(variables.twice)"}]}),
            9,
            422,
            denial("twice is 18"),
        ),
        (
            json!({"validations": [{"expression": "request.operation == 'UPDATE' && request.userInfo.username == 'system:admin'"}]}),
            1,
            422,
            denial(
                "failed expression: request.operation == 'UPDATE' && request.userInfo.username == 'system:admin'",
            ),
        ),
        (
            json!({"validations": [{"expression": "request.kind.kind == 'Widget' && request.resource.resource == 'widgets' && request.name == 'a' && request.namespace == 'default' && !request.dryRun && oldObject == null && namespaceObject.metadata.name == 'default'"}]}),
            1,
            201,
            String::new(),
        ),
        (
            json!({"matchConditions": [{"name": "small", "expression": "object.spec.size < 3"}], "validations": [{"expression": "false"}]}),
            9,
            201,
            String::new(),
        ),
        (
            json!({"matchConditions": [{"name": "broken", "expression": "object.spec.none < 3"}], "validations": [{"expression": "true"}]}),
            9,
            422,
            denial("match condition \"broken\" fails to evaluate: no such key: none"),
        ),
        (
            json!({"validations": [{"expression": "authorizer.group('').resource('pods').namespace('x').check('get').allowed()"}]}),
            1,
            201,
            String::new(),
        ),
        (
            json!({"validations": [{"expression": "authorizer.requestResource.check('create').allowed() && authorizer.serviceAccount('default', 'x').path('/metrics').check('get').allowed()", "message": "may not"}]}),
            1,
            422,
            denial("may not"),
        ),
    ];
    for (more, size, code, message) in cases {
        let world = with_policy(more.clone(), json!({})).await;
        let answer = world
            .send(&format!("POST {WIDGETS}"), widget("a", size))
            .await;
        assert_eq!(answer.code, code, "{more}: {}", answer.body);
        if code != 201 {
            assert_eq!(answer.body["message"], message, "{more}");
            assert_eq!(
                answer.body["reason"],
                if code == 403 { "Forbidden" } else { "Invalid" }
            );
        }
    }
}

#[tokio::test]
async fn a_policy_is_about_what_it_names() {
    let never = || json!({"validations": [{"expression": "false", "message": "never"}]});
    let only = |constraints: Value| {
        let mut more = never();
        more["matchConstraints"] = constraints;
        more
    };
    let all = about(&["*"], &["*/*"]);
    // constraints, what the binding adds, whether a widget `a` in the namespace `default` is refused
    let cases = [
        (json!({"resourceRules": all}), json!({}), true),
        (
            json!({"resourceRules": about(&["DELETE"], &["widgets"])}),
            json!({}),
            false,
        ),
        (
            json!({"resourceRules": about(&["CREATE"], &["gadgets"])}),
            json!({}),
            false,
        ),
        (
            json!({"resourceRules": all, "excludeResourceRules": about(&["*"], &["widgets"])}),
            json!({}),
            false,
        ),
        (
            json!({"resourceRules": all, "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "other"}}}),
            json!({}),
            false,
        ),
        (
            json!({"resourceRules": all, "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}),
            json!({}),
            true,
        ),
        (
            json!({"resourceRules": all, "objectSelector": {"matchLabels": {"a": "b"}}}),
            json!({}),
            false,
        ),
        (
            json!({"resourceRules": all}),
            json!({"matchResources": {"namespaceSelector": {"matchLabels": {"x": "y"}}}}),
            false,
        ),
        (
            json!({"resourceRules": all}),
            json!({"matchResources": {"resourceRules": about(&["CREATE"], &["widgets"])}}),
            true,
        ),
        (
            json!({"resourceRules": all}),
            json!({"policyName": "another"}),
            false,
        ),
        (
            json!({"resourceRules": [{"operations": ["CREATE"], "apiGroups": ["*"], "apiVersions": ["v1"], "resources": ["widgets"], "resourceNames": ["b"]}]}),
            json!({}),
            false,
        ),
        (
            json!({"resourceRules": [{"operations": ["CREATE"], "apiGroups": ["*"], "apiVersions": ["v1"], "resources": ["widgets"], "scope": "Cluster"}]}),
            json!({}),
            false,
        ),
    ];
    for (constraints, bound, refused) in cases {
        let world = with_policy(only(constraints.clone()), bound).await;
        let answer = world.send(&format!("POST {WIDGETS}"), widget("a", 1)).await;
        assert_eq!(
            answer.code == 422,
            refused,
            "{constraints}: {}",
            answer.body
        );
    }
}

#[tokio::test]
async fn updates_and_deletions_are_held_against_policies_too() {
    let never_smaller = json!({
        "matchConstraints": {"resourceRules": about(&["UPDATE", "DELETE"], &["widgets", "widgets/status"])},
        "validations": [{"expression": "request.operation == 'DELETE' ? oldObject.spec.size < 10 : object.spec.size >= oldObject.spec.size", "message": "no"}],
    });
    let world = with_policy(never_smaller, json!({})).await;
    world.create(WIDGETS, widget("a", 5)).await;
    let size = |size: i64| json!({"spec": {"size": size}});
    world
        .expect(
            &format!("MERGE {WIDGETS}/a"),
            size(4),
            422,
            json!({"message": denial("no")}),
        )
        .await;
    world
        .expect(&format!("MERGE {WIDGETS}/a"), size(12), 200, json!({}))
        .await;
    world
        .expect(
            &format!("DELETE {WIDGETS}/a"),
            Value::Null,
            422,
            json!({"message": denial("no")}),
        )
        .await;
    assert_eq!(world.get(&format!("{WIDGETS}/a")).await["spec"]["size"], 12);
    world
        .expect(
            &format!("DELETE {BINDINGS}/sizes-everywhere"),
            Value::Null,
            200,
            json!({}),
        )
        .await;
    world
        .expect(&format!("DELETE {WIDGETS}/a"), Value::Null, 200, json!({}))
        .await;
}

#[tokio::test]
async fn bindings_say_what_becomes_of_a_refusal() {
    let more =
        json!({"validations": [{"expression": "object.spec.size < 5", "message": "too large"}]});
    let world = with_policy(more, json!({"validationActions": ["Warn", "Audit"]})).await;
    let answer = world.send(&format!("POST {WIDGETS}"), widget("a", 9)).await;
    assert_eq!(answer.code, 201);
    assert_eq!(
        answer.headers["warning"],
        "299 - \"Validation failed for ValidatingAdmissionPolicy 'sizes' with binding 'sizes-everywhere': too large\""
    );
}

#[tokio::test]
async fn policies_have_parameters() {
    let more = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "validations": [{"expression": "object.spec.size <= int(params.data.max)", "messageExpression": "'at most ' + params.data.max"}],
    });
    let limit = |name: &str, max: &str| json!({"metadata": {"name": name, "labels": {"limit": "yes"}}, "data": {"max": max}});
    let cases = [
        (
            json!({"name": "limits", "parameterNotFoundAction": "Deny"}),
            "at most 5",
        ),
        (
            json!({"name": "limits", "namespace": "default", "parameterNotFoundAction": "Deny"}),
            "at most 5",
        ),
        (
            json!({"selector": {"matchLabels": {"limit": "yes"}}, "parameterNotFoundAction": "Deny"}),
            "at most 5",
        ),
        (
            json!({"name": "none", "parameterNotFoundAction": "Deny"}),
            "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction",
        ),
        (
            json!({"name": "none", "parameterNotFoundAction": "Allow"}),
            "",
        ),
        (
            json!({"selector": {"matchLabels": {"limit": "no"}}, "parameterNotFoundAction": "Allow"}),
            "",
        ),
    ];
    for (param_ref, expected) in cases {
        let world = with_policy(more.clone(), json!({"paramRef": param_ref})).await;
        world.create(MAPS, limit("limits", "5")).await;
        let answer = world.send(&format!("POST {WIDGETS}"), widget("a", 9)).await;
        match expected {
            "" => assert_eq!(answer.code, 201, "{param_ref}: {}", answer.body),
            expected => assert_eq!(answer.body["message"], denial(expected), "{param_ref}"),
        }
    }
}

#[tokio::test]
async fn a_policy_that_cannot_be_evaluated_is_refused() {
    let world = World::new().await;
    let post = format!("POST {POLICIES}");
    let variables = |count: usize| {
        (0..count)
            .map(|index| json!({"name": format!("v{index}"), "expression": "1"}))
            .collect::<Vec<_>>()
    };
    let refused = |field: &str, why: &str| json!({"reason": "Invalid", "details": {"causes": [{"field": field, "message": why}]}});
    world
        .expect_all(vec![
            (
                &post,
                policy("p", json!({"validations": [{"expression": "objct.spec.size > 1"}]})),
                422,
                refused("spec.validations[0].expression", "Invalid value: \"objct.spec.size > 1\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'objct' (in container '')\n | objct.spec.size > 1\n | ^"),
            ),
            (
                &post,
                policy("p", json!({"validations": [{"expression": "params.x == 1"}]})),
                422,
                refused("spec.validations[0].expression", "Invalid value: \"params.x == 1\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' (in container '')\n | params.x == 1\n | ^"),
            ),
            (
                &post,
                policy("p", json!({"validations": [{"expression": "request.nme == 'a'"}]})),
                422,
                refused("spec.validations[0].expression", "Invalid value: \"request.nme == 'a'\": compilation failed: ERROR: <input>:1:8: undefined field 'nme'\n | request.nme == 'a'\n | .......^"),
            ),
            (
                &post,
                policy("p", json!({"validations": [{"expression": "1 + 1"}]})),
                422,
                refused("spec.validations[0].expression", "Invalid value: \"1 + 1\": must evaluate to bool"),
            ),
            (
                &post,
                policy("p", json!({"variables": variables(257), "validations": [{"expression": "true"}]})),
                422,
                refused("spec.variables", "Too many: 257: must have at most 256 items"),
            ),
            (
                &post,
                policy("p", json!({"validations": vec![json!({"expression": "true"}); 1001]})),
                422,
                refused("spec.validations", "Too many: 1001: must have at most 1000 items"),
            ),
            (
                &post,
                policy("p", json!({"variables": variables(200), "validations": [{"expression": "[variables] == []"}]})),
                422,
                refused("spec.validations[0].expression", "Invalid value: \"[variables] == []\": compilation failed: ERROR: <input>:1:2: 'variables' is no value by itself; name one of them: variables.<name>\n | [variables] == []\n | .^"),
            ),
            (&post, policy("p", json!({"validations": [{"expression": "true"}]})), 201, json!({"spec": {"failurePolicy": "Fail"}})),
            (&format!("GET {POLICIES}/p"), Value::Null, 200, json!({"status": {"observedGeneration": 1}})),
        ])
        .await;
}
