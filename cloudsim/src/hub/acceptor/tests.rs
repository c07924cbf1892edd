//! Sessions in which a task panics: each ends alone, and its node may come back.

use std::sync::Arc;

use futures::{SinkExt, StreamExt};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client, client::Body};
use kubeapi::Registry;
use objectstore::MemoryStore;
use parking_lot::Mutex;
use serde_json::json;
use testkit::{eventually, within};
use tokio::{io::duplex, task::JoinHandle};
use tokio_tungstenite::tungstenite;
use wire::{Change, Message, ResourceType, Upstream};

use super::*;
use crate::{controllers::events::Recorder, tasks::Tasks};

/// A hub whose API calls panic, or are never answered, if their path ends as configured.
struct World {
    acceptor: Acceptor,
    mailboxes: Mailboxes,
    fatal: Arc<Mutex<Option<&'static str>>>,
    silent: Arc<Mutex<Option<&'static str>>>,
    shutdown: CancellationToken,
}

impl Drop for World {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

impl World {
    async fn new() -> Self {
        let registry = Registry::builtin().with_crds(&crds::all());
        let stored = apiserver::builder(MemoryStore::new())
            .registry(registry)
            .build()
            .client("default");
        for name in ["edge-1", "edge-2"] {
            let node: Node = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
            Api::all(stored.clone())
                .create(&Default::default(), &node)
                .await
                .unwrap();
        }
        let fatal = Arc::<Mutex<Option<&str>>>::default();
        let silent = Arc::<Mutex<Option<&str>>>::default();
        let (is_fatal, is_silent) = (fatal.clone(), silent.clone());
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let is_fatal = is_fatal
                .lock()
                .is_some_and(|end| request.uri().path().ends_with(end));
            let is_silent = is_silent
                .lock()
                .is_some_and(|end| request.uri().path().ends_with(end));
            let stored = stored.clone();
            // in the answer's future, which the caller polls
            async move {
                assert!(!is_fatal, "on purpose, at {}", request.uri().path());
                if is_silent {
                    std::future::pending::<()>().await;
                }
                stored.send(request).await
            }
        });
        let client = Client::new(service, "default");
        let (mailboxes, shutdown, tasks) = (
            Mailboxes::default(),
            CancellationToken::new(),
            Tasks::default(),
        );
        let edge = Edge::new(client.clone(), mailboxes.clone(), "");
        let events = Recorder::spawn(&tasks, &client, &shutdown);
        let devices = Devices::new(client.clone(), mailboxes.clone(), events);
        tasks.spawn("edge controller", edge.clone().run(shutdown.child_token()));
        let controllers = (edge.clone(), Dynamic::new(client.clone(), edge), devices);
        let records = SyncRecords::new(client);
        let acceptor = Acceptor::new(controllers, records, mailboxes.clone(), Limits::default());
        Self {
            acceptor,
            mailboxes,
            fatal,
            silent,
            shutdown,
        }
    }

    async fn connect(&self, node: &'static str) -> Connected {
        let (ours, theirs) = duplex(64 * 1024);
        let (acceptor, shutdown) = (self.acceptor.clone(), self.shutdown.child_token());
        let session =
            tokio::spawn(async move { acceptor.accept_node(node, theirs, &shutdown).await });
        Connected {
            node,
            socket: WebSocketStream::from_raw_socket(ours, Role::Client, None).await,
            session,
        }
    }

    async fn wait_connected(&self, nodes: &[&str]) {
        eventually("these nodes are connected, and no others", async || {
            let mut all = self.mailboxes.nodes();
            all.sort();
            if all == nodes { Ok(()) } else { Err(all) }
        })
        .await;
        assert_eq!(self.acceptor.0.sessions.list().len(), nodes.len());
    }
}

/// A node's end of its connection, and the task of its session.
struct Connected {
    node: &'static str,
    socket: WebSocketStream<DuplexStream>,
    session: JoinHandle<()>,
}

impl Connected {
    async fn say(&mut self, message: Message) {
        let text = wire::json::encode(&message);
        self.socket
            .send(tungstenite::Message::text(text))
            .await
            .expect("the hub reads");
    }

    /// Waits for the answer to a query for its own Node.
    async fn is_served(&mut self) {
        let question = Upstream::query("default", &ResourceType::Node, self.node).into_message(0);
        let id = question.header.msg_id.clone();
        self.say(question).await;
        let answered = async {
            while let Some(frame) = self.socket.next().await {
                let frame = frame.expect("a frame").into_data();
                if !frame.is_empty()
                    && wire::json::decode(&frame, usize::MAX)
                        .unwrap()
                        .header
                        .parent_msg_id
                        == id
                {
                    return true;
                }
            }
            false
        };
        assert!(within("an answer", answered).await, "the connection ended");
    }

    /// Waits until the hub has ended the connection, and its session.
    async fn ends(mut self) {
        let ended = async { while let Some(Ok(_)) = self.socket.next().await {} };
        within("the end of the connection", ended).await;
        within("the end of the session", self.session)
            .await
            .expect("it says why");
    }
}

#[tokio::test]
async fn a_panic_in_a_session_ends_it_alone_and_its_node_may_come_back() {
    let world = World::new().await;
    let mut other = world.connect("edge-2").await;
    other.is_served().await;
    *world.fatal.lock() = Some("/nodes/edge-1");
    world.connect("edge-1").await.ends().await;
    world.wait_connected(&["edge-2"]).await;
    other.is_served().await;
    *world.fatal.lock() = None;
    let mut again = world.connect("edge-1").await;
    again.is_served().await;
    world.wait_connected(&["edge-1", "edge-2"]).await;
    other.is_served().await;
}

#[tokio::test]
async fn a_panic_while_a_request_is_carried_out_ends_the_session_of_who_asked() {
    let world = World::new().await;
    let (mut other, mut one) = (world.connect("edge-2").await, world.connect("edge-1").await);
    other.is_served().await;
    one.is_served().await;
    *world.fatal.lock() = Some("/namespaces/broken/events");
    let event = json!({"metadata": {"name": "a.1", "namespace": "broken"}, "reason": "Rebooted",
        "involvedObject": {"kind": "Node", "name": "edge-1"}, "source": {"host": "edge-1"}});
    one.say(
        Upstream::put(Change::Insert, "broken", &ResourceType::Event, "a.1", event).into_message(0),
    )
    .await;
    one.ends().await;
    world.wait_connected(&["edge-2"]).await;
    other.is_served().await;
    *world.fatal.lock() = None;
    world.connect("edge-1").await.is_served().await;
}

#[tokio::test]
async fn a_session_is_over_for_the_table_before_the_api_has_answered_its_requests() {
    let world = World::new().await;
    let mut other = world.connect("edge-2").await;
    other.is_served().await;
    *world.silent.lock() = Some("/persistentvolumes/never");
    for _ in 0..3 {
        let mut one = world.connect("edge-1").await;
        one.is_served().await;
        one.say(Upstream::query("", &ResourceType::PersistentVolume, "never").into_message(0))
            .await;
        drop(one.socket);
        world.wait_connected(&["edge-2"]).await;
        other.is_served().await;
    }
    world.connect("edge-1").await.is_served().await;
}
