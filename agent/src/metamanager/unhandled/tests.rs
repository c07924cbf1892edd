//! Every kind of message that KubeEdge's CloudCore sends, and some that it does not: each is taken, answered, or named in the log.

use std::{
    io::Write,
    sync::{Arc, Mutex},
};

use kubeapi::store::MemoryStore;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tracing::subscriber::set_default;
use tracing_subscriber::fmt::MakeWriter;
use wire::Message;

use crate::{edgehub::line::line, metamanager};

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It is carried out, and acknowledged where the cloud waits for that.
    Taken { acknowledged: bool },
    /// It is answered with this operation, and the reason names this.
    Refused(&'static str, &'static str),
    /// Nobody waits for an answer, or there is no form for one: the log names this.
    Logged(&'static str),
}

use Fate::{Logged, Refused, Taken};

const ACKED: Fate = Taken { acknowledged: true };
const QUIET: Fate = Taken { acknowledged: false };

fn object(kind: &str) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "x", "namespace": "ns", "uid": format!("uid-{kind}"), "resourceVersion": "7"}})
}

/// Source, group, operation, resource, content, and what becomes of it.
fn rows() -> Vec<(&'static str, &'static str, &'static str, &'static str, Value, Fate)> {
    let job =
        |kind: &str| format!("operations.kubeedge.io/v1alpha2/{kind}/job/node/edge-1").leak() as &'static str;
    let mut rows = Vec::new();
    for operation in ["insert", "update", "delete"] {
        for (source, resource, kind) in [
            ("edgecontroller", "ns/pod/x", "Pod"),
            ("edgecontroller", "ns/configmap/x", "ConfigMap"),
            ("edgecontroller", "ns/secret/x", "Secret"),
            ("policycontroller", "ns/serviceaccountaccess/x", "ServiceAccountAccess"),
            ("dynamiccontroller", "ns/service/x", "Service"),
            ("devicecontroller", "ns/devicemodel/x", "DeviceModel"),
            ("devicecontroller", "ns/device/x", "Device"),
        ] {
            rows.push((source, "resource", operation, resource, object(kind), ACKED));
        }
    }
    rows.extend([
        (
            "edgecontroller",
            "resource",
            "update",
            "null/node/edge-1",
            json!({"metadata": {"name": "edge-1", "uid": "n", "resourceVersion": "7"}}),
            ACKED,
        ),
        ("cloudhub", "resource", "response", "k8s/ca.crt", json!("PEM"), QUIET),
        (
            "edgecontroller",
            "resource",
            "response",
            "ns/podpatch/x",
            json!({"Object": null, "Err": null}),
            QUIET,
        ),
        ("devicecontroller", "twin", "response", "twin", json!("OK"), QUIET),
        (
            "devicecontroller",
            "twin",
            "update",
            "membership",
            json!({"event_id": "e", "timestamp": 1, "added_devices": null, "removed_devices": null}),
            QUIET,
        ),
        (
            "devicecontroller",
            "twin",
            "update",
            "membership/detail",
            json!({"event_id": "e", "timestamp": 1, "devices": []}),
            QUIET,
        ),
        (
            "devicecontroller",
            "twin",
            "update",
            "device/d/twin/cloud_updated",
            json!({"event_id": "e", "timestamp": 1, "twin": {}}),
            QUIET,
        ),
        ("router_eventbus", "user", "subscribe", "ns/topic", Value::Null, QUIET),
        ("router_eventbus", "user", "unsubscribe", "ns/topic", Value::Null, QUIET),
        ("router_eventbus", "user", "publish", "topic", json!("payload"), QUIET),
        (
            "dynamiccontroller",
            "resource",
            "applicationResponse",
            "ignore/Application/ignore",
            json!({}),
            QUIET,
        ),
        ("dynamiccontroller", "resource", "applicationResponse", "watchapp/sync", json!({}), QUIET),
        (
            "router_servicebus",
            "user",
            "start",
            "http://127.0.0.1:80/a",
            Value::Null,
            Logged("start (ServiceBus)"),
        ),
        (
            "router_servicebus",
            "user",
            "stop",
            "http://127.0.0.1:80/a",
            Value::Null,
            Logged("stop (ServiceBus)"),
        ),
        (
            "router_servicebus",
            "user",
            "GET",
            "6666:/hello",
            json!({"header": {}, "body": "", "method": "GET", "url": ""}),
            Refused("upload", "ServiceBus"),
        ),
        ("router_servicebus", "user", "POST", "6666:/hello", json!({}), Refused("upload", "ServiceBus")),
        (
            "taskmanager",
            "taskmanager",
            "Check",
            job("nodeupgradejob"),
            json!({}),
            Refused("UpdateNodeActionStatus", "Check"),
        ),
        (
            "taskmanager",
            "taskmanager",
            "Pull",
            job("imageprepulljob"),
            json!({}),
            Refused("UpdateNodeActionStatus", "Pull"),
        ),
        (
            "taskmanager",
            "taskmanager",
            "Update",
            job("configupdatejob"),
            json!({}),
            Refused("UpdateNodeActionStatus", "Update"),
        ),
        (
            "taskmanager",
            "taskmanager",
            "upgrade",
            "upgrade/task/node/edge-1",
            json!({}),
            Refused("upgrade", "node jobs"),
        ),
        (
            "taskmanager",
            "taskmanager",
            "prepull",
            "prepull/task/node/edge-1",
            json!({}),
            Refused("prepull", "node jobs"),
        ),
        // not KubeEdge's, or of a version to come
        ("edgecontroller", "resource", "defragment", "ns/pod/x", json!({}), Refused("error", "defragment")),
        ("edgecontroller", "resource", "insert", "short", json!({}), Refused("error", "short")),
        ("cloudStream", "func", "query", "tunnel", json!({}), Refused("error", "tunnel")),
        ("devicecontroller", "twin", "query", "membership", json!({}), Refused("error", "membership")),
        ("edgecontroller", "hub", "update", "ns/pod/x", json!({}), Refused("error", "hub")),
        ("cloudhub", "resource", "error", "ns/pod/x", json!("no"), Logged("error of ns/pod/x")),
    ]);
    for call in ["createvolume", "deletevolume", "controllerpublishvolume", "controllerunpublishvolume"] {
        rows.push(("cloudhub", "resource", call, "default/volume/v", json!("{}"), Refused("error", call)));
    }
    rows
}

