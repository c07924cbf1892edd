//! Every kind of message that KubeEdge's CloudCore sends, and some that it does not: each is handled, answered, or logged.

use objectstore::MemoryStore;
use serde_json::{Value, json};
use testkit::LogBuffer;
use tokio_util::sync::CancellationToken;
use tracing::subscriber::set_default;
use wire::Message;

use crate::{edgehub::fake_cloud::fake_cloud, metamanager};

fn object(kind: &str) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "x", "namespace": "ns", "uid": format!("uid-{kind}"), "resourceVersion": "7"}})
}

/// Source, group, operation, resource, and the result: `taken` (handled), `acked` (handled and acknowledged), `logged` under
/// this name, or refused with this operation and these words.
const TABLE: &str = "
edgecontroller    resource  insert  ns/pod/x                   acked
edgecontroller    resource  update  ns/pod/x                   acked
edgecontroller    resource  delete  ns/pod/x                   acked
edgecontroller    resource  insert  ns/configmap/x             acked
edgecontroller    resource  update  ns/configmap/x             acked
edgecontroller    resource  delete  ns/configmap/x             acked
edgecontroller    resource  update  ns/secret/x                acked
edgecontroller    resource  delete  ns/secret/x                acked
edgecontroller    resource  update  null/node/edge-1           acked
policycontroller  resource  insert  ns/serviceaccountaccess/x  acked
policycontroller  resource  update  ns/serviceaccountaccess/x  acked
policycontroller  resource  delete  ns/serviceaccountaccess/x  acked
dynamiccontroller resource  insert  ns/service/x               acked
dynamiccontroller resource  update  ns/service/x               acked
dynamiccontroller resource  delete  ns/service/x               acked
devicecontroller  resource  insert  ns/devicemodel/x           acked
devicecontroller  resource  update  ns/devicemodel/x           acked
devicecontroller  resource  delete  ns/devicemodel/x           acked
devicecontroller  resource  insert  ns/device/x                acked
devicecontroller  resource  update  ns/device/x                acked
devicecontroller  resource  delete  ns/device/x                acked
cloudhub          resource  response            k8s/ca.crt     taken
edgecontroller    resource  response            ns/podpatch/x  taken
devicecontroller  twin      response            twin           taken
devicecontroller  twin      update  membership                 taken
devicecontroller  twin      update  membership/detail          taken
devicecontroller  twin      update  device/d/twin/cloud_updated taken
router_eventbus   user      subscribe    ns/topic              taken
router_eventbus   user      unsubscribe  ns/topic              taken
router_eventbus   user      publish      topic                 taken
dynamiccontroller resource  applicationResponse ignore/Application/ignore taken
dynamiccontroller resource  applicationResponse watchapp/sync  taken
router_servicebus user      start   http://127.0.0.1:80/a      taken
router_servicebus user      stop    http://127.0.0.1:80/a      taken
router_servicebus user      GET     6666:/hello                taken
router_servicebus user      POST    6666:/hello                taken
taskmanager taskmanager     Check   operations.kubeedge.io/v1alpha2/nodeupgradejob/j/node/edge-1 taken
taskmanager taskmanager     Pull    operations.kubeedge.io/v1alpha2/imageprepulljob/j/node/edge-1 taken
taskmanager taskmanager     Update  operations.kubeedge.io/v1alpha2/configupdatejob/j/node/edge-1 taken
taskmanager taskmanager     upgrade upgrade/task/node/edge-1   upgrade upgrade of upgrade/task
taskmanager taskmanager     prepull prepull/task/node/edge-1   prepull prepull of prepull/task
cloudhub          resource  createvolume              default/volume/v error createvolume
cloudhub          resource  deletevolume              default/volume/v error deletevolume
cloudhub          resource  controllerpublishvolume   default/volume/v error controllerpublishvolume
cloudhub          resource  controllerunpublishvolume default/volume/v error controllerunpublishvolume
edgecontroller    resource  defragment  ns/pod/x               error defragment of ns/pod/x
edgecontroller    resource  insert      short                  error insert of short
cloudStream       func      query       tunnel                 error query of tunnel
devicecontroller  twin      query       membership             error query of membership
edgecontroller    hub       update      ns/pod/x               error update of ns/pod/x (edgecontroller for hub)
cloudhub          resource  error       ns/pod/x               logged error of ns/pod/x
";

