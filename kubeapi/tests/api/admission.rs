//! Admission policies and webhooks: who else is asked about a write.

use std::sync::Arc;

use async_trait::async_trait;
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use kubeapi::{Api, Identity, WebhookCall, WebhookTransport, store::MemoryStore};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::world::{MAPS, WIDGETS, World, named, registry, widget};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";

/// Rules that are about these operations on these resources.
fn about(operations: &[&str], resources: &[&str]) -> Value {
    json!([{"operations": operations, "apiGroups": ["*"], "apiVersions": ["*"], "resources": resources}])
}

fn policy(name: &str, more: Value) -> Value {
    let mut spec = json!({"matchConstraints": {"resourceRules": about(&["CREATE", "UPDATE"], &["widgets"])}});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"metadata": {"name": name}, "spec": spec})
}

fn binding(policy: &str, more: Value) -> Value {
    let mut spec = json!({"policyName": policy, "validationActions": ["Deny"]});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"metadata": {"name": format!("{policy}-everywhere")}, "spec": spec})
}

/// A world with one policy in force.
async fn with_policy(more: Value, bound: Value) -> World {
    let world = World::new().await;
    world.create(POLICIES, policy("sizes", more)).await;
    world.create(BINDINGS, binding("sizes", bound)).await;
    world
}

fn denied(what: &str) -> String {
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
            denied("failed expression: object.spec.size < 5"),
        ),
        (json!({"validations": [{"expression": "object.spec.size < 5"}]}), 4, 201, String::new()),
        (
            json!({"validations": [{"expression": "object.spec.size < 5", "message": "too large"}]}),
            9,
            422,
            denied("too large"),
        ),
        (
            json!({"validations": [{"expression": "object.spec.size < 5", "messageExpression": "'%d is too large'.format([object.spec.size])"}]}),
            9,
            422,
            denied("9 is too large"),
        ),
        (
            json!({"validations": [{"expression": "false", "reason": "Forbidden", "message": "no"}]}),
            1,
            403,
            denied("no"),
        ),
        (
            json!({"validations": [{"expression": "object.spec.none == 1"}]}),
            1,
            422,
            denied("expression 'object.spec.none == 1' resulted in error: no such key: none"),
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
            denied("twice is 18"),
        ),
        (
            json!({"validations": [{"expression": "request.operation == 'UPDATE' && request.userInfo.username == 'system:admin'"}]}),
            1,
            422,
            denied(
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
            denied("match condition \"broken\" fails to evaluate: no such key: none"),
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
            denied("may not"),
        ),
    ];
    for (more, size, code, message) in cases {
        let world = with_policy(more.clone(), json!({})).await;
        let answer = world.send(&format!("POST {WIDGETS}"), widget("a", size)).await;
        assert_eq!(answer.code, code, "{more}: {}", answer.body);
        if code != 201 {
            assert_eq!(answer.body["message"], message, "{more}");
            assert_eq!(answer.body["reason"], if code == 403 { "Forbidden" } else { "Invalid" });
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
        (json!({"resourceRules": about(&["DELETE"], &["widgets"])}), json!({}), false),
        (json!({"resourceRules": about(&["CREATE"], &["gadgets"])}), json!({}), false),
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
        (json!({"resourceRules": all, "objectSelector": {"matchLabels": {"a": "b"}}}), json!({}), false),
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
        (json!({"resourceRules": all}), json!({"policyName": "another"}), false),
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
        assert_eq!(answer.code == 422, refused, "{constraints}: {}", answer.body);
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
    world.expect(&format!("MERGE {WIDGETS}/a"), size(4), 422, json!({"message": denied("no")})).await;
    world.expect(&format!("MERGE {WIDGETS}/a"), size(12), 200, json!({})).await;
    world.expect(&format!("DELETE {WIDGETS}/a"), Value::Null, 422, json!({"message": denied("no")})).await;
    assert_eq!(world.get(&format!("{WIDGETS}/a")).await["spec"]["size"], 12);
    world.expect(&format!("DELETE {BINDINGS}/sizes-everywhere"), Value::Null, 200, json!({})).await;
    world.expect(&format!("DELETE {WIDGETS}/a"), Value::Null, 200, json!({})).await;
}

#[tokio::test]
async fn bindings_say_what_becomes_of_a_refusal() {
    let more = json!({"validations": [{"expression": "object.spec.size < 5", "message": "too large"}]});
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
        (json!({"name": "limits", "parameterNotFoundAction": "Deny"}), "at most 5"),
        (json!({"name": "limits", "namespace": "default", "parameterNotFoundAction": "Deny"}), "at most 5"),
        (
            json!({"selector": {"matchLabels": {"limit": "yes"}}, "parameterNotFoundAction": "Deny"}),
            "at most 5",
        ),
        (
            json!({"name": "none", "parameterNotFoundAction": "Deny"}),
            "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction",
        ),
        (json!({"name": "none", "parameterNotFoundAction": "Allow"}), ""),
        (json!({"selector": {"matchLabels": {"limit": "no"}}, "parameterNotFoundAction": "Allow"}), ""),
    ];
    for (param_ref, expected) in cases {
        let world = with_policy(more.clone(), json!({"paramRef": param_ref})).await;
        world.create(MAPS, limit("limits", "5")).await;
        let answer = world.send(&format!("POST {WIDGETS}"), widget("a", 9)).await;
        match expected {
            "" => assert_eq!(answer.code, 201, "{param_ref}: {}", answer.body),
            expected => assert_eq!(answer.body["message"], denied(expected), "{param_ref}"),
        }
    }
}