/// A log that a test reads.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Log {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

fn message(
    (source, group, operation, resource, content): (&str, &str, &str, &str, &Value),
    id: &str,
) -> Message {
    serde_json::from_value(json!({
        "header": {"msg_id": id, "timestamp": 1, "resourceversion": "7"},
        "route": {"source": source, "group": group, "operation": operation, "resource": resource},
        "content": content,
    }))
    .unwrap()
}

/// What the node sends for these messages, each with the id of the one that it answers, until it acknowledges the last; and the log.
async fn sent_for(messages: Vec<Message>, has_readers: bool) -> (Vec<Message>, String) {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_writer(log.clone()).with_ansi(false).finish();
    let _guard = set_default(subscriber);
    let (hub, inbound, mut line) = line();
    let config = metamanager::Config {
        node_name: "edge-1".into(),
        store: MemoryStore::new(),
        hub,
        inbound,
        timing: metamanager::Timing::default(),
        server: None,
    };
    let (_meta, ends) = metamanager::new(config);
    let mut readers = has_readers.then_some((ends.device_messages, ends.topic_messages));
    let readers = async {
        if let Some((devices, topics)) = &mut readers {
            tokio::join!(async { while devices.next().await.is_some() {} }, async {
                while topics.next().await.is_some() {}
            });
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
        line.say(message(("edgecontroller", "resource", "update", "ns/configmap/last", &last), "last")).await;
        let mut sent = Vec::new();
        loop {
            let message = line.next().await;
            if message.header.parent_msg_id == "last" {
                return sent;
            }
            sent.push(message);
        }
    };
    let sent = tokio::select! {
        sent = told => sent,
        () = ends.task.run(CancellationToken::new()) => panic!("the task has ended"),
        () = readers => unreachable!(),
    };
    (sent, log.text())
}

#[tokio::test]
async fn every_kind_of_message_is_taken_or_answered_or_named() {
    for (source, group, operation, resource, content, fate) in rows() {
        let line = format!("{operation} {resource} of {source} for {group}");
        let told = message((source, group, operation, resource, &content), "asked");
        let (sent, log) = sent_for(vec![told], true).await;
        let answers: Vec<_> = sent.iter().filter(|message| message.header.parent_msg_id == "asked").collect();
        let is_ack = |message: &Message| message.route.operation.as_str() == "response";
        let refusals: Vec<_> = answers.iter().filter(|message| !is_ack(message)).collect();
        match fate {
            Taken { acknowledged } => {
                assert_eq!(
                    answers.iter().any(|message| is_ack(message)),
                    acknowledged,
                    "{line}: {answers:?}"
                );
                assert!(refusals.is_empty(), "{line}: {refusals:?}");
                assert!(!log.contains("does not handle"), "{line}: {log}");
            }
            Refused(operation, names) => {
                assert_eq!(refusals.len(), 1, "{line}: {answers:?}");
                assert_eq!(refusals[0].route.operation.as_str(), operation, "{line}");
                let reason = reason(&refusals[0].content);
                assert!(reason.contains(names), "{line}: {reason}");
                assert!(log.contains("does not handle"), "{line}: {log}");
            }
            Logged(names) => {
                assert!(refusals.is_empty(), "{line}: {refusals:?}");
                assert!(log.contains(names) && log.contains("does not handle"), "{line}: {log}");
            }
        }
    }
}

/// The content of a refusal as whoever gets it reads it.
fn reason(content: &Value) -> String {
    match content["body"].as_str() {
        Some(body) => {
            let body = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, body).unwrap();
            format!("{} {}", content["status_code"], String::from_utf8(body).unwrap())
        }
        None => content.to_string(),
    }
}

