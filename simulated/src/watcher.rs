//! The watcher sees every message and event, and checks these rules:
//!
//! 1. what a node acknowledges is in its store;
//! 2. a pod is started only once, whatever happens to connections and agents;
//! 3. a pod is stopped only when the cloud has deleted it;
//! 4. a node is sent only its own objects, and changes no others;
//! 5. nobody is shown the same state twice.
//!
//! Whether nothing is lost is checked when the world has settled: see [`crate::settled`].

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    sync::Arc,
};

use futures::FutureExt;
use objectstore::{Event, EventKind, Key, MemoryStore, Resource, Store};
use parking_lot::Mutex;
use record::{ConnectionRecorder, Recorder, Side, Transport};
use serde_json::Value;
use wire::{
    Change, Down, Downstream, Message, ResourcePath, ResourceType, Up, Upstream, lane::needs_ack,
};

/// For how many messages of a node an acknowledgement may still come.
const REMEMBERED: usize = 256;
/// The value that a node writes into objects that are not its own.
pub(crate) const FOREIGN: &str = "written by another node";

/// The direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the node to the cloud.
    Up,
    /// From the cloud to the node.
    Down,
}

/// The watcher; cheap to clone.
#[derive(Clone)]
pub struct Watcher(Arc<Mutex<State>>);

struct State {
    broken: Vec<String>,
    cloud: Option<Arc<MemoryStore>>,
    nodes: BTreeMap<String, Seen>,
    recorder: Recorder,
    /// One recorded connection for each node.
    recorded: BTreeMap<String, ConnectionRecorder>,
}

/// What is known of one node.
#[derive(Default)]
struct Seen {
    store: Option<Arc<MemoryStore>>,
    /// The states that the cloud has sent, by message id.
    sent: VecDeque<(String, Sent)>,
    /// The pods that were ever bound to the node, and what they use: kind and name.
    own: HashSet<(ResourceType, String)>,
    starts: BTreeMap<String, u32>,
}

/// A state that the cloud has sent.
#[derive(Clone)]
struct Sent {
    key: Key,
    uid: String,
    /// The revision; `None` for a deletion.
    revision: Option<u64>,
}

impl Watcher {
    pub(crate) fn new() -> Self {
        let state = State {
            broken: Vec::new(),
            cloud: None,
            nodes: BTreeMap::new(),
            recorder: Recorder::default(),
            recorded: BTreeMap::new(),
        };
        Self(Arc::new(Mutex::new(state)))
    }

    /// Returns the violations of rules so far.
    pub fn violations(&self) -> Vec<String> {
        self.0.lock().broken.clone()
    }

    /// Records the messages from now on.
    pub(crate) fn record_with(&self, recorder: Recorder) {
        self.0.lock().recorder = recorder;
    }

    pub(crate) fn broke(&self, what: String) {
        self.0.lock().broken.push(what);
    }

    pub(crate) fn cloud_is(&self, store: Arc<MemoryStore>) {
        self.0.lock().cloud = Some(store);
    }

    pub(crate) fn node_is(&self, node: &str, store: Arc<MemoryStore>) {
        let mut state = self.0.lock();
        let seen = state.nodes.entry(node.to_owned()).or_default();
        seen.own.insert((ResourceType::Node, node.to_owned()));
        seen.store = Some(store);
    }

    /// Allows the object to be sent to `node` from now on.
    pub(crate) fn belongs(&self, node: &str, kind: ResourceType, name: &str) {
        let mut state = self.0.lock();
        state
            .nodes
            .entry(node.to_owned())
            .or_default()
            .own
            .insert((kind, name.to_owned()));
    }

    /// Records that a message was put on the link.
    pub(crate) fn record_message(&self, node: &str, direction: Direction, message: &Message) {
        let mut state = self.0.lock();
        let arrow = if direction == Direction::Up {
            "▲"
        } else {
            "▼"
        };
        let route = &message.route;
        let what = if message.content == "OK" { " OK" } else { "" };
        state.record(node, direction, message);
        clock::trace(|| {
            format!(
                "{node} {arrow} {} {}{what}",
                route.operation.as_str(),
                display_path(route.resource.as_str())
            )
        });
        match direction {
            Direction::Up => state.told_by(node, message),
            Direction::Down => state.told_to(node, message),
        }
    }

    /// Records that a pod was started.
    pub(crate) fn record_start(&self, node: &str, name: &str, uid: &str) {
        let mut state = self.0.lock();
        clock::trace(|| format!("{node} starts {name}"));
        let starts = state
            .nodes
            .entry(node.to_owned())
            .or_default()
            .starts
            .entry(uid.to_owned())
            .or_default();
        *starts += 1;
        let starts = *starts;
        if starts > 1 {
            state
                .broken
                .push(format!("{node} started {name} ({uid}) {starts} times"));
        }
    }

    /// Records that a pod was stopped.
    pub(crate) fn record_stop(&self, node: &str, name: &str, uid: &str) {
        let mut state = self.0.lock();
        clock::trace(|| format!("{node} stops {name}"));
        let pod = state
            .cloud
            .as_ref()
            .and_then(|cloud| get(cloud, &pod_key(name)));
        let is_wanted = pod.is_some_and(|pod| {
            pod["metadata"]["uid"] == uid && pod["metadata"]["deletionTimestamp"].is_null()
        });
        if is_wanted {
            state.broken.push(format!(
                "{node} stopped {name} ({uid}), which the cloud has not deleted"
            ));
        }
    }