#[tokio::test]
async fn a_policy_that_cannot_be_evaluated_is_refused() {
    let world = World::new().await;
    let post = format!("POST {POLICIES}");
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
            (&post, policy("p", json!({"validations": [{"expression": "true"}]})), 201, json!({"spec": {"failurePolicy": "Fail"}})),
            (&format!("GET {POLICIES}/p"), Value::Null, 200, json!({"status": {"observedGeneration": 1}})),
        ])
        .await;
}

/// Answers as a test says, and notes what it was asked.
#[derive(Debug, Default)]
struct Fake {
    asked: Mutex<Vec<(String, Value)>>,
    answers: Mutex<Vec<(&'static str, Result<Value, String>)>>,
}

#[async_trait]
impl WebhookTransport for Fake {
    async fn call(&self, call: WebhookCall) -> Result<Bytes, String> {
        let review: Value = serde_json::from_slice(&call.body).unwrap();
        let host = call.url.host_str().unwrap().to_owned();
        let uid = review["request"]["uid"].clone();
        self.asked.lock().push((host.clone(), review["request"].clone()));
        let answer =
            self.answers.lock().iter().find(|(own, _)| *own == host).map(|(_, answer)| answer.clone());
        let mut response = answer.unwrap_or_else(|| Ok(json!({"allowed": true})))?;
        if response.get("uid").is_none() {
            response["uid"] = uid;
        }
        Ok(Bytes::from(
            json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response})
                .to_string(),
        ))
    }
}

impl Fake {
    fn says(&self, host: &'static str, answer: Result<Value, String>) {
        self.answers.lock().insert(0, (host, answer));
    }

    fn hosts(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock()).into_iter().map(|(host, _)| host).collect()
    }
}

async fn with_webhooks() -> (World, Arc<Fake>) {
    let fake = Arc::new(Fake::default());
    let webhooks: Arc<dyn WebhookTransport> = Arc::<Fake>::clone(&fake);
    let api = Api::builder(MemoryStore::new()).registry(registry()).webhooks(webhooks).build();
    let world = World::around(api);
    for name in ["default", "other"] {
        world.create("/api/v1/namespaces", named(name)).await;
    }
    (world, fake)
}

fn webhooks(name: &str, list: &[Value]) -> Value {
    let list = list.iter().map(|more| {
        let mut webhook = json!({
            "sideEffects": "None", "admissionReviewVersions": ["v1"], "rules": about(&["*"], &["widgets"]),
        });
        webhook.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let host = webhook["name"].as_str().unwrap().to_owned();
        if webhook.get("clientConfig").is_none() {
            webhook["clientConfig"] = json!({"url": format!("https://{host}/check")});
        }
        webhook
    });
    json!({"metadata": {"name": name}, "webhooks": list.collect::<Vec<_>>()})
}

