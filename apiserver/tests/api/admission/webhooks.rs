//! Admission webhooks, answered by the test.

use std::sync::Arc;

use apiserver::{WebhookCall, WebhookTransport};
use async_trait::async_trait;
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use objectstore::MemoryStore;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::about;
use crate::world::{MAPS, WIDGETS, World, named_map, registry, widget};

const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";

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
        self.asked
            .lock()
            .push((host.clone(), review["request"].clone()));
        let answer = self
            .answers
            .lock()
            .iter()
            .find(|(own, _)| *own == host)
            .map(|(_, answer)| answer.clone());
        let mut response = answer.unwrap_or_else(|| Ok(json!({"allowed": true})))?;
        if response.get("uid").is_none() {
            response["uid"] = uid;
        }
        Ok(Bytes::from(
            json!({"kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": response})
                .to_string(),
        ))
    }
}

impl Fake {
    fn says(&self, host: &'static str, answer: Result<Value, String>) {
        self.answers.lock().insert(0, (host, answer));
    }

    fn hosts(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock())
            .into_iter()
            .map(|(host, _)| host)
            .collect()
    }
}

async fn with_webhooks() -> (World, Arc<Fake>) {
    let fake = Arc::new(Fake::default());
    let webhooks: Arc<dyn WebhookTransport> = Arc::<Fake>::clone(&fake);
    let api = apiserver::builder(MemoryStore::new())
        .registry(registry())
        .webhooks(webhooks)
        .build();
    let world = World::around(api);
    for name in ["default", "other"] {
        world.create("/api/v1/namespaces", named_map(name)).await;
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
        hook.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        webhooks("check", &[hook])
    };
    world.create(VALIDATING, hook(json!({}))).await;
    let answer = world.create(WIDGETS, widget("first", 1)).await;
    let (_, request) = fake.asked.lock().pop().unwrap();
    assert_eq!(request["operation"], "CREATE");
    assert_eq!(
        request["kind"],
        json!({"group": "example.com", "version": "v1", "kind": "Widget"})
    );
    assert_eq!(request["userInfo"]["username"], "system:admin");
    assert_eq!(
        request["object"]["metadata"]["uid"],
        answer["metadata"]["uid"]
    );
    assert_eq!(request["oldObject"], Value::Null);
    // configuration, answer of the webhook, code and message
    let call = |why: &str| {
        format!("Internal error occurred: failed calling webhook \"a.example.com\": {why}")
    };
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
        (json!({"admissionReviewVersions": ["v2", "v1beta1", "v1"]}), Ok(json!({"allowed": true, "uid": "not checked in v1beta1"})), 201, String::new()),
        (json!({"rules": about(&["DELETE"], &["widgets"])}), Ok(json!({"allowed": false})), 201, String::new()),
        (json!({"namespaceSelector": {"matchLabels": {"x": "y"}}}), Ok(json!({"allowed": false})), 201, String::new()),
        (json!({"clientConfig": {"service": {"namespace": "default", "name": "hook"}}}), Ok(json!({"allowed": true})), 500, call("failed to call webhook: service \"hook\" not found")),
    ];
    for (more, said, code, message) in cases {
        world
            .expect(
                &format!("DELETE {VALIDATING}/check"),
                Value::Null,
                200,
                json!({}),
            )
            .await;
        world.create(VALIDATING, hook(more.clone())).await;
        fake.says("a.example.com", said);
        let answer = world.send(&format!("POST {WIDGETS}"), widget("a", 1)).await;
        assert_eq!(answer.code, code, "{more}: {}", answer.body);
        if code == 201 {
            fake.says("a.example.com", Ok(json!({"allowed": true})));
            world
                .expect(&format!("DELETE {WIDGETS}/a"), Value::Null, 200, json!({}))
                .await;
        } else if !message.is_empty() {
            assert_eq!(answer.body["message"], message, "{more}");
        }
    }
    // what webhooks are made of is not theirs to refuse
    world
        .expect(
            &format!("DELETE {VALIDATING}/check"),
            Value::Null,
            200,
            json!({}),
        )
        .await;
    fake.says("a.example.com", Ok(json!({"allowed": false})));
    world
        .create(VALIDATING, hook(json!({"rules": about(&["*"], &["*/*"])})))
        .await;
    world
        .expect(&format!("POST {MAPS}"), named_map("x"), 400, json!({}))
        .await;
    world
        .expect(
            &format!("DELETE {VALIDATING}/check"),
            Value::Null,
            200,
            json!({}),
        )
        .await;
    world.create(MAPS, named_map("x")).await;
}

