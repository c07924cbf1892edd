//! Garbage collection: deletes the dependents of deleted owners in the background, before the owner (`foregroundDeletion`), or not at all
//! (`orphan`).
//!
//! One watch of each kind's metadata updates one graph, which one task owns; up to [`CONCURRENT_DELETES`] tasks carry out its decisions.

use std::{collections::VecDeque, time::Duration};

use clock::{HashMap, HashSet};
use futures::StreamExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::DynamicObject,
    core::PartialObjectMeta,
    runtime::{WatchStreamExt, watcher},
};
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{MissedTickBehavior, sleep},
};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{debug, warn};

mod act;
mod graph;
mod kinds;

pub(crate) use self::kinds::{ServedKind, list_served};
use self::{
    act::{ActionResult, Actor},
    graph::{Decision, Graph, KindId, Node, Owner},
    kinds::Kinds,
};
use crate::{
    controllers::{changes::changes, panics::catch_panic},
    tasks::Tasks,
};

/// How often kinds are discovered, besides after changes of definitions: aggregated API servers may serve kinds without any definition.
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(30);
/// The capacity of the channel of watch events, which the graph applies at once.
const EVENT_QUEUE: usize = 1024;
/// How many objects are handled at the same time.
const CONCURRENT_DELETES: usize = 32;
/// How many absent owners are remembered, to look up each only once.
const REMEMBERED: usize = 10_000;

type Metadata = PartialObjectMeta<DynamicObject>;

/// A message of a watch to the graph.
enum WatchMessage {
    Event(Box<watcher::Event<Metadata>>),
    /// The watch fails, so nothing must wait for its list.
    Broken,
}

/// Runs until `stop`.
pub(crate) async fn run(client: Client, tasks: Tasks, stop: CancellationToken) {
    let (sender, mut receiver) = mpsc::channel(EVENT_QUEUE);
    let mut definitions = std::pin::pin!(changes::<CustomResourceDefinition>(client.clone()));
    let mut collector = Collector::new(client, tasks);
    let mut discovery = tokio::time::interval(DISCOVERY_INTERVAL);
    discovery.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        // every branch can be dropped at its await: ticks and messages remain, and a finished task is not yet joined
        clock::select! {
            () = stop.cancelled() => return,
            Some(()) = definitions.next() => discovery.reset_immediately(),
            _ = discovery.tick() => collector.discover(&sender, &stop).await,
            Some((kind, news)) = receiver.recv() => collector.observe(kind, news),
            Some(done) = collector.tasks.join_next() => collector.finish(done),
        }
        collector.work();
    }
}

/// The owner of the graph.
struct Collector {
    actor: Actor,
    kinds: Kinds,
    graph: Graph,
    /// The watches, which end with these guards.
    watches: HashMap<KindId, DropGuard>,
    /// Kinds that were not completely listed yet.
    unlisted: HashSet<KindId>,
    /// While a kind is listed again: the known objects that were not listed so far.
    relisted: HashMap<KindId, HashSet<String>>,
    queue: VecDeque<String>,
    queued: HashSet<String>,
    busy: HashSet<String>,
    absent: HashSet<String>,
    tasks: JoinSet<ActionResult>,
    /// The cloud's tasks, which include each kind's watch and report its panic.
    cloud: Tasks,
}

impl Collector {
    fn new(client: Client, cloud: Tasks) -> Self {
        let kinds = Kinds::default();
        Self {
            actor: Actor {
                client,
                kinds: kinds.clone(),
            },
            kinds,
            graph: Graph::default(),
            watches: HashMap::default(),
            unlisted: HashSet::default(),
            relisted: HashMap::default(),
            queue: VecDeque::new(),
            queued: HashSet::default(),
            busy: HashSet::default(),
            absent: HashSet::default(),
            tasks: JoinSet::new(),
            cloud,
        }
    }

    async fn discover(
        &mut self,
        sender: &mpsc::Sender<(KindId, WatchMessage)>,
        stop: &CancellationToken,
    ) {
        let served = match list_served(&self.actor.client).await {
            Ok(served) => served,
            Err(error) => {
                warn!(
                    error = &error as &dyn std::error::Error,
                    "API discovery failed; retrying"
                );
                return;
            }
        };
        // events neither own nor are owned, and are many
        let served = served
            .into_iter()
            .filter(|kind| kind.resource.kind != "Event")
            .collect();
        let changes = self.kinds.update(served);
        for number in changes.gone {
            self.forget_kind(number);
        }
        if changes.new.is_empty() {
            return;
        }
        for (number, kind) in changes.new {
            let stop = stop.child_token();
            self.unlisted.insert(number);
            self.watches.insert(number, stop.clone().drop_guard());
            let watch = watch(
                self.actor.client.clone(),
                number,
                kind,
                sender.clone(),
                stop,
            );
            self.cloud.spawn("garbage-collector", watch);
        }
        // owners of such a kind could not be looked up before
        for uid in self.graph.with_unknown_owner() {
            self.enqueue(uid);
        }
    }