#[tokio::test]
async fn what_a_disabled_module_would_take_is_named() {
    for (operation, resource, source, group, names) in [
        ("publish", "topic", "router_eventbus", "user", "publish (EventBus is disabled)"),
        ("subscribe", "ns/topic", "router_eventbus", "user", "subscribe (EventBus is disabled)"),
        ("update", "membership", "devicecontroller", "twin", "membership (DeviceTwin is disabled)"),
    ] {
        let told = message((source, group, operation, resource, &Value::Null), "asked");
        let (_, log) = sent_for(vec![told], false).await;
        assert!(log.contains(names), "{resource}: {log}");
    }
}

#[tokio::test]
async fn many_of_a_kind_are_all_answered_and_named_once() {
    let call =
        |id: String| message(("cloudhub", "resource", "createvolume", "default/volume/v", &json!("{}")), &id);
    let (sent, log) = sent_for((0..50).map(|number| call(number.to_string())).collect(), true).await;
    let refused = sent.iter().filter(|message| message.route.operation.as_str() == "error").count();
    assert_eq!(refused, 50);
    assert_eq!(log.matches("does not handle").count(), 1, "{log}");
}

#[tokio::test]
async fn an_answer_is_not_answered() {
    let mut told = message(("edgecontroller", "resource", "defragment", "ns/pod/x", &json!({})), "asked");
    told.header.parent_msg_id = "nobody's".to_owned();
    let (sent, log) = sent_for(vec![told], true).await;
    assert!(!sent.iter().any(|message| message.route.operation.as_str() == "error"), "{sent:?}");
    assert!(log.contains("defragment"), "{log}");
}