#[tokio::test]
async fn reviews_of_v1beta1_need_no_type_of_the_patch() {
    let (world, fake) = with_webhooks().await;
    let patch = json!([{"op": "add", "path": "/spec/color", "value": "red"}]);
    let answer = json!({"allowed": true, "patch": STANDARD.encode(patch.to_string())});
    fake.says("a.example.com", Ok(answer));
    let hook = json!({"name": "a.example.com", "admissionReviewVersions": ["v1beta1"]});
    world.create(MUTATING, webhooks("change", &[hook])).await;
    let created = world.create(WIDGETS, widget("a", 1)).await;
    assert_eq!(created["spec"]["color"], "red");
}

#[tokio::test]
async fn mutating_webhooks_change_what_is_stored() {
    let (world, fake) = with_webhooks().await;
    let patch = |patch: Value| {
        Ok(
            json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(patch.to_string()), "warnings": ["changed"]}),
        )
    };
    fake.says(
        "a.example.com",
        patch(json!([{"op": "add", "path": "/spec/color", "value": "red"}])),
    );
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
    assert_eq!(
        fake.hosts(),
        ["a.example.com", "b.example.com", "a.example.com"]
    );
    let answer = world
        .send(&format!("MERGE {WIDGETS}/a"), json!({"spec": {"size": 3}}))
        .await;
    assert_eq!(
        (answer.code.as_u16(), &answer.body["spec"]["size"]),
        (200, &json!(7))
    );
    fake.says(
        "b.example.com",
        patch(json!([{"op": "replace", "path": "/spec/size", "value": 0}])),
    );
    let why = "Widget.example.com \"c\" is invalid: spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1";
    world
        .expect(
            &format!("POST {WIDGETS}"),
            widget("c", 1),
            422,
            json!({"message": why}),
        )
        .await;
    fake.says(
        "b.example.com",
        patch(json!([{"op": "remove", "path": "/nothing"}])),
    );
    world
        .expect(
            &format!("POST {WIDGETS}"),
            widget("c", 1),
            500,
            json!({"reason": "InternalError"}),
        )
        .await;
    // what is small to send makes nothing large or deep
    let wide =
        (0..19).map(|at| json!({"op": "copy", "from": "/spec", "path": format!("/spec/copy{at}")}));
    let large = json!({"op": "add", "path": "/spec/unknown", "value": "x".repeat(1000)});
    let nested = (0..100).fold(json!({}), |inner, _| json!({"a": inner}));
    let deep = (0..10).map(|level| {
        json!({"op": "copy", "from": "/spec/unknown", "path": format!("/spec/unknown{}", "/a".repeat(100 * (level + 1) + 1))})
    });
    let deep = [json!({"op": "add", "path": "/spec/unknown", "value": nested})]
        .into_iter()
        .chain(deep);
    for (operations, why) in [
        (
            [large].into_iter().chain(wide).collect::<Value>(),
            "would carry more than",
        ),
        (deep.collect(), "levels deep"),
    ] {
        fake.says("b.example.com", patch(operations));
        let answer = world.send(&format!("POST {WIDGETS}"), widget("c", 1)).await;
        assert_eq!(answer.code, 500, "{}", answer.body);
        assert!(
            answer.body["message"].as_str().unwrap().contains(why),
            "{}",
            answer.body
        );
    }
    // names are not theirs
    fake.says(
        "b.example.com",
        patch(json!([{"op": "replace", "path": "/metadata/name", "value": "z"}])),
    );
    world
        .expect(
            &format!("POST {WIDGETS}"),
            widget("c", 1),
            201,
            json!({"metadata": {"name": "c"}}),
        )
        .await;
}

#[tokio::test]
async fn a_dry_run_asks_only_webhooks_without_side_effects() {
    let (world, fake) = with_webhooks().await;
    // stored before the rule that there be none
    world
        .create(
            VALIDATING,
            webhooks(
                "check",
                &[json!({"name": "a.example.com", "sideEffects": "NoneOnDryRun"})],
            ),
        )
        .await;
    world
        .expect(
            &format!("POST {WIDGETS}?dryRun=All"),
            widget("a", 1),
            201,
            json!({}),
        )
        .await;
    assert_eq!(fake.asked.lock().pop().unwrap().1["dryRun"], true);
    let why = "webhooks[0].sideEffects: Unsupported value: \"Some\": supported values: \"None\", \"NoneOnDryRun\"";
    let answer = world
        .send(
            &format!("POST {VALIDATING}"),
            webhooks(
                "other",
                &[json!({"name": "b.example.com", "sideEffects": "Some"})],
            ),
        )
        .await;
    assert!(
        answer.body["message"].as_str().unwrap().contains(why),
        "{}",
        answer.body
    );
}