/// Returns the content of a message, as far as it matters.
fn content(operation: &str, resource: &str) -> Value {
    let kind = resource.split('/').nth(1).unwrap_or_default();
    match resource {
        "null/node/edge-1" => {
            json!({"metadata": {"name": "edge-1", "uid": "n", "resourceVersion": "7"}})
        }
        "k8s/ca.crt" => json!("PEM"),
        "twin" => json!("OK"),
        "topic" => json!("payload"),
        "ns/podpatch/x" => json!({"Object": null, "Err": null}),
        "default/volume/v" => json!("{}"),
        "membership" => {
            json!({"event_id": "e", "timestamp": 1, "added_devices": null, "removed_devices": null})
        }
        "membership/detail" => json!({"event_id": "e", "timestamp": 1, "devices": []}),
        _ if ["insert", "update", "delete"].contains(&operation) && resource.starts_with("ns/") => {
            object(kind)
        }
        _ => json!({}),
    }
}

fn message(
    source: &str,
    group: &str,
    operation: &str,
    resource: &str,
    content: &Value,
    id: &str,
) -> Message {
    serde_json::from_value(json!({
        "header": {"msg_id": id, "timestamp": 1, "resourceversion": "7"},
        "route": {"source": source, "group": group, "operation": operation, "resource": resource},
        "content": content,
    }))
    .unwrap()
}

/// Returns what the node sends for these messages, each with the id of the one that it answers, until it acknowledges the last;
/// and the log.
async fn sent_for(messages: Vec<Message>, has_readers: bool) -> (Vec<Message>, String) {
    let log = LogBuffer::default();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(log.clone())
        .with_ansi(false)
        .finish();
    let _guard = set_default(subscriber);
    let (hub, inbound, mut line) = fake_cloud();
    let config = metamanager::Config {
        node_name: "edge-1".into(),
        store: MemoryStore::new(),
        hub,
        inbound,
        timing: metamanager::Timing::default(),
        server: None,
    };
    let (_meta, ends) = metamanager::new(config);
    let mut readers = has_readers.then_some((
        ends.device_messages,
        ends.topic_messages,
        ends.service_messages,
        ends.job_messages,
    ));
    let readers = async {
        if let Some((devices, topics, services, jobs)) = &mut readers {
            tokio::join!(
                async { while devices.next().await.is_some() {} },
                async { while topics.next().await.is_some() {} },
                async { while services.next().await.is_some() {} },
                async { while jobs.next().await.is_some() {} },
            );
        }
        std::future::pending::<()>().await
    };
    line.up();
    let told = async {
        for message in messages {
            line.say(message).await;
        }
        let mut last = object("ConfigMap");
        last["metadata"]["name"] = "last".into();
        line.say(message(
            "edgecontroller",
            "resource",
            "update",
            "ns/configmap/last",
            &last,
            "last",
        ))
        .await;
        let mut sent = Vec::new();
        loop {
            let message = line.next().await;
            if message.header.parent_msg_id == "last" {
                return sent;
            }
            sent.push(message);
        }
    };
    let sent = clock::select! {
        sent = told => sent,
        () = Box::pin(ends.task.run(CancellationToken::new())) => panic!("the task has ended"),
        () = readers => unreachable!(),
    };
    (sent, log.text())
}

#[tokio::test]
async fn every_kind_of_message_is_taken_or_answered_or_named() {
    for row in TABLE.lines().filter(|row| !row.is_empty()) {
        let words: Vec<&str> = row.split_whitespace().collect();
        let [source, group, operation, resource, fate, rest @ ..] = words.as_slice() else {
            panic!("{row}")
        };
        let names = rest.join(" ");
        let content = content(operation, resource);
        let told = message(source, group, operation, resource, &content, "asked");
        let (sent, log) = sent_for(vec![told], true).await;
        let (acks, refusals): (Vec<_>, Vec<_>) = sent
            .iter()
            .filter(|message| message.header.parent_msg_id == "asked")
            .partition(|message| message.route.operation.as_str() == "response");
        match *fate {
            "taken" | "acked" => {
                assert_eq!(acks.len(), usize::from(*fate == "acked"), "{row}: {acks:?}");
                assert!(refusals.is_empty(), "{row}: {refusals:?}");
                assert!(!log.contains("does not handle"), "{row}: {log}");
            }
            "logged" => {
                assert!(refusals.is_empty(), "{row}: {refusals:?}");
                assert!(
                    log.contains(&names) && log.contains("does not handle"),
                    "{row}: {log}"
                );
            }
            operation => {
                assert_eq!(refusals.len(), 1, "{row}: {refusals:?}");
                assert_eq!(refusals[0].route.operation.as_str(), operation, "{row}");
                let reason = reason(&refusals[0].content);
                assert!(reason.contains(&names), "{row}: {reason}");
                assert!(log.contains("does not handle"), "{row}: {log}");
            }
        }
    }
}

