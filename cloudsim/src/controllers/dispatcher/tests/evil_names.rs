//! A node that puts into its messages what would be another URL of the API, a line of its own in the log, or more than fits there.

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt, client::Body};
use parking_lot::Mutex;

use super::*;

/// Parts of a name that would lead a request to another URL.
const EVIL: [&str; 6] = [
    "?x=",
    "?watch=true",
    "default%2Fpods?x=",
    "a#b",
    "../secrets",
    "a\n2026 FAKE LINE\u{1b}[31m",
];

/// Resource types of requests about objects, and one that there is not.
const KINDS: [&str; 14] = [
    "node",
    "nodepatch",
    "pod",
    "podpatch",
    "podstatus",
    "configmap",
    "secret",
    "serviceaccounttoken",
    "lease",
    "event",
    "certificatesigningrequest",
    "persistentvolume",
    "persistentvolumeclaim",
    "volumeattachment",
];

/// An object that is everything at once: a namespace, an event about this node, its patch, and a token request.
fn everything() -> Value {
    let event =
        json!({"involvedObject": {"kind": "Node", "name": "edge-1"}, "source": {"host": "edge-1"}});
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "pwn", "labels": {"pod-security.kubernetes.io/enforce": "privileged"}},
        "involvedObject": {"kind": "Node", "name": "edge-1"}, "source": {"host": "edge-1"},
        "event": event, "patchData": "{\"count\":2}", "status": {},
        "spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "?watch=true", "uid": "u"}},
    })
}

fn message(words: [&str; 4], content: &Value) -> Message {
    let [source, group, operation, resource] = words;
    serde_json::from_value(json!({
        "header": {"msg_id": "asked", "timestamp": 1},
        "route": {"source": source, "group": group, "operation": operation, "resource": resource},
        "content": content,
    }))
    .unwrap()
}

/// All messages in which one of the names stands where a node may write a name.
fn messages(evil: &str) -> Vec<Message> {
    let mut all = Vec::new();
    for kind in KINDS.into_iter().chain([evil]) {
        let paths = [
            format!("{evil}/{kind}/pwn"),
            format!("default/{kind}/{evil}"),
            format!("null/{kind}/{evil}"),
        ];
        for path in paths {
            for operation in ["insert", "update", "delete", "patch", "query"] {
                all.push(message(["edged", "meta", operation, &path], &everything()));
            }
        }
    }
    // the name stands in the content alone
    all.push(message(
        [
            "edged",
            "meta",
            "query",
            "default/serviceaccounttoken/default",
        ],
        &everything(),
    ));
    let twin = json!({"event_id": "", "timestamp": 1, "twin": {}});
    for path in [
        format!("device/{evil}/d/twin/edge_updated"),
        format!("device/ns/{evil}/twin/edge_updated"),
    ] {
        all.push(message(["twin", "resource", "update", &path], &twin));
    }
    for key in [
        format!("/core/v1/pods/{evil}/p"),
        format!("/core/v1/pods/ns/{evil}"),
        format!("/core/v1/{evil}/ns/p"),
        format!("/{evil}/v1/pods/ns/p"),
        format!("/version{evil}"),
    ] {
        for verb in ["get", "list", "watch", "delete", "create"] {
            let call = json!({"ID": "1", "Key": key, "Verb": verb, "Nodename": "edge-1"});
            all.push(message(
                ["metaserver", "dynamiccontroller", "null", "null"],
                &call,
            ));
        }
    }
    all
}

/// An edge controller, and the URLs of all its requests.
fn recorded_edge() -> (Client, Edge, std::sync::Arc<Mutex<Vec<String>>>) {
    let (stored, _) = edge();
    let urls = std::sync::Arc::<Mutex<Vec<String>>>::default();
    let (seen, to) = (urls.clone(), stored.clone());
    let service = tower::service_fn(move |request: http::Request<Body>| {
        seen.lock().push(request.uri().to_string());
        let to = to.clone();
        async move { to.send(request).await }
    });
    let client = Client::new(service, "default");
    (
        client.clone(),
        Edge::new(client, Mailboxes::default(), "PEM"),
        urls,
    )
}

