//! Every kind of message that KubeEdge's EdgeCore sends, and some that it does not: each is answered or logged.

mod evil_names;

use std::sync::Arc;

use kube::Client;
use objectstore::MemoryStore;
use serde_json::{Value, json};
use testkit::LogBuffer;
use tokio_util::sync::CancellationToken;
use tracing::subscriber::set_default;

use super::*;
use crate::{controllers::events::Recorder, mailbox::Mailboxes, tasks::Tasks};

/// Source, group, operation, resource, and the result: answered with this operation (and these words), `logged` with these words, or
/// `nothing`, if no answer is expected.
const TABLE: &str = "
websocket      resource  keepalive node                            nothing
-              -         -         -                               nothing
edgecontroller resource  response  ns/acknowledged/x               nothing
edged          meta      insert    null/node/edge-1                response
edged          meta      query     null/node/edge-1                response
edged          meta      update    null/node/edge-1                response
edged          meta      patch     null/nodepatch/edge-1           response
edged          meta      insert    null/nodestatus/edge-1          response
edged          meta      update    null/nodestatus/edge-1          response
edged          meta      insert    ns/pod/x                        response
edged          meta      patch     ns/podpatch/x                   response
edged          meta      delete    ns/pod/x                        response
edged          meta      update    ns/podstatus/x                  response
edged          meta      update    ns/podstatus                    response podstatus
edged          meta      query     ns/configmap/x                  response
edged          meta      query     ns/secret/x                     response
edged          meta      query     ns/serviceaccounttoken/x        response
edged          meta      query     null/persistentvolume/x         response
edged          meta      query     ns/persistentvolumeclaim/x      response
edged          meta      query     default/volumeattachment/x      response
edged          meta      insert    kube-node-lease/lease/edge-1    response
edged          meta      update    kube-node-lease/lease/edge-1    response
edged          meta      query     kube-node-lease/lease/edge-1    response
edged          meta      insert    default/certificatesigningrequest/x response
edged          meta      query     default/certificatesigningrequest/x response
edged          meta      insert    ns/event/e                      logged rejected
edged          meta      update    ns/event/e                      logged rejected
edged          meta      patch     ns/event/e                      logged rejected
edged          meta      query     ns/rule/x                       response
edged          meta      query     short                           response short
edged          meta      upload    ns/pod/x                        error upload of ns/pod/x
metamanager    meta      query     k8s/ca.crt                      response PEM
twin           resource  get       membership/detail               response
twin           resource  update    device/ns/d/twin/edge_updated   response ErrStatus
twin           resource  update    device/ns/d/state/update        response ErrStatus
metaserver     dynamiccontroller null null                         logged call skipped
metaserver     dynamiccontroller null watchapp/sync                applicationResponse
bus            user      upload    default/up                      logged upload of bus
servicebus     user      upload    http://127.0.0.1/x              error servicebus
servicebus     user      upload    -                               logged upload of servicebus
websocket      hub       UpdateNodeActionStatus operations.kubeedge.io/v1alpha2/nodeupgradejob/j/node/edge-1 logged UpdateNodeActionStatus
websocket      hub       upgrade   task/t/node/edge-1              logged upgrade of task/t
websocket      hub       prepull   task/t/node/edge-1              logged prepull of task/t
edged          resource  defragment ns/pod/x                       error defragment of ns/pod/x
edgestream     func      connect   tunnel                          error connect of tunnel
metamanager    resource  error     ns/pod/x                        logged error of ns/pod/x
cloudhub       resource  response  default/volume/v                logged response of default/volume/v
";