#[tokio::test]
async fn validating_webhooks_are_asked() {
    let (world, fake) = with_webhooks().await;
    let hook = |more: Value| {
        let mut hook = json!({"name": "a.example.com"});
        hook.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        webhooks("check", &[hook])
    };
    world.create(VALIDATING, hook(json!({}))).await;
    let answer = world.create(WIDGETS, widget("first", 1)).await;
    let (_, request) = fake.asked.lock().pop().unwrap();
    assert_eq!(request["operation"], "CREATE");
    assert_eq!(request["kind"], json!({"group": "example.com", "version": "v1", "kind": "Widget"}));
    assert_eq!(request["userInfo"]["username"], "system:admin");
    assert_eq!(request["object"]["metadata"]["uid"], answer["metadata"]["uid"]);
    assert_eq!(request["oldObject"], Value::Null);
    // configuration, answer of the webhook, code and message
    let call =
        |why: &str| format!("Internal error occurred: failed calling webhook \"a.example.com\": {why}");
    let cases = [
        (json!({}), Ok(json!({"allowed": false})), 400, "admission webhook \"a.example.com\" denied the request without explanation".to_owned()),
        (json!({}), Ok(json!({"allowed": false, "status": {"message": "no", "code": 403, "reason": "Forbidden"}})), 403, "admission webhook \"a.example.com\" denied the request: no".to_owned()),
        (json!({}), Ok(json!({"allowed": true, "uid": "x"})), 500, String::new()),
        (json!({}), Ok(json!({"allowed": true, "patch": "W10=", "patchType": "JSONPatch"})), 500, call("received invalid webhook response: validating webhook may not return response.patch")),
        (json!({}), Err("Post \"https://a.example.com/check?timeout=10s\": context deadline exceeded".to_owned()), 500,
            call("failed to call webhook: Post \"https://a.example.com/check?timeout=10s\": context deadline exceeded")),
        (json!({"failurePolicy": "Ignore"}), Err("gone".to_owned()), 201, String::new()),
        (json!({"matchConditions": [{"name": "large", "expression": "request.operation != 'DELETE' && object.spec.size > 5"}]}), Ok(json!({"allowed": false})), 201, String::new()),
        (json!({"matchConditions": [{"name": "broken", "expression": "object.spec.none > 5"}]}), Ok(json!({"allowed": true})), 403,
            "widgets.example.com \"a\" is forbidden: match condition \"broken\" fails to evaluate: no such key: none".to_owned()),
        (json!({"rules": about(&["DELETE"], &["widgets"])}), Ok(json!({"allowed": false})), 201, String::new()),
        (json!({"namespaceSelector": {"matchLabels": {"x": "y"}}}), Ok(json!({"allowed": false})), 201, String::new()),
        (json!({"clientConfig": {"service": {"namespace": "default", "name": "hook"}}}), Ok(json!({"allowed": true})), 500, call("failed to call webhook: service \"hook\" not found")),
    ];
    for (more, said, code, message) in cases {
        world.expect(&format!("DELETE {VALIDATING}/check"), Value::Null, 200, json!({})).await;
        world.create(VALIDATING, hook(more.clone())).await;
        fake.says("a.example.com", said);
        let answer = world.send(&format!("POST {WIDGETS}"), widget("a", 1)).await;
        assert_eq!(answer.code, code, "{more}: {}", answer.body);
        if code == 201 {
            fake.says("a.example.com", Ok(json!({"allowed": true})));
            world.expect(&format!("DELETE {WIDGETS}/a"), Value::Null, 200, json!({})).await;
        } else if !message.is_empty() {
            assert_eq!(answer.body["message"], message, "{more}");
        }
    }
    // what webhooks are made of is not theirs to refuse
    world.expect(&format!("DELETE {VALIDATING}/check"), Value::Null, 200, json!({})).await;
    fake.says("a.example.com", Ok(json!({"allowed": false})));
    world.create(VALIDATING, hook(json!({"rules": about(&["*"], &["*/*"])}))).await;
    world.expect(&format!("POST {MAPS}"), named("x"), 400, json!({})).await;
    world.expect(&format!("DELETE {VALIDATING}/check"), Value::Null, 200, json!({})).await;
    world.create(MAPS, named("x")).await;
}

