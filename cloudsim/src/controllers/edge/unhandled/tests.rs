//! Every kind of message that KubeEdge's EdgeCore sends, and some that it does not: each is answered, or named in the log.

use std::{
    io::Write,
    sync::{Arc, Mutex},
};

use kubeapi::store::MemoryStore;
use serde_json::{Value, json};
use tracing::subscriber::set_default;
use tracing_subscriber::fmt::MakeWriter;
use wire::{Message, Up, Upstream};

use super::super::{Edge, Reply};
use crate::mailbox::Mailboxes;

/// What becomes of a message.
#[derive(Clone, Copy, Debug)]
enum Fate {
    /// It is answered with this operation; the answer has this text in it, which is empty where anything will do.
    Answered(&'static str, &'static str),
    /// No answer is due; the log names this.
    Logged(&'static str),
    /// Another part takes it before it comes here.
    Elsewhere,
    /// It says nothing that asks for anything.
    Nothing,
}

use Fate::{Answered, Elsewhere, Logged, Nothing};

const ANSWER: Fate = Answered("response", "");

/// Source, group, operation, resource, content, and what becomes of it.
fn rows() -> Vec<(&'static str, &'static str, &'static str, &'static str, Value, Fate)> {
    let node = || json!({"metadata": {"name": "edge-1", "labels": {"node-role.kubernetes.io/edge": ""}}});
    let event = json!({"metadata": {"name": "e", "namespace": "ns"}, "involvedObject": {"kind": "Node", "name": "edge-2"}, "source": {"host": "edge-2"}});
    let mut rows = vec![
        ("websocket", "resource", "keepalive", "node", json!("ping"), Nothing),
        ("", "", "", "", Value::Null, Nothing),
        ("edgecontroller", "resource", "response", "ns/pod/x", json!("OK"), Nothing),
        ("edged", "meta", "insert", "null/node/edge-1", node(), ANSWER),
        ("edged", "meta", "query", "null/node/edge-1", Value::Null, ANSWER),
        ("edged", "meta", "update", "null/node/edge-1", node(), ANSWER),
        ("edged", "meta", "patch", "null/nodepatch/edge-1", json!("{}"), ANSWER),
        ("edged", "meta", "insert", "null/nodestatus/edge-1", json!({}), ANSWER),
        ("edged", "meta", "update", "null/nodestatus/edge-1", json!({}), ANSWER),
        ("edged", "meta", "insert", "ns/pod/x", json!({"metadata": {"name": "x"}}), ANSWER),
        ("edged", "meta", "patch", "ns/podpatch/x", json!("{}"), ANSWER),
        ("edged", "meta", "delete", "ns/pod/x", json!({"gracePeriodSeconds": 0}), ANSWER),
        ("edged", "meta", "update", "ns/podstatus/x", json!({}), ANSWER),
        ("edged", "meta", "update", "ns/podstatus", json!([]), Answered("response", "podstatus")),
        ("edged", "meta", "query", "ns/configmap/x", Value::Null, ANSWER),
        ("edged", "meta", "query", "ns/secret/x", Value::Null, ANSWER),
        ("edged", "meta", "query", "ns/serviceaccounttoken/x", json!({"spec": {}}), ANSWER),
        ("edged", "meta", "query", "null/persistentvolume/x", Value::Null, ANSWER),
        ("edged", "meta", "query", "ns/persistentvolumeclaim/x", Value::Null, ANSWER),
        ("edged", "meta", "query", "default/volumeattachment/x", Value::Null, ANSWER),
        (
            "edged",
            "meta",
            "insert",
            "kube-node-lease/lease/edge-1",
            json!({"metadata": {"name": "edge-1"}}),
            ANSWER,
        ),
        ("edged", "meta", "query", "kube-node-lease/lease/edge-1", Value::Null, ANSWER),
        ("edged", "meta", "insert", "default/certificatesigningrequest/x", json!({}), ANSWER),
        ("edged", "meta", "query", "default/certificatesigningrequest/x", Value::Null, ANSWER),
        ("edged", "meta", "insert", "ns/event/e", event, Logged("refused")),
        ("edged", "meta", "query", "ns/rule/x", Value::Null, ANSWER),
        ("edged", "meta", "query", "short", Value::Null, Answered("response", "short")),
        ("edged", "meta", "upload", "ns/pod/x", Value::Null, Answered("error", "upload")),
        ("metamanager", "meta", "query", "k8s/ca.crt", Value::Null, ANSWER),
        ("twin", "resource", "get", "membership/detail", json!("{}"), Elsewhere),
        ("twin", "resource", "update", "device/ns/d/twin/edge_updated", json!({}), Elsewhere),
        ("twin", "resource", "update", "device/ns/d/state/update", json!("{}"), Elsewhere),
        ("metaserver", "dynamiccontroller", "null", "null", json!({}), Elsewhere),
        ("metaserver", "dynamiccontroller", "null", "watchapp/sync", json!({}), Elsewhere),
        ("bus", "user", "upload", "default/up", json!("x"), Logged("upload of bus")),
        ("servicebus", "user", "upload", "http://127.0.0.1/x", json!("x"), Answered("error", "servicebus")),
        ("servicebus", "user", "upload", "", json!({"status_code": 200}), Logged("upload of servicebus")),
        (
            "websocket",
            "hub",
            "UpdateNodeActionStatus",
            "operations.kubeedge.io/v1alpha2/nodeupgradejob/j/node/edge-1",
            json!({}),
            Logged("UpdateNodeActionStatus"),
        ),
        ("websocket", "hub", "upgrade", "task/t/node/edge-1", json!({}), Logged("upgrade of task/t")),
        ("websocket", "hub", "prepull", "task/t/node/edge-1", json!({}), Logged("prepull of task/t")),
        // of a node with an agent that this cloud does not know
        ("edged", "resource", "defragment", "ns/pod/x", json!({}), Answered("error", "defragment")),
        ("edgestream", "func", "connect", "tunnel", json!({}), Answered("error", "tunnel")),
        ("metamanager", "resource", "error", "ns/pod/x", json!("no"), Logged("error of ns/pod/x")),
        (
            "cloudhub",
            "resource",
            "response",
            "default/volume/v",
            json!("{}"),
            Logged("response of default/volume/v"),
        ),
    ];
    rows.push((
        "edged",
        "meta",
        "patch",
        "ns/event/e",
        json!({"event": {}, "patchData": "{}"}),
        Logged("refused"),
    ));
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

/// What the edge controller answers, and what it logs.
async fn handled(edge: &Edge, message: Message) -> (Option<Message>, String) {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_writer(log.clone()).with_ansi(false).finish();
    let guard = set_default(subscriber);
    let reply = edge.handle("edge-1", message).await;
    drop(guard);
    let answer = reply.map(|reply| match reply {
        Reply::Direct(message) => message,
        Reply::Acknowledged(parcel) => parcel.message,
    });
    let text = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
    (answer, text)
}

fn edge() -> Edge {
    let client =
        kubeapi::Api::builder(MemoryStore::new()).rules(kubeapi::Rules::Relay).build().client("test");
    Edge::new(client, Mailboxes::default(), "PEM")
}

#[tokio::test]
async fn every_kind_of_message_is_answered_or_named() {
    for (source, group, operation, resource, content, fate) in rows() {
        let line = format!("{operation} {resource} of {source} for {group}");
        let message: Message = serde_json::from_value(json!({
            "header": {"msg_id": if source.is_empty() { "" } else { "asked" }, "timestamp": 1},
            "route": {"source": source, "group": group, "operation": operation, "resource": resource},
            "content": content,
        }))
        .unwrap();
        let body = Up::from(message.clone()).body;
        if let Elsewhere = fate {
            let is_others = matches!(
                body,
                Upstream::MembershipDetail(_)
                    | Upstream::Device { .. }
                    | Upstream::Application(_)
                    | Upstream::WatchSync(_)
            );
            assert!(is_others, "{line}: {body:?}");
            continue;
        }
        let (answer, log) = handled(&edge(), message).await;
        match fate {
            Answered(operation, names) => {
                let answer = answer.unwrap_or_else(|| panic!("{line} is not answered"));
                assert_eq!(answer.header.parent_msg_id, "asked", "{line}");
                assert_eq!(answer.route.operation.as_str(), operation, "{line}: {answer:?}");
                assert!(answer.content.to_string().contains(names), "{line}: {answer:?}");
            }
            Logged(names) => {
                assert!(answer.is_none(), "{line}: {answer:?}");
                assert!(log.contains(names), "{line}: {log}");
            }
            Nothing => assert!(answer.is_none() && log.is_empty(), "{line}: {answer:?} {log}"),
            Elsewhere => {}
        }
    }
}

#[tokio::test]
async fn whatever_a_node_invents_is_answered_and_logged_a_few_times() {
    let edge = edge();
    let mut lines = 0;
    for number in 0..1000 {
        let message: Message = serde_json::from_value(json!({
            "header": {"msg_id": "asked", "timestamp": 1},
            "route": {"source": format!("s{number}"), "group": format!("g{number}"), "operation": format!("o{number}"), "resource": format!("r{number}")},
        }))
        .unwrap();
        let (answer, log) = handled(&edge, message).await;
        let answer = answer.expect("it is answered").content.to_string();
        assert!(answer.contains(&format!("o{number}")), "{answer}");
        lines += log.lines().count();
    }
    assert!(lines < 10, "{lines} lines");
}
