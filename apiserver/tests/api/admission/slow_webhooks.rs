//! Webhooks that do not answer: all those of one request share its time.

use std::sync::Arc;

use apiserver::{WebhookCall, WebhookTransport};
use async_trait::async_trait;
use bytes::Bytes;
use objectstore::MemoryStore;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::about;
use crate::world::{WIDGETS, World, named_map, refusal, registry, widget};

const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1";

/// Reaches nobody, and waits as long as it may.
#[derive(Debug)]
struct Silent;

#[async_trait]
impl WebhookTransport for Silent {
    async fn call(&self, call: WebhookCall) -> Result<Bytes, String> {
        tokio::time::sleep(call.timeout).await;
        Err("context deadline exceeded".to_owned())
    }
}

fn hanging(count: usize) -> Value {
    let webhook = |number: usize| {
        json!({
            "name": format!("w{number}.example.com"), "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "rules": about(&["*"], &["widgets"]), "failurePolicy": "Ignore", "timeoutSeconds": 30,
            "clientConfig": {"url": format!("https://w{number}.example.com/")},
        })
    };
    json!({"metadata": {"name": "hanging"}, "webhooks": (0..count).map(webhook).collect::<Vec<_>>()})
}

#[tokio::test(start_paused = true)]
async fn webhooks_that_hang_hold_up_a_request_for_a_minute_at_most() {
    for collection in [
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
    ] {
        let api = apiserver::builder(MemoryStore::new())
            .registry(registry())
            .webhooks(Arc::new(Silent))
            .build();
        let world = World::around(api);
        world
            .create("/api/v1/namespaces", named_map("default"))
            .await;
        world
            .create(&format!("{CONFIGURATIONS}/{collection}"), hanging(10))
            .await;
        let is_mutating = collection.starts_with("mutating");
        // validating webhooks are called at the same time, each for 30 s
        for (query, code, seconds) in [
            (
                "",
                if is_mutating { 504 } else { 201 },
                if is_mutating { 60 } else { 30 },
            ),
            (
                "?timeout=2m",
                if is_mutating { 504 } else { 201 },
                if is_mutating { 60 } else { 30 },
            ),
            ("?timeout=5s", 504, 5),
        ] {
            let begun = Instant::now();
            let answer = world
                .send(
                    &format!("POST {WIDGETS}{query}"),
                    widget(&format!("w{code}{seconds}{}", query.len()), 1),
                )
                .await;
            assert_eq!(answer.code, code, "{collection} {query}: {}", answer.body);
            assert_eq!(begun.elapsed().as_secs(), seconds, "{collection} {query}");
            if code == 504 {
                assert_eq!(answer.body["reason"], "Timeout", "{}", answer.body);
            }
        }
        let message = "invalid timeout specified in the request URL: \"soon\"";
        let invalid = refusal("BadRequest", message);
        world
            .expect(
                &format!("GET {WIDGETS}?timeout=soon"),
                Value::Null,
                400,
                invalid,
            )
            .await;
    }
}
