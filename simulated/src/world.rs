//! A world: a cloud, two nodes, and the operations on them.

use std::{future::Future, time::Duration};

use testkit::Random;
use tokio::time::{Instant, sleep};

use crate::{Faults, Trace, cloud::Cloud, node::Node, settled, watcher::Watcher};

/// The names of pods.
pub(crate) const PODS: [&str; 6] = ["pod-a", "pod-b", "pod-c", "pod-d", "pod-e", "pod-f"];

/// How long settling may take: longer than any retry delay.
const SETTLING: Duration = Duration::from_secs(120);
/// How often it is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A simulated world.
pub struct World {
    pub(crate) seed: u64,
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

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The number of the trace's lines, and their digest.
    pub digest: (u64, u64),
    /// The violations of rules with the newest lines of the trace; `None` if there are none.
    pub broken: Option<String>,
}

/// Runs `story` in virtual time, which advances as soon as nothing is left to do at one instant.
pub fn run<T>(story: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    runtime.expect("a runtime").block_on(story)
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
            seed,
            chance: Random::of(seed, &["steps"], 0),
            cloud,
            nodes,
            watcher,
            faults,
        }
    }

    /// Runs one seed: a life, then the end of all faults. `show` keeps the whole trace.
    pub async fn live(seed: u64, life: Life, show: bool) -> (Run, Trace) {
        let faults = Faults {
            delay: 20,
            twice: 20,
            last: 10,
        };
        let mut world = Self::new(seed, faults).await;
        let begun = Instant::now();
        if show {
            world.watcher.trace(Trace::keep_all);
        }
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
        world.end()
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
        self.watcher.note(format_args!("all faults end"));
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
            self.watcher.note(format_args!("{} connects", node.name));
            self.cloud.accept(&node.name, end);
        }
    }

    /// Ends a node's connection.
    pub fn cut_link(&mut self, node: usize) {
        let node = &mut self.nodes[node];
        if node.connection.take().is_some() {
            self.watcher.note(format_args!("{} is cut off", node.name));
        }
    }

    /// Returns the watcher, which has recorded everything.
    pub fn watcher(&self) -> &Watcher {
        &self.watcher
    }

    fn end(self) -> (Run, Trace) {
        let broken = self.watcher.violations();
        let trace = self
            .watcher
            .trace(|trace| std::mem::replace(trace, Trace::new()));
        let broken = (!broken.is_empty()).then(|| {
            format!(
                "seed {}:\n{trace}\nbroken:\n{}",
                self.seed,
                broken.join("\n")
            )
        });
        (
            Run {
                digest: trace.digest(),
                broken,
            },
            trace,
        )
    }
}