    /// Records that a watching client was shown `event`.
    pub(crate) fn record_event(&self, whom: &str, event: &Event) {
        let mut state = self.0.lock();
        let parsed = |json: &[u8]| {
            serde_json::from_slice::<Value>(json)
                .map(neutral)
                .unwrap_or_default()
        };
        if event.kind == EventKind::Modified
            && event
                .previous
                .as_ref()
                .is_some_and(|previous| parsed(&previous.json) == parsed(&event.object.json))
        {
            state.broken.push(format!(
                "{whom} was shown the same {} twice",
                event.object.key
            ));
        }
        if std::str::from_utf8(&event.object.json).is_ok_and(|json| json.contains(FOREIGN)) {
            state
                .broken
                .push(format!("{} was {FOREIGN}", event.object.key));
        }
    }
}

impl State {
    fn record(&mut self, node: &str, direction: Direction, message: &Message) {
        let side = match direction {
            Direction::Up => Side::Edge,
            Direction::Down => Side::Cloud,
        };
        let recorder = &self.recorder;
        let connection = self
            .recorded
            .entry(node.to_owned())
            .or_insert_with(|| recorder.connect(Transport::WebSocket, node, "", BTreeMap::new()));
        connection.message(side, message, 0);
    }

    fn told_to(&mut self, node: &str, message: &Message) {
        let down = Down::from(message.clone());
        let Downstream::Object {
            change,
            path,
            object,
            ..
        } = &down.body
        else {
            return;
        };
        let Some(place) = path.as_object() else {
            return;
        };
        let (name, namespace) = (
            place.name.unwrap_or_default(),
            place.namespace.unwrap_or_default(),
        );
        let seen = self.nodes.entry(node.to_owned()).or_default();
        let bound = object.pointer("/spec/nodeName").and_then(Value::as_str);
        let is_elsewhere =
            place.kind == ResourceType::Pod && bound.is_some_and(|bound| bound != node);
        if is_elsewhere || !seen.own.contains(&(place.kind.clone(), name.to_owned())) {
            self.broken.push(format!(
                "{node} was told of {path}, which is none of its own"
            ));
            return;
        }
        if needs_ack(message) {
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
            let revision = text("resourceVersion").parse().ok();
            let sent = Sent {
                key: Key::new(Resource::new("", plural(&place.kind)), namespace, name),
                uid: text("uid").to_owned(),
                revision: revision.filter(|_| *change != Change::Delete),
            };
            seen.sent.push_back((message.header.msg_id.clone(), sent));
            if seen.sent.len() > REMEMBERED {
                seen.sent.pop_front();
            }
        }
    }

    fn told_by(&mut self, node: &str, message: &Message) {
        let up = Up::from(message.clone());
        let (Upstream::Ack { .. }, Some(seen)) = (&up.body, self.nodes.get(node)) else {
            return;
        };
        let parent = &up.header.parent_msg_id;
        let (Some((_, sent)), Some(store)) =
            (seen.sent.iter().find(|(id, _)| id == parent), &seen.store)
        else {
            return;
        };
        if !is_kept(store, sent) {
            let what = if sent.revision.is_none() {
                "the end of "
            } else {
                ""
            };
            self.broken.push(format!(
                "{node} acknowledged {what}{} ({}, {:?}), which is not in its store",
                sent.key, sent.uid, sent.revision
            ));
        }
    }
}

/// Reports whether a store has what was sent, or something newer.
fn is_kept(store: &Arc<MemoryStore>, sent: &Sent) -> bool {
    let Key {
        resource,
        namespace,
        name,
    } = &sent.key;
    let record = Key::new(
        Resource::new("records.outrigger.dev", resource.as_str()),
        namespace.as_str(),
        name.as_str(),
    );
    let (object, record) = (get(store, &sent.key), get(store, &record));
    match (sent.revision, record) {
        (Some(_), None) => false,
        (Some(revision), Some(record)) => {
            record["uid"] != sent.uid.as_str()
                || record["revision"]
                    .as_u64()
                    .is_some_and(|kept| kept >= revision)
        }
        (None, Some(record)) => record["uid"] != sent.uid.as_str() || record["gone"] == true,
        (None, None) => object.is_none_or(|object| object["metadata"]["uid"] != sent.uid.as_str()),
    }
}

/// Returns an object of an in-memory store, which answers at once.
pub(crate) fn get(store: &Arc<MemoryStore>, key: &Key) -> Option<Value> {
    store.get(key).now_or_never()?.ok()??.value().ok()
}

/// Returns the key of a pod.
pub(crate) fn pod_key(name: &str) -> Key {
    Key::new(Resource::new("", "pods"), "default", name)
}

fn plural(kind: &ResourceType) -> &'static str {
    match kind {
        ResourceType::Pod => "pods",
        ResourceType::Node => "nodes",
        ResourceType::ConfigMap => "configmaps",
        ResourceType::Secret => "secrets",
        _ => "others",
    }
}

/// Removes what every write changes.
pub(crate) fn neutral(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.shift_remove("resourceVersion");
        metadata.shift_remove("managedFields");
    }
    object
}

/// Returns a resource path for the trace, without UIDs, which differ in each run.
fn display_path(path: &str) -> &str {
    ResourcePath::from(path).as_object().map_or("…", |_| path)
}
