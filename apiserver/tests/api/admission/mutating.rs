//! `MutatingAdmissionPolicy`.

use serde_json::{Value, json};

use super::about;
use crate::world::{MAPS, PODS, World, lacks, pod};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings";

fn apply(expression: &str) -> Value {
    json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}})
}

fn patch(expression: &str) -> Value {
    json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
}

/// A policy on this resource with one mutation, changed as `more` says.
fn policy(name: &str, resource: &str, mutation: &Value, more: &Value) -> Value {
    let mut spec = json!({
        "matchConstraints": {"resourceRules": about(&["CREATE", "UPDATE"], &[resource])},
        "mutations": [mutation], "reinvocationPolicy": "Never",
    });
    spec.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    json!({"metadata": {"name": name}, "spec": spec})
}

async fn bind(world: &World, policy: Value, more: Value) {
    let name = policy["metadata"]["name"].as_str().unwrap().to_owned();
    let mut spec = json!({"policyName": name});
    spec.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    world.create(POLICIES, policy).await;
    let binding = json!({"metadata": {"name": format!("{name}-everywhere")}, "spec": spec});
    world.create(BINDINGS, binding).await;
}

#[tokio::test]
async fn policies_change_objects() {
    let data = "object.?data.orValue({})";
    // the mutation, more of the policy, and the resulting data or labels of a ConfigMap
    let rows = [
        (
            apply("Object{data: {'b': '2'}}"),
            json!({}),
            json!({"data": {"a": "1", "b": "2"}}),
        ),
        (
            apply("Object{metadata: Object.metadata{labels: {'team': request.operation}}}"),
            json!({}),
            json!({"metadata": {"labels": {"team": "CREATE"}}}),
        ),
        (
            apply(
                "Object{?data: has(object.data) ? optional.of({'old': object.data.a}) : optional.none()}",
            ),
            json!({}),
            json!({"data": {"a": "1", "old": "1"}}),
        ),
        (
            patch(
                "[JSONPatch{op: 'replace', path: '/data/a', value: '3'}, JSONPatch{op: 'add', path: '/metadata/labels', value: {'x': 'y'}}]",
            ),
            json!({}),
            json!({"data": {"a": "3"}, "metadata": {"labels": {"x": "y"}}}),
        ),
        (
            patch("[JSONPatch{op: 'move', from: '/data/a', path: '/data/c'}]"),
            json!({}),
            json!({"data": {"c": "1", "a": null}}),
        ),
        // a failed test is no error
        (
            patch(
                "[JSONPatch{op: 'test', path: '/data/a', value: '9'}, JSONPatch{op: 'remove', path: '/data/a'}]",
            ),
            json!({}),
            json!({"data": {"a": "1"}}),
        ),
        (patch("[]"), json!({}), json!({"data": {"a": "1"}})),
        (
            patch(
                "[JSONPatch{op: 'add', path: '/metadata/labels', value: {}}, \
                 JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('k8s.io/x'), value: 'y'}, \
                 JSONPatch{op: 'add', path: '/data/n', value: jsonpatch.escapeKey('~a/b')}]",
            ),
            json!({}),
            json!({"data": {"a": "1", "n": "~0a~1b"}, "metadata": {"labels": {"k8s.io/x": "y"}}}),
        ),
        (
            apply("Object{data: {'n': string(size(variables.all))}}"),
            json!({"variables": [{"name": "all", "expression": data}]}),
            json!({"data": {"n": "1"}}),
        ),
        (
            apply("Object{data: {'b': '2'}}"),
            json!({"matchConditions": [{"name": "no", "expression": "object.metadata.name != 'm'"}]}),
            json!({"data": {"b": null}}),
        ),
        (
            apply("Object{data: {'b': object.data.none}}"),
            json!({"failurePolicy": "Ignore"}),
            json!({"data": {"a": "1", "b": null}}),
        ),
    ];
    for (mutation, more, expected) in rows {
        let world = World::new().await;
        bind(
            &world,
            policy("p", "configmaps", &mutation, &more),
            json!({}),
        )
        .await;
        let map = json!({"metadata": {"name": "m"}, "data": {"a": "1"}});
        let created = world.create(MAPS, map).await;
        assert_eq!(
            lacks(&created, &expected, ""),
            None,
            "{mutation}: {created}"
        );
    }
}

#[tokio::test]
async fn lists_of_pods_are_merged_by_their_keys() {
    let world = World::new().await;
    let sidecar = "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'c', image: 'other:1'}, \
                   Object.spec.containers{name: 'side', image: 'proxy:1'}]}}";
    bind(
        &world,
        policy("p", "pods", &apply(sidecar), &json!({})),
        json!({}),
    )
    .await;
    let pod = world.create(PODS, pod("a")).await;
    let containers: Vec<_> = pod["spec"]["containers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| json!([one["name"], one["image"], one["imagePullPolicy"]]))
        .collect();
    assert_eq!(
        containers,
        [
            json!(["c", "other:1", "IfNotPresent"]),
            json!(["side", "proxy:1", "IfNotPresent"])
        ]
    );
}

#[tokio::test]
async fn policies_have_parameters() {
    let world = World::new().await;
    let settings = json!({"metadata": {"name": "settings"}, "data": {"team": "blue"}});
    world.create(MAPS, settings).await;
    let mutation = apply("Object{metadata: Object.metadata{labels: {'team': params.data.team}}}");
    let more = json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}});
    let reference = json!({"paramRef": {"name": "settings", "parameterNotFoundAction": "Deny"}});
    bind(&world, policy("p", "pods", &mutation, &more), reference).await;
    let created = world.create(PODS, pod("a")).await;
    assert_eq!(created["metadata"]["labels"]["team"], "blue");
    let other = PODS.replace("/default/", "/other/");
    let why = "policy 'p' with binding 'p-everywhere' denied request: failed to configure binding: no params found for policy \
               binding with `Deny` parameterNotFoundAction";
    let refused =
        json!({"message": why, "reason": "Forbidden", "details": {"causes": [{"message": why}]}});
    world
        .expect(&format!("POST {other}"), pod("a"), 403, refused)
        .await;
}

