//! Bad input of a node. Its own session may end; others must not.

use std::sync::Arc;

use peer::{Failure, ensure, now_ms, session::Automatic, transport::Outgoing};
use serde_json::{Value, json};
use wire::{Change, Operation, ResourceType, Source, Upstream};

use super::{
    nodes::lease_query,
    target::{PlayedNode, Target},
};

/// How often a node connects again after bad input.
const RECONNECTIONS: usize = 3;

/// Sends texts from one node, after each of which another node must still be served.
async fn harm(target: &Target, case: &str, texts: &[String]) -> Result<(), Failure> {
    let mut other = target.node(&format!("{case}-other")).await?;
    let PlayedNode {
        name,
        identity,
        session,
    } = target.node(case).await?;
    let mut session = session;
    for text in texts {
        session.put(Outgoing::Text(text.clone())).await;
        other.session.ask(lease_query(&other.name)).await?;
        // the cloud may end this session, and KubeEdge the next one with it; an edge connects again
        let mut attempts = 0;
        while let Err(failure) = session.ask(lease_query(&name)).await {
            attempts += 1;
            if attempts > RECONNECTIONS {
                return Err(failure);
            }
            session = target.connect(&name, &identity, Automatic::EDGE).await?;
        }
    }
    Ok(())
}

pub(super) async fn json(target: Arc<Target>) -> Result<(), Failure> {
    let texts = ["", "x", "{\"header\":", "[]", "null", "\u{0}\u{1}"].map(str::to_owned);
    harm(&target, "no-json", &texts).await
}

pub(super) async fn types(target: Arc<Target>) -> Result<(), Failure> {
    let texts = [
        json!({"header": "x", "route": {}, "content": null}),
        json!({"header": {"msg_id": 1, "timestamp": "now"}, "route": {}, "content": null}),
        json!({"header": {"msg_id": "x", "timestamp": 1}, "route": {"resource": []}, "content": null}),
        json!({"header": null, "route": null}),
    ]
    .map(|value| value.to_string());
    harm(&target, "types", &texts).await
}

pub(super) async fn deep(target: Arc<Target>) -> Result<(), Failure> {
    let nested = "[".repeat(100_000);
    let message = lease_query("x").into_message(now_ms());
    let text = wire::json::encode(&message);
    let head = text.rsplit_once("null").map_or("", |(head, _)| head);
    harm(
        &target,
        "deep",
        &[format!("{head}{nested}"), nested.clone()],
    )
    .await
}

pub(super) async fn unknown(target: Arc<Target>) -> Result<(), Failure> {
    let mut node = target.node("unknown").await?;
    let mut messages = Vec::new();
    let mut of = |change: fn(&mut wire::Message)| {
        let mut message = lease_query(&node.name).into_message(now_ms());
        change(&mut message);
        messages.push(message);
    };
    of(|message| message.route.operation = Operation::from("conformance".to_owned()));
    of(|message| message.route.resource = "default/widget/x".to_owned().into());
    of(|message| message.route.resource = "x".to_owned().into());
    of(|message| message.route.resource = "////".to_owned().into());
    of(|message| message.route.source = Source::from("conformance".to_owned()));
    of(|message| message.route.group = wire::Group::from("conformance".to_owned()));
    of(|message| message.header.parent_msg_id = "nobody".to_owned());
    of(|message| message.content = Value::from(vec![1, 2, 3]));
    for message in &messages {
        node.session.send(message).await;
    }
    node.session.ask(lease_query(&node.name)).await?;
    Ok(())
}

pub(super) async fn sources(target: Arc<Target>) -> Result<(), Failure> {
    let mut node = target.node("claims").await?;
    let name = "claimed";
    let object = json!({"metadata": {"name": name, "namespace": target.namespace}});
    let request = Upstream::put(
        Change::Insert,
        &target.namespace,
        &ResourceType::Pod,
        name,
        object,
    );
    let mut message = request.into_message(now_ms());
    for source in [
        Source::EdgeController,
        Source::CloudHub,
        Source::DeviceController,
    ] {
        message.header.msg_id = wire::Message::new_id();
        message.route.source = source;
        node.session.send(&message).await;
    }
    node.session.ask(lease_query(&node.name)).await?;
    let pods: kube::Api<k8s_openapi::api::core::v1::Pod> = target.api();
    ensure!(
        pods.get_opt(name).await?.is_none(),
        "a node created an object in the name of a controller"
    );
    Ok(())
}
