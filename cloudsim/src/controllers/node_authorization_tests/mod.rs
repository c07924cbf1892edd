//! What nodes may do, compared with Kubernetes: a table of its node authorizer, its admission plugin `NodeRestriction`, bound tokens and
//! kubelets' certificates.
//!
//! [`rows`] has the table; this module has its cluster, and makes the requests of a row: as messages of node `n1` over CloudHub, as calls
//! of its MetaServer, or to the API.

mod rows;

use std::{sync::Arc, time::Duration};

use clock::HashMap;
use http::Request;
use http_body_util::{BodyExt, Full};
use k8s_openapi::api::core::v1::Node;
use kube::{Client, ResourceExt};
use kubeapi::{Api, Identity};
use objectstore::MemoryStore;
use serde_json::{Value, json};
use testkit::until;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use wire::{
    Answer, Down, Downstream, Upstream,
    application::{Application, PatchInfo, Status, Verb},
    enroll::EcKey,
};

use self::rows::{Expect, NodeAction};
use super::{dispatcher::tests::dispatch, dynamic::Dynamic, edge::Edge};
use crate::{
    controllers::namespace_defaults,
    delivery::Reply,
    kinds,
    mailbox::{Mailboxes, ObjectKind, ObjectPath},
    pki::ServiceAccountTokens,
};

/// The path of namespace `ns`.
const NS: &str = "/api/v1/namespaces/ns";

struct World {
    api: Api,
    client: Client,
    edge: Edge,
    dynamic: Dynamic,
    /// UIDs by kind and name, as `pods/p1`.
    uids: HashMap<String, String>,
}

impl World {
    /// The cluster of the table: objects with a 1 in their name belong to pods on node n1, those with a 2 to pods on n2.
    async fn new(shutdown: &CancellationToken) -> Self {
        let tokens = Arc::new(ServiceAccountTokens::new(Duration::from_secs(24 * 60 * 60)));
        tokens.set_key(EcKey::generate().unwrap());
        let api = apiserver::builder(MemoryStore::new())
            .registry(kinds::registry())
            .token_issuer(tokens)
            .rbac(true);
        let api = api.build();
        let client = api.client("default");
        namespace_defaults::ensure_initial(&client).await.unwrap();
        let edge = Edge::new(client.clone(), Mailboxes::default(), "");
        let dynamic = Dynamic::new(client.clone(), edge.clone());
        let mut world = Self {
            api,
            client,
            edge,
            dynamic,
            uids: HashMap::default(),
        };
        for (path, object) in rows::objects() {
            world.create(path, object).await;
        }
        world
            .expect(
                "PATCH",
                &format!("{NS}/pods/p1/ephemeralcontainers"),
                rows::ephemeral(),
                200,
            )
            .await;
        world
            .expect(
                "DELETE",
                &format!("{NS}/pods/gone1"),
                json!({"gracePeriodSeconds": 0}),
                200,
            )
            .await;
        tokio::spawn(world.edge.clone().run(shutdown.clone()));
        let known = [
            ("n1", ObjectKind::Pod, "shared1"),
            ("n1", ObjectKind::Secret, "ephemeral1"),
        ];
        for (node, kind, name) in known
            .into_iter()
            .chain([("n2", ObjectKind::Pod, "shared2")])
        {
            let path = ObjectPath::new(kind, "ns", name);
            until(&format!("{name} is known"), || {
                world.edge.concerns(node, &path)
            })
            .await;
        }
        world
    }

