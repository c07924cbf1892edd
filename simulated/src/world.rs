//! A world: a cloud, two nodes, and the operations on them.

use std::time::Duration;

use clock::Instant;
use testkit::Random;
use tokio::time::sleep;

use crate::{Faults, cloud::Cloud, node::Node, settled, watcher::Watcher};

/// The names of pods.
pub(crate) const PODS: [&str; 6] = ["pod-a", "pod-b", "pod-c", "pod-d", "pod-e", "pod-f"];

/// How long settling may take: longer than any retry delay.
const SETTLING: Duration = Duration::from_secs(120);
/// How often it is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A simulated world.
pub struct World {
    pub(crate) chance: Random,
    pub(crate) cloud: Cloud,
    pub(crate) nodes: Vec<Node>,
    pub(crate) watcher: Watcher,
    pub(crate) faults: Faults,
}

/// The length of a world's life.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    /// The number of steps.
    pub steps: u32,
    /// The least virtual time of the life; what has ended in between comes back.
    pub time: Duration,
}

impl World {
    /// Creates a world with this seed, whose links have these faults; everything runs and nothing is connected.
    pub async fn new(seed: u64, faults: Faults) -> Self {
        let watcher = Watcher::new();
        let mut cloud = Cloud::new(seed, &watcher).await;
        cloud.start();
        let node = |name: &str| Node::new(name, seed, &watcher);
        let mut nodes = vec![node("edge-1"), node("edge-2")];
        nodes.iter_mut().for_each(Node::start);
        Self {
            chance: Random::of(seed, &["steps"], 0),
            cloud,
            nodes,
            watcher,
            faults,
        }
    }

    /// Runs one seed: a life, then the end of all faults. Returns the violations of rules.
    pub async fn live(seed: u64, life: Life) -> Vec<String> {
        let faults = Faults {
            delay: 20,
            twice: 20,
            last: 10,
        };
        let mut world = Self::new(seed, faults).await;
        let begun = Instant::now();
        for number in 1..=life.steps {
            world.step().await;
            // Each step has an equal part of the time, however long it took itself.
            world.spend(begun + life.time / life.steps * number).await;
            if !world.watcher.violations().is_empty() {
                break;
            }
        }
        if world.watcher.violations().is_empty() {
            world.heal().await;
        }
        world.watcher.violations()
    }

    /// Creates a settled world with this seed and with running pods.
    pub async fn with_pods(seed: u64) -> Self {
        let world = Self::new(seed, Faults::NONE).await;
        world.settled_with_pods().await
    }

    pub(crate) async fn settled_with_pods(mut self) -> Self {
        self.create_pods().await;
        self.heal().await;
        self
    }

    /// Connects all nodes, makes a few steps, and ends all connections in the middle of them.
    pub async fn disconnect(&mut self, faults: Faults) {
        self.faults = faults;
        self.connect_all();
        self.small_step().await;
        (0..self.nodes.len()).for_each(|node| self.cut_link(node));
    }

    /// Ends all faults and waits until everything has arrived.
    pub async fn heal(&mut self) {
        clock::trace(|| "all faults end".to_owned());
        if !self.cloud.runs() {
            self.cloud.start();
        }
        for node in &mut self.nodes {
            if !node.runs() {
                node.start();
            }
        }
        self.faults = Faults::NONE;
        // Open links may swallow messages.
        (0..self.nodes.len()).for_each(|node| self.cut_link(node));
        let mut waited = Duration::ZERO;
        loop {
            self.connect_all();
            sleep(POLL_INTERVAL).await;
            waited += POLL_INTERVAL;
            let missing = settled::missing(self.cloud.store.inner(), &self.nodes);
            if missing.is_empty() || !self.watcher.violations().is_empty() {
                return;
            }
            if waited >= SETTLING {
                missing
                    .into_iter()
                    .for_each(|what| self.watcher.broke(format!("lost: {what}")));
                return;
            }
        }
    }

    /// Connects every node that is not connected.
    pub fn connect_all(&mut self) {
        (0..self.nodes.len()).for_each(|node| self.connect(node));
    }

    /// Connects a node, unless it is connected, or one end does not run.
    pub fn connect(&mut self, node: usize) {
        let node = &mut self.nodes[node];
        if node.is_connected() || !self.cloud.runs() {
            return;
        }
        if let Some(end) = node.connect(self.faults) {
            clock::trace(|| format!("{} connects", node.name));
            self.cloud.accept(&node.name, end);
        }
    }

    /// Ends a node's connection.
    pub fn cut_link(&mut self, node: usize) {
        let node = &mut self.nodes[node];
        if node.connection.take().is_some() {
            clock::trace(|| format!("{} is cut off", node.name));
        }
    }

    /// Returns the watcher, which has recorded everything.
    pub fn watcher(&self) -> &Watcher {
        &self.watcher
    }
}