    /// Removes a kind that is no longer served, with its objects.
    fn forget_kind(&mut self, kind: KindId) {
        self.watches.remove(&kind);
        self.unlisted.remove(&kind);
        self.relisted.remove(&kind);
        for uid in self.graph.of_kind(kind) {
            for concerned in self.graph.remove(&uid) {
                self.enqueue(concerned);
            }
        }
    }

    fn observe(&mut self, kind: KindId, news: WatchMessage) {
        if !self.watches.contains_key(&kind) {
            return;
        }
        let event = match news {
            WatchMessage::Broken => {
                self.unlisted.remove(&kind);
                return;
            }
            WatchMessage::Event(event) => *event,
        };
        let concerned = match event {
            watcher::Event::Init => {
                self.relisted.insert(kind, self.graph.of_kind(kind));
                Vec::new()
            }
            watcher::Event::InitDone => {
                self.unlisted.remove(&kind);
                let gone = self.relisted.remove(&kind).unwrap_or_default();
                gone.iter().flat_map(|uid| self.graph.remove(uid)).collect()
            }
            watcher::Event::InitApply(object) => {
                let node = node(kind, &object);
                if let Some(missing) = self.relisted.get_mut(&kind) {
                    missing.remove(&node.uid);
                }
                self.graph.apply(node)
            }
            watcher::Event::Apply(object) => self.graph.apply(node(kind, &object)),
            watcher::Event::Delete(object) => {
                let uid = object.uid().unwrap_or_default();
                self.remember_absent(uid.clone());
                self.graph.remove(&uid)
            }
        };
        for uid in concerned {
            self.enqueue(uid);
        }
    }

    fn remember_absent(&mut self, uid: String) {
        if self.absent.len() >= REMEMBERED {
            self.absent.clear();
        }
        self.absent.insert(uid);
    }

    fn enqueue(&mut self, uid: String) {
        if self.queued.insert(uid.clone()) {
            self.queue.push_back(uid);
        }
    }

    /// Handles as many objects as allowed at the same time, once all objects are known.
    fn work(&mut self) {
        if !self.unlisted.is_empty() {
            return;
        }
        // an object that is being handled is queued again afterwards
        for _ in 0..self.queue.len() {
            if self.busy.len() >= CONCURRENT_DELETES {
                return;
            }
            let Some(uid) = self.queue.pop_front() else {
                return;
            };
            if self.busy.contains(&uid) {
                self.queue.push_back(uid);
                continue;
            }
            self.queued.remove(&uid);
            let decision = self.graph.decide(&uid, &self.absent);
            let Some(node) = self
                .graph
                .get(&uid)
                .filter(|_| decision != Decision::Nothing)
            else {
                continue;
            };
            debug!(name = %node.name, decision = decision.as_str(), "owners of an object changed");
            self.busy.insert(uid);
            let (actor, node) = (self.actor.clone(), node.clone());
            self.tasks.spawn(async move {
                let acting = actor.act(&node, decision);
                match catch_panic("garbage-collector", &node.name, acting).await {
                    Ok(done) => done,
                    Err(wait) => {
                        sleep(wait).await;
                        ActionResult::again(node.uid)
                    }
                }
            });
        }
    }

    fn finish(&mut self, done: Result<ActionResult, tokio::task::JoinError>) {
        // a panic is caught in the task, and nothing aborts it
        let Ok(done) = done else { return };
        self.busy.remove(&done.uid);
        for uid in done.absent {
            self.remember_absent(uid);
        }
        if done.again {
            self.enqueue(done.uid);
        }
    }
}

fn node(kind: KindId, object: &Metadata) -> Node {
    let meta = object.meta();
    let owner = |owner: &k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference| Owner {
        api_version: owner.api_version.clone(),
        kind: owner.kind.clone(),
        name: owner.name.clone(),
        uid: owner.uid.clone(),
        blocks: owner.block_owner_deletion == Some(true),
    };
    Node {
        kind,
        namespace: meta.namespace.clone().unwrap_or_default(),
        name: meta.name.clone().unwrap_or_default(),
        uid: meta.uid.clone().unwrap_or_default(),
        owners: meta.owner_references.iter().flatten().map(owner).collect(),
        deleting: meta.deletion_timestamp.is_some(),
        finalizers: meta.finalizers.clone().unwrap_or_default(),
    }
}

async fn watch(
    client: Client,
    number: KindId,
    kind: ServedKind,
    sender: mpsc::Sender<(KindId, WatchMessage)>,
    stop: CancellationToken,
) {
    let api: Api<Metadata> = Api::all_with(client, &kind.resource);
    let events = watcher::watcher(api, watcher::Config::default())
        .default_backoff()
        .take_until(stop.cancelled_owned());
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        let news = event.map_or_else(
            |error| {
                debug!(kind = %kind.resource.kind, error = &error as &dyn std::error::Error, "watch interrupted; restarting");
                WatchMessage::Broken
            },
            |event| WatchMessage::Event(Box::new(event)),
        );
        if sender.send((number, news)).await.is_err() {
            return;
        }
    }
}