#[tokio::test]
async fn mutating_webhooks_change_what_is_stored() {
    let (world, fake) = with_webhooks().await;
    let patch = |patch: Value| {
        Ok(
            json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(patch.to_string()), "warnings": ["changed"]}),
        )
    };
    fake.says("a.example.com", patch(json!([{"op": "add", "path": "/spec/color", "value": "red"}])));
    fake.says("b.example.com", patch(json!([{"op": "replace", "path": "/spec/size", "value": 7}, {"op": "add", "path": "/spec/unknown", "value": 1}])));
    let list = [
        json!({"name": "a.example.com", "reinvocationPolicy": "IfNeeded"}),
        json!({"name": "b.example.com"}),
    ];
    world.create(MUTATING, webhooks("change", &list)).await;
    // what the webhooks made of it is what rules are held against
    let answer = world.send(&format!("POST {WIDGETS}"), widget("a", 1)).await;
    assert_eq!(answer.code, 201, "{}", answer.body);
    assert_eq!(answer.body["spec"], json!({"size": 7, "color": "red"}));
    assert_eq!(answer.headers["warning"], "299 - \"changed\"");
    // the first is asked once more about what the second did
    assert_eq!(fake.hosts(), ["a.example.com", "b.example.com", "a.example.com"]);
    let answer = world.send(&format!("MERGE {WIDGETS}/a"), json!({"spec": {"size": 3}})).await;
    assert_eq!((answer.code.as_u16(), &answer.body["spec"]["size"]), (200, &json!(7)));
    fake.says("b.example.com", patch(json!([{"op": "replace", "path": "/spec/size", "value": 0}])));
    let why = "Widget.example.com \"c\" is invalid: spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1";
    world.expect(&format!("POST {WIDGETS}"), widget("c", 1), 422, json!({"message": why})).await;
    fake.says("b.example.com", patch(json!([{"op": "remove", "path": "/nothing"}])));
    world.expect(&format!("POST {WIDGETS}"), widget("c", 1), 500, json!({"reason": "InternalError"})).await;
    // names are not theirs
    fake.says("b.example.com", patch(json!([{"op": "replace", "path": "/metadata/name", "value": "z"}])));
    world.expect(&format!("POST {WIDGETS}"), widget("c", 1), 201, json!({"metadata": {"name": "c"}})).await;
}

#[tokio::test]
async fn a_dry_run_asks_only_webhooks_without_side_effects() {
    let (world, fake) = with_webhooks().await;
    // stored before the rule that there be none
    world
        .create(
            VALIDATING,
            webhooks("check", &[json!({"name": "a.example.com", "sideEffects": "NoneOnDryRun"})]),
        )
        .await;
    world.expect(&format!("POST {WIDGETS}?dryRun=All"), widget("a", 1), 201, json!({})).await;
    assert_eq!(fake.asked.lock().pop().unwrap().1["dryRun"], true);
    let why =
        "webhooks[0].sideEffects: Unsupported value: \"Some\": supported values: \"None\", \"NoneOnDryRun\"";
    let answer = world
        .send(
            &format!("POST {VALIDATING}"),
            webhooks("other", &[json!({"name": "b.example.com", "sideEffects": "Some"})]),
        )
        .await;
    assert!(answer.body["message"].as_str().unwrap().contains(why), "{}", answer.body);
}

/// Whoever sends what takes long to be checked holds up nobody else.
#[tokio::test]
async fn long_checks_hold_up_nobody() {
    let world = World::new().await;
    let names: Vec<_> = (0..40).map(|index| format!("f{index}")).collect();
    let properties: serde_json::Map<_, _> = names
        .iter()
        .map(|name| (name.clone(), json!({"type": "string", "pattern": "^[a-z]{1,500}$"})))
        .collect();
    let rule = json!({"rule": "self.list.all(a, self.list.all(b, self.list.all(c, a + b + c >= 0)))"});
    let mut spec = json!({"type": "object", "properties": properties, "x-kubernetes-validations": [rule]});
    spec["properties"]["list"] = json!({"type": "array", "items": {"type": "integer"}});
    let definition = json!({
        "metadata": {"name": "slows.example.org"},
        "spec": {
            "group": "example.org", "scope": "Namespaced", "names": {"kind": "Slow", "plural": "slows"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": spec}}}}],
        },
    });
    world.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
    let text = "a".repeat(20_000);
    let mut spec: serde_json::Map<_, _> = names.iter().map(|name| (name.clone(), json!(text))).collect();
    spec.insert("list".into(), (0..1000).collect());
    let slow = json!({"metadata": {"name": "a"}, "spec": spec});
    let attacker = world.called_by(Some(Identity::master()));
    // one thread: whatever is done on it holds up the other
    let attack = tokio::spawn(async move {
        attacker.send("POST /apis/example.org/v1/namespaces/default/slows", slow).await.code.as_u16()
    });
    let mut answered = 0;
    while !attack.is_finished() {
        world.get("/api/v1/namespaces/default").await;
        answered += 1;
        tokio::task::yield_now().await;
    }
    assert_eq!(attack.await.unwrap(), 422);
    assert!(answered > 10, "{answered}");
}