/// Returns the content of a refusal as its receiver reads it.
fn reason(content: &Value) -> String {
    match content["body"].as_str() {
        Some(body) => {
            let body =
                base64::Engine::decode(&base64::engine::general_purpose::STANDARD, body).unwrap();
            format!(
                "{} {}",
                content["status_code"],
                String::from_utf8(body).unwrap()
            )
        }
        None => content.to_string(),
    }
}

#[tokio::test]
async fn messages_for_a_disabled_module_are_logged() {
    for (operation, resource, source, group, names) in [
        (
            "publish",
            "topic",
            "router_eventbus",
            "user",
            "publish (EventBus is disabled)",
        ),
        (
            "subscribe",
            "ns/topic",
            "router_eventbus",
            "user",
            "subscribe (EventBus is disabled)",
        ),
        (
            "update",
            "membership",
            "devicecontroller",
            "twin",
            "membership (DeviceTwin is disabled)",
        ),
        (
            "start",
            "http://x",
            "router_servicebus",
            "user",
            "start (ServiceBus is disabled)",
        ),
        (
            "GET",
            "80:/x",
            "router_servicebus",
            "user",
            "GET (ServiceBus is disabled)",
        ),
        (
            "Check",
            "operations.kubeedge.io/v1alpha2/imageprepulljob/j/node/edge-1",
            "taskmanager",
            "taskmanager",
            "(TaskManager is disabled)",
        ),
    ] {
        let told = message(source, group, operation, resource, &Value::Null, "asked");
        let (_, log) = sent_for(vec![told], false).await;
        assert!(log.contains(names), "{resource}: {log}");
    }
}

#[tokio::test]
async fn many_of_a_kind_are_all_answered_and_named_once() {
    let call = |id: String| {
        message(
            "cloudhub",
            "resource",
            "createvolume",
            "default/volume/v",
            &json!("{}"),
            &id,
        )
    };
    let (sent, log) = sent_for(
        (0..50).map(|number| call(number.to_string())).collect(),
        true,
    )
    .await;
    let refused = sent
        .iter()
        .filter(|message| message.route.operation.as_str() == "error")
        .count();
    assert_eq!(refused, 50);
    assert_eq!(log.matches("does not handle").count(), 1, "{log}");
}

#[tokio::test]
async fn an_answer_is_not_answered() {
    let mut told = message(
        "edgecontroller",
        "resource",
        "defragment",
        "ns/pod/x",
        &json!({}),
        "asked",
    );
    told.header.parent_msg_id = "nobody's".to_owned();
    let (sent, log) = sent_for(vec![told], true).await;
    assert!(
        !sent
            .iter()
            .any(|message| message.route.operation.as_str() == "error"),
        "{sent:?}"
    );
    assert!(log.contains("defragment"), "{log}");
}

#[tokio::test]
async fn a_call_of_a_service_is_answered_where_servicebus_is_disabled() {
    let told = message(
        "router_servicebus",
        "user",
        "GET",
        "80:/x",
        &Value::Null,
        "asked",
    );
    let (sent, _) = sent_for(vec![told], false).await;
    let answer = sent
        .iter()
        .find(|message| message.header.parent_msg_id == "asked")
        .unwrap();
    assert_eq!(answer.route.operation.as_str(), "upload");
    assert_eq!(
        reason(&answer.content),
        "501 this agent does not handle GET (ServiceBus is disabled); set modules.serviceBus.enable to true in edgecore.yaml of the \
         node and restart its agent\n"
    );
    assert_eq!(
        answer.content["header"]["Tunnelserver"],
        json!(["edge-agent"])
    );
}

#[tokio::test]
async fn a_publication_is_answered_where_eventbus_is_disabled() {
    let told = message(
        "router_eventbus",
        "user",
        "publish",
        "a/b",
        &json!("x"),
        "asked",
    );
    let (sent, _) = sent_for(vec![told], false).await;
    let answer = sent
        .iter()
        .find(|message| message.header.parent_msg_id == "asked")
        .unwrap();
    assert_eq!(answer.route.operation.as_str(), "error");
    assert!(
        reason(&answer.content).contains("EventBus is disabled"),
        "{answer:?}"
    );
}
