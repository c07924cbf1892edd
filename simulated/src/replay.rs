//! Records the first node of a world, and plays its messages against the cloud of another world.

use std::{sync::Arc, time::Duration};

use peer::{
    session::{Automatic, Session},
    transport::Outgoing,
};
use record::Recorder;
use replay::{Link, Outcome, Plan, PlayOptions, Player, drive};
use serde_json::{Value, json};
use tokio::{io::duplex, sync::mpsc};
use tokio_tungstenite::{WebSocketStream, tungstenite::protocol::Role};
use wire::Message;

use crate::{Faults, World, settled::list, watcher::neutral, world::PODS};

/// How many bytes either end may be ahead.
const BUFFER: usize = 64 * 1024;
/// How long a message of the cloud is awaited, in virtual time.
const PATIENCE: Duration = Duration::from_secs(30);

/// The session of the played node.
struct SimulatedLink(Session);

impl Link for SimulatedLink {
    fn sender(&self) -> mpsc::Sender<Outgoing> {
        self.0.sender()
    }

    async fn next(&mut self) -> Result<Message, String> {
        self.0.next().await
    }

    async fn reconnect(&mut self) -> Result<(), String> {
        Err("a simulated node connects once".to_owned())
    }

    // the session ends with the link, when the world is no longer used
    async fn finish(&mut self) {}
}

impl World {
    /// Creates a settled world with this seed and with running pods, and records what its nodes send and receive.
    pub async fn with_recorder(seed: u64, recorder: Recorder) -> Self {
        let world = Self::new(seed, Faults::NONE).await;
        world.watcher.record_with(recorder);
        world.settled_with_pods().await
    }

    /// Creates a world with the same pods, and plays the first node against its cloud.
    pub async fn replay(seed: u64, plan: Plan) -> (Self, Outcome) {
        let mut world = Self::new(seed, Faults::NONE).await;
        world.create_pods().await;
        let node = world.nodes[0].name.clone();
        let (near, far) = duplex(BUFFER);
        assert!(world.cloud.accept(&node, far), "the cloud runs");
        let socket = WebSocketStream::from_raw_socket(near, Role::Client, None).await;
        let automatic = Automatic {
            keepalive: true,
            acknowledge: false,
        };
        let mut link = SimulatedLink(Session::start(socket, automatic));
        let options = PlayOptions {
            node,
            speed: None,
            patience: PATIENCE,
            // so that no time is another one
            started: plan.script.sent.first().map_or(0, |sent| sent.time),
        };
        let player = Player::new(plan, options);
        let outcome = drive(player, &mut link, None, |_| ()).await;
        (world, outcome.expect("a small replay"))
    }

    /// Creates all pods, on each node in turn.
    pub(crate) async fn create_pods(&mut self) {
        for (number, name) in PODS.iter().enumerate() {
            let node = number % self.nodes.len();
            self.create_pod_on(name, node).await;
        }
    }

    /// Returns what the cloud knows of the first node: the Node, and its pods. What is another one in each cloud is left out.
    pub fn end_state(&self) -> Value {
        let store = Arc::clone(self.cloud.store.inner());
        let name = &self.nodes[0].name;
        let objects = |plural: &str| -> Vec<Value> {
            let of_node = |object: &Value| {
                object["metadata"]["name"] == **name || object["spec"]["nodeName"] == **name
            };
            let mut found: Vec<Value> = list(&store, plural)
                .into_iter()
                .filter(of_node)
                .map(|object| {
                    let mut object = neutral(object);
                    if let Some(metadata) = object["metadata"].as_object_mut() {
                        metadata.retain(|key, _| key != "uid" && key != "creationTimestamp");
                    }
                    object
                })
                .collect();
            found.sort_by_key(|object| object["metadata"]["name"].to_string());
            found
        };
        json!({"nodes": objects("nodes"), "pods": objects("pods")})
    }
}