#[tokio::test]
async fn earlier_policies_are_invoked_again_if_they_want() {
    let count = "Object{data: {'seen': string(size(object.data))}}";
    for (again, seen) in [("Never", "1"), ("IfNeeded", "3")] {
        let world = World::new().await;
        let more = json!({"reinvocationPolicy": again});
        bind(
            &world,
            policy("a", "configmaps", &apply(count), &more),
            json!({}),
        )
        .await;
        let later = apply("Object{data: {'later': 'x'}}");
        bind(
            &world,
            policy("b", "configmaps", &later, &json!({})),
            json!({}),
        )
        .await;
        let map = json!({"metadata": {"name": "m"}, "data": {"a": "1"}});
        let created = world.create(MAPS, map).await;
        assert_eq!(
            created["data"],
            json!({"a": "1", "seen": seen, "later": "x"}),
            "{again}"
        );
    }
}

#[tokio::test]
async fn policies_that_cannot_be_applied_refuse() {
    let rows = [
        (
            apply("Object{data: {'b': object.data.none}}"),
            "no such key: none",
        ),
        (
            apply("Object{spec: Object.spec{size: 1}}"),
            "error applying patch: failed to convert patch object to typed object: .spec: field not declared in schema",
        ),
        (
            apply("Object{metadata: Object.data{name: 'x'}}"),
            "type mismatch: unexpected type name \"Object.data\", expected \"Object.metadata\", which matches field name path from root Object type",
        ),
        (
            patch("[JSONPatch{op: 'remove', path: '/data/none'}]"),
            "JSON Patch: remove operation does not apply: doc is missing path: \"/data/none\": missing value",
        ),
    ];
    for (mutation, why) in rows {
        let world = World::new().await;
        bind(
            &world,
            policy("p", "configmaps", &mutation, &json!({})),
            json!({}),
        )
        .await;
        let message = format!("policy 'p' with binding 'p-everywhere' denied request: {why}");
        let map = json!({"metadata": {"name": "m"}, "data": {"a": "1"}});
        world
            .expect(
                &format!("POST {MAPS}"),
                map,
                403,
                json!({"message": message, "reason": "Invalid"}),
            )
            .await;
    }
    let world = World::new().await;
    let atomic = apply(
        "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'c', args: ['x']}]}}",
    );
    bind(&world, policy("p", "pods", &atomic, &json!({})), json!({})).await;
    let why = "policy 'p' with binding 'p-everywhere' denied request: error applying patch: invalid ApplyConfiguration: may not \
               mutate atomic arrays, maps or structs: .spec.containers[0].args";
    world
        .expect(
            &format!("POST {PODS}"),
            pod("a"),
            403,
            json!({"message": why}),
        )
        .await;
}

#[tokio::test]
async fn invalid_policies_are_refused() {
    let world = World::new().await;
    let rows = [
        (
            json!({"mutations": [apply("1")]}),
            "spec.mutations[0].applyConfiguration.expression: Invalid value: \"1\": must evaluate to Object",
        ),
        (
            json!({"mutations": [patch("[1]")]}),
            "spec.mutations[0].jsonPatch.expression: Invalid value: \"[1]\": must evaluate to list(JSONPatch)",
        ),
        (
            json!({"mutations": [patch("[JSONPatch{op: 1}]")]}),
            "spec.mutations[0].jsonPatch.expression: Invalid value: \"[JSONPatch{op: 1}]\": compilation failed: ERROR: <input>:1:16: \
             expected type of field 'op' is 'string' but provided type is 'int'\n | [JSONPatch{op: 1}]\n | ...............^",
        ),
        (
            json!({"mutations": [{"patchType": "JSONPatch", "applyConfiguration": {"expression": "Object{}"}}]}),
            "[spec.mutations[0].applyConfiguration: Invalid value: \"{applyConfiguration}\": must not be specified when patchType is \
             JSONPatch, spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch]",
        ),
        (
            json!({"mutations": [apply("Object{}")], "matchConditions": [{"name": "m", "expression": "Object{} == null"}]}),
            "spec.matchConditions[0].expression: Invalid value: \"Object{} == null\": compilation failed: ERROR: <input>:1:7: \
             undeclared reference to 'Object' (in container '')\n | Object{} == null\n | ......^",
        ),
        (
            json!({"mutations": [apply("Object{}")], "matchConstraints": {"resourceRules": about(&["DELETE"], &["pods"])}}),
            "spec.matchConstraints.resourceRules.operations: Unsupported value: \"DELETE\": supported values: \"*\", \"CONNECT\", \
             \"CREATE\", \"UPDATE\"",
        ),
    ];
    for (more, why) in rows {
        let message =
            format!("MutatingAdmissionPolicy.admissionregistration.k8s.io \"p\" is invalid: {why}");
        let policy = policy("p", "pods", &apply("Object{}"), &more);
        world
            .expect(
                &format!("POST {POLICIES}"),
                policy,
                422,
                json!({"message": message}),
            )
            .await;
    }
}