#[tokio::test]
async fn no_name_of_a_node_leads_a_request_to_another_url() {
    let (client, edge, urls) = recorded_edge();
    for evil in EVIL {
        for message in messages(evil) {
            let asked = message.clone();
            let sent = dispatch(&client, &edge, "edge-1", message);
            tokio::time::timeout(std::time::Duration::from_secs(60), sent)
                .await
                .unwrap_or_else(|_| panic!("not answered: {asked:?}"));
            let urls = std::mem::take(&mut *urls.lock());
            assert!(
                urls.iter().all(|url| !url.contains(evil)),
                "{urls:?} for {asked:?}"
            );
        }
    }
    let namespaces = Api::<Namespace>::all(client)
        .list(&Default::default())
        .await
        .unwrap();
    let names: Vec<String> = namespaces.iter().map(ResourceExt::name_any).collect();
    assert!(!names.iter().any(|name| name == "pwn"), "{names:?}");
}

/// The content of an event's message is sent to the API as it is: it must be the event.
#[tokio::test]
async fn an_event_that_is_another_object_is_not_written() {
    let (client, edge, urls) = recorded_edge();
    for (place, content) in [
        ("default/event/pwn", everything()),
        ("kube-system/event/pwn", {
            let mut event = everything();
            event["kind"] = "Event".into();
            event["metadata"]["namespace"] = "default".into();
            event
        }),
    ] {
        dispatch(
            &client,
            &edge,
            "edge-1",
            message(["edged", "meta", "insert", place], &content),
        )
        .await;
        let urls = std::mem::take(&mut *urls.lock());
        assert!(urls.iter().all(|url| !url.contains("/events")), "{urls:?}");
    }
}

#[tokio::test]
async fn what_a_node_sends_is_no_line_of_the_log_and_fills_none() {
    let forged = "a\n2026-01-01T00:00:00Z ERROR FAKE LINE\u{1b}[31m\u{202e}";
    let long = "n".repeat(900_000);
    let token = json!({"spec": {"audiences": [long], "boundObjectRef":
        {"kind": "Pod", "apiVersion": "v1", "name": long, "uid": "u"}}});
    for text in [forged, &long] {
        let call = json!({"ID": text, "Key": text, "Verb": text, "Nodename": text});
        let event =
            json!({"involvedObject": {"kind": text, "name": text}, "source": {"host": text}});
        let mut messages = vec![
            message([text, text, text, text], &Value::Null),
            message(["edged", text, "query", text], &Value::Null),
            message(["edged", "meta", "query", text], &Value::Null),
            message(
                ["edged", "meta", "query", &format!("default/secret/{text}")],
                &Value::Null,
            ),
            message(
                ["edged", "meta", "query", &format!("{text}/secret/s")],
                &Value::Null,
            ),
            message(
                ["edged", "meta", "query", &format!("default/{text}/s")],
                &Value::Null,
            ),
            message(
                ["edged", "meta", "insert", &format!("default/event/{text}")],
                &event,
            ),
            message(["edged", "meta", "insert", "default/event/e"], &event),
            message(
                [
                    "edged",
                    "meta",
                    "query",
                    "default/serviceaccounttoken/default",
                ],
                &token,
            ),
            message(["websocket", "hub", "upgrade", text], &Value::Null),
            message(["twin", "resource", "update", text], &Value::Null),
            message(
                [
                    "twin",
                    "resource",
                    "update",
                    &format!("device/ns/{text}/twin/edge_updated"),
                ],
                &json!({}),
            ),
            message(["metaserver", "dynamiccontroller", "null", "null"], &call),
            message(
                ["metaserver", "dynamiccontroller", "null", "watchapp/sync"],
                &json!({text: call}),
            ),
        ];
        let labels = json!({"metadata": {"name": "edge-1", "labels": {format!("kubernetes.io/{text}"): ""}}});
        messages.push(message(
            ["edged", "meta", "insert", "null/node/edge-1"],
            &labels,
        ));
        for message in messages {
            let words = message.route.summary();
            let (_, log) = handle(&edge(), message).await;
            assert!(log.lines().count() <= 1, "{words}: {log}");
            assert!(log.len() < 2000, "{words}: {} bytes", log.len());
            assert!(
                !log.trim_end().contains(char::is_control),
                "{words}: {log:?}"
            );
        }
    }
}