/// The content of a message, if it matters.
fn content(resource: &str) -> Value {
    match resource {
        "" => Value::Null,
        "node" => json!("ping"),
        "ns/acknowledged/x" => json!("OK"),
        "null/node/edge-1" => {
            json!({"metadata": {"name": "edge-1", "labels": {"node-role.kubernetes.io/edge": ""}}})
        }
        "null/nodepatch/edge-1" | "ns/podpatch/x" | "membership/detail" => json!("{}"),
        "ns/podstatus" => json!([]),
        "kube-node-lease/lease/edge-1" => json!({"metadata": {"name": "edge-1"}}),
        "ns/serviceaccounttoken/x" => json!({"spec": {}}),
        // about another node
        "ns/event/e" => {
            json!({"metadata": {"name": "e", "namespace": "ns"}, "involvedObject": {"kind": "Node", "name": "edge-2"}, "source": {"host": "edge-2"}})
        }
        _ => json!({}),
    }
}

/// Returns the first answer to `node` by a cloud without rules, with this edge controller.
pub(in crate::controllers) async fn dispatch(
    client: &Client,
    edge: &Edge,
    node: &str,
    message: Message,
) -> Option<Reply> {
    let (tasks, stop) = (Tasks::default(), CancellationToken::new());
    let _stop = stop.clone().drop_guard();
    let devices = Devices::new(
        client.clone(),
        Mailboxes::default(),
        Recorder::spawn_writer(&tasks, client, &stop),
    );
    let dynamic = Dynamic::new(client.clone(), edge.clone());
    let controllers = Controllers {
        edge: edge.clone(),
        dynamic,
        devices,
        rules: None,
        node_jobs: None,
    };
    let (replies, _unasked) = mpsc::channel(8);
    let mut dispatcher = UpstreamDispatcher::open(node.to_owned(), controllers, &replies);
    dispatcher.dispatch(message).await.into_iter().next()
}

/// Returns the answer to a node, and what is logged.
async fn handle((client, edge): &(Client, Edge), message: Message) -> (Option<Message>, String) {
    let log = LogBuffer::default();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(log.clone())
        .with_ansi(false)
        .finish();
    let guard = set_default(subscriber);
    let reply = dispatch(client, edge, "edge-1", message).await;
    drop(guard);
    let answer = reply.map(|reply| match reply {
        Reply::Direct(message) => message,
        Reply::Acknowledged(delivery) => Arc::unwrap_or_clone(delivery.message),
    });
    (answer, log.text())
}

fn edge() -> (Client, Edge) {
    let client = kubeapi::Api::builder(MemoryStore::new())
        .build()
        .client("test");
    (
        client.clone(),
        Edge::new(client, Mailboxes::default(), "PEM"),
    )
}

#[tokio::test]
async fn every_kind_of_message_is_answered_or_named() {
    for row in TABLE.lines().filter(|row| !row.is_empty()) {
        let words: Vec<&str> = row
            .split_whitespace()
            .map(|word| if word == "-" { "" } else { word })
            .collect();
        let [source, group, operation, resource, fate, rest @ ..] = words.as_slice() else {
            panic!("{row}")
        };
        let names = rest.join(" ");
        let message: Message = serde_json::from_value(json!({
            "header": {"msg_id": if source.is_empty() { "" } else { "asked" }, "timestamp": 1},
            "route": {"source": source, "group": group, "operation": operation, "resource": resource},
            "content": content(resource),
        }))
        .unwrap();
        let (answer, log) = handle(&edge(), message).await;
        match *fate {
            "nothing" => assert!(
                answer.is_none() && log.is_empty(),
                "{row}: {answer:?} {log}"
            ),
            "logged" => {
                assert!(answer.is_none(), "{row}: {answer:?}");
                assert!(log.contains(&names), "{row}: {log}");
            }
            operation => {
                let answer = answer.unwrap_or_else(|| panic!("not answered: {row}"));
                assert_eq!(answer.header.parent_msg_id, "asked", "{row}");
                assert_eq!(
                    answer.route.operation.as_str(),
                    operation,
                    "{row}: {answer:?}"
                );
                assert!(
                    answer.content.to_string().contains(&names),
                    "{row}: {answer:?}"
                );
            }
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
        let (answer, log) = handle(&edge, message).await;
        let answer = answer.expect("it is answered").content.to_string();
        assert!(answer.contains(&format!("o{number}")), "{answer}");
        lines += log.lines().count();
    }
    assert!(lines < 10, "{lines} lines");
}