    async fn create(&mut self, path: &str, object: Value) {
        let object = self.with_uids(object);
        let made = self.expect("POST", path, object, 201).await;
        let (plural, name) = (
            path.rsplit('/').next().unwrap(),
            made["metadata"]["name"].as_str().unwrap(),
        );
        let uid = made["metadata"]["uid"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        self.uids.insert(format!("{plural}/{name}"), uid);
    }

    async fn expect(&self, method: &str, path: &str, body: Value, code: u16) -> Value {
        let (found, body) = self
            .request(method, path, &body, Some(Identity::master()))
            .await;
        assert_eq!(found, code, "{method} {path}: {body}");
        body
    }

    async fn request(
        &self,
        method: &str,
        path: &str,
        body: &Value,
        caller: Option<Identity>,
    ) -> (u16, Value) {
        let media = match method {
            "PATCH" => "application/strategic-merge-patch+json",
            _ => "application/json",
        };
        let bytes = if body.is_null() {
            Vec::new()
        } else {
            body.to_string().into_bytes()
        };
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", media);
        if let Some(caller) = caller {
            request = request.extension(caller);
        }
        let request = request.body(Full::new(bytes::Bytes::from(bytes))).unwrap();
        let (parts, body) = self
            .api
            .service()
            .oneshot(request)
            .await
            .unwrap()
            .into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        (
            parts.status.as_u16(),
            serde_json::from_slice(&bytes).unwrap_or_default(),
        )
    }

    /// Replaces `$pods/p1` by the uid of that pod.
    fn with_uids(&self, value: Value) -> Value {
        let mut text = value.to_string();
        for (place, uid) in &self.uids {
            text = text.replace(&format!("\"${place}\""), &json!(uid).to_string());
        }
        serde_json::from_str(&text).unwrap()
    }

    /// Returns the code of the answer; 0 if there is none.
    async fn ask(&self, ask: &NodeAction) -> (u16, Value) {
        match ask {
            NodeAction::Hub(node, upstream) => {
                let mut message = upstream.clone().into_message(0);
                message.content = self.with_uids(message.content);
                // patches are JSON texts
                if let Some(text) = message
                    .content
                    .as_str()
                    .and_then(|text| serde_json::from_str(text).ok())
                {
                    message.content = self.with_uids(text);
                }
                match dispatch(&self.client, &self.edge, node, message).await {
                    None => (0, Value::Null),
                    Some(Reply::Direct(message)) => code_of(Down::from(message).body),
                    Some(Reply::Acknowledged(delivery)) => {
                        code_of(Down::from(Arc::unwrap_or_clone(delivery.message)).body)
                    }
                }
            }
            NodeAction::Meta(verb, key, part, body) => {
                self.meta(*verb, key, part, self.with_uids(body.clone()))
                    .await
            }
            NodeAction::Api(method, path, body) => {
                self.request(
                    method,
                    path,
                    &self.with_uids(body.clone()),
                    Some(Identity::master()),
                )
                .await
            }
            NodeAction::As(user, groups, method, path) => {
                let caller = Identity::new(*user, groups.iter().copied());
                self.request(method, path, &Value::Null, Some(caller)).await
            }
        }
    }

    async fn meta(&self, verb: Verb, key: &str, part: &str, body: Value) -> (u16, Value) {
        let (replies, _received) = mpsc::channel(8);
        let mut session = self.dynamic.open("n1", replies);
        let option = match verb {
            Verb::Patch => {
                let name = key.rsplit('/').next().unwrap_or_default().to_owned();
                let subresources = (!part.is_empty()).then(|| vec![part.to_owned()]);
                let patch_type = "application/strategic-merge-patch+json".to_owned();
                let data = body.to_string().into_bytes();
                json!(PatchInfo {
                    name,
                    patch_type,
                    data,
                    options: Value::Null,
                    subresources
                })
            }
            Verb::List | Verb::Watch => body.clone(),
            _ => json!({}),
        };
        let bytes = if body.is_null() {
            Vec::new()
        } else {
            body.to_string().into_bytes()
        };
        let call = Application::new("n1", key.to_owned(), verb, &option, bytes, part);
        let header = Upstream::query("", &wire::ResourceType::Node, "n1")
            .into_message(0)
            .header;
        let Some(Reply::Direct(answer)) = session.call(&header, &call.write()).await else {
            panic!("{key}")
        };
        let Downstream::Application(content) = Down::from(answer).body else {
            panic!("{key}")
        };
        let answer = Application::read(&content).unwrap();
        match answer.status {
            Status::Approved => (
                200,
                serde_json::from_slice(&answer.resp_body).unwrap_or_default(),
            ),
            _ => {
                let status = answer
                    .refusal()
                    .cloned()
                    .unwrap_or_else(|| json!({"message": answer.reason}));
                (status["code"].as_u64().unwrap_or(400) as u16, status)
            }
        }
    }
}

fn code_of(answer: Downstream) -> (u16, Value) {
    let failed = |status: Value| (status["code"].as_u64().unwrap_or(500) as u16, status);
    match answer {
        Downstream::Answer {
            answer: Answer::Found(object),
            ..
        } => (200, object),
        Downstream::Answer {
            answer: Answer::Done,
            ..
        } => (200, Value::Null),
        Downstream::Answer {
            answer: Answer::Failed(status),
            ..
        } => failed(status),
        Downstream::Answer {
            answer: Answer::Response(response),
            ..
        } => match response.into_result() {
            Ok(object) => (200, object),
            Err(status) => failed(status),
        },
        other => panic!("{other:?}"),
    }
}

/// Returns what is wrong with an answer.
fn difference(expected: &Expect, (code, body): &(u16, Value)) -> Option<String> {
    let ok = match expected {
        Expect::Allow | Expect::Wider(_) => matches!(code, 200 | 201),
        Expect::Deny | Expect::Stricter(_) => *code == 403,
        Expect::Code(wanted) => code == wanted,
        Expect::Narrowed(_) => {
            let is_own =
                |item: &Value| item["metadata"]["name"] == "n1" || item["spec"]["nodeName"] == "n1";
            *code == 200
                && body["items"]
                    .as_array()
                    .is_some_and(|items| items.iter().all(is_own))
        }
    };
    (!ok).then(|| format!("{expected:?} and not {code}: {body}"))
}

#[tokio::test]
async fn nodes_may_do_what_the_table_says() {
    let shutdown = CancellationToken::new();
    let _stop = shutdown.clone().drop_guard();
    let world = World::new(&shutdown).await;
    let table = rows::table();
    let numbers: Vec<u16> = table.iter().map(|row| row.number).collect();
    assert_eq!(numbers, (1..=134).collect::<Vec<_>>(), "every row, once");
    let mut wrong = Vec::new();
    for row in &table {
        assert!(
            !row.asks.is_empty() || row.note.len() > 10,
            "{}: a row has a question, or says why not",
            row.number
        );
        for (ask, expected) in &row.asks {
            if let Expect::Stricter(why) | Expect::Wider(why) | Expect::Narrowed(why) = expected {
                assert!(
                    why.len() > 20,
                    "{}: what differs from Kubernetes has its reason",
                    row.number
                );
            }
            let answer = world.ask(ask).await;
            if let Some(difference) = difference(expected, &answer) {
                wrong.push(format!(
                    "{} {}: {ask:?}: {difference}",
                    row.number, row.what
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
    // deletes what the allowed ones have created
    let nodes = kube::Api::<Node>::all(world.client.clone());
    assert!(
        nodes
            .get("n9")
            .await
            .unwrap()
            .labels()
            .contains_key("example.com/y")
    );
}
