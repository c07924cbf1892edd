//! What a node asks for.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use peer::{Failure, ensure};
use serde_json::{Value, json};
use wire::{Operation, ResourceType, Route, Source, Upstream};

use super::{
    delivery::{deliver, deliver_pod},
    target::{PlayedNode, Target, pod_object},
};

/// Creates a ConfigMap and a Secret, and a pod of the node that uses them.
async fn used_by_pod(target: &Target, node: &PlayedNode, name: &str) -> Result<Pod, Failure> {
    let object = json!({"metadata": {"name": name}, "data": {"key": "value"}});
    target.create::<ConfigMap>(object).await?;
    let object = json!({"metadata": {"name": name}, "stringData": {"key": "value"}});
    target.create::<Secret>(object).await?;
    let mut pod = pod_object(name, &node.name);
    pod["spec"]["volumes"] = json!([
        {"name": "map", "configMap": {"name": name}},
        {"name": "secret", "secret": {"secretName": name}},
    ]);
    target.create(pod).await
}

pub(super) async fn configuration(target: Arc<Target>) -> Result<(), Failure> {
    let mut node = target.node("query").await?;
    used_by_pod(&target, &node, "query").await?;
    deliver(&target, &mut node, "query-seen").await?;
    for (kind, word, value) in [
        (ResourceType::ConfigMap, "ConfigMap", "value"),
        (ResourceType::Secret, "Secret", "dmFsdWU="),
    ] {
        let answer = node
            .session
            .ask(Upstream::query(&target.namespace, &kind, "query"))
            .await?;
        let content = &answer.content;
        ensure!(
            content["kind"] == word && content["data"]["key"] == value,
            "the query for a {word} was answered with kind {}",
            content["kind"]
        );
        let revision = &answer.header.resource_version;
        ensure!(
            revision.parse::<u64>().is_ok(),
            "the answer's header resourceversion is {revision:?}"
        );
    }
    Ok(())
}

pub(super) async fn missing(target: Arc<Target>) -> Result<(), Failure> {
    let mut node = target.node("missing").await?;
    // with authorization, a node may query only what its pods use
    let mut pod = pod_object("missing", &node.name);
    pod["spec"]["volumes"] = json!([{"name": "map", "configMap": {"name": "missing"}}]);
    deliver_pod(&target, &mut node, pod).await?;
    let query = Upstream::query(&target.namespace, &ResourceType::ConfigMap, "missing");
    let answer = node.session.ask(query).await?;
    let status = &answer.content["ErrStatus"];
    ensure!(
        status["code"].is_u64(),
        "the query was answered without a Status: {}",
        answer.content
    );
    Ok(())
}

pub(super) async fn token(target: Arc<Target>) -> Result<(), Failure> {
    let mut node = target.node("sa-token").await?;
    // an API server issues a node only the tokens that its pods mount
    let mut pod = pod_object("sa-token", &node.name);
    pod["spec"]["volumes"] = json!([{"name": "token", "projected": {"sources":
        [{"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}}]}}]);
    let pod = deliver_pod(&target, &mut node, pod).await?;
    let request = json!({
        "metadata": {"creationTimestamp": null},
        "spec": {"audiences": null, "expirationSeconds": 3600, "boundObjectRef":
            {"kind": "Pod", "apiVersion": "v1", "name": "sa-token", "uid": pod.content["metadata"]["uid"]}},
        "status": {"token": "", "expirationTimestamp": null},
    });
    let request = Upstream::token(&target.namespace, "default", request);
    let answer = node.session.ask(request).await?;
    let token = answer.content["status"]["token"].as_str();
    ensure!(
        token.is_some_and(|token| token.split('.').count() == 3),
        "the answer has no token"
    );
    Ok(())
}

pub(super) async fn root_ca(target: Arc<Target>) -> Result<(), Failure> {
    let mut node = target.node("root-ca").await?;
    let answer = node.session.ask(Upstream::RootCa(Value::Null)).await?;
    let Route {
        source, operation, ..
    } = &answer.route;
    ensure!(
        *source == Source::CloudHub && *operation == Operation::Response,
        "the answer came as {}",
        answer.route.summary()
    );
    let pem = answer.content.as_str().unwrap_or_default();
    ensure!(
        pem.starts_with("-----BEGIN CERTIFICATE-----"),
        "the answer is not PEM"
    );
    Ok(())
}

pub(super) async fn foreign_secret(target: Arc<Target>) -> Result<(), Failure> {
    let owner = target.node("owner").await?;
    used_by_pod(&target, &owner, "foreign").await?;
    let mut thief = target.node("reader").await?;
    let query = Upstream::query(&target.namespace, &ResourceType::Secret, "foreign");
    // no answer is a refusal, too
    if let Ok(answer) = thief.session.ask(query).await {
        ensure!(
            answer.content["data"].is_null(),
            "a node reads a Secret of which it has no pod"
        );
    }
    Ok(())
}
