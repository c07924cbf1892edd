//! What the kit's cloud has seen and keeps: messages of the edge, objects, the connection.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use kubeapi::patch::{ApplyOptions, PatchError, PatchKind, Target, patch};
use parking_lot::Mutex;
use peer::{
    Failure, fail, now_ms,
    transport::{Outgoing, Transport},
    tunnel::Tunnel,
};
use serde_json::{Value, json};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, timeout},
};
use wire::{
    Change, Downstream, Message, Operation, ResourcePath, Source, enroll::Ca, session::NODE_HEADER,
};

use super::options::Options;

/// Messages that are kept. Older ones are forgotten.
const MAX_SEEN: usize = 20_000;
/// KubeEdge sends an unacknowledged message again after 5 s.
const RETRANSMISSION_PERIOD: Duration = Duration::from_secs(5);
/// KubeEdge gives up after this many attempts, and begins again later.
const ATTEMPTS: u32 = 5;
/// How long an edge may take to connect again: EdgeCore waits 30 s before it dials, and 30 s more after five attempts.
pub(super) const CONNECT_DEADLINE: Duration = Duration::from_secs(120);

/// A cloud with one edge.
pub(super) struct Cloud {
    pub(super) ca: Ca,
    /// The image of the pods.
    pub(super) image: String,
    /// Whether the kit serves the stream tunnel.
    pub(super) has_tunnel: bool,
    /// That of sessions.
    pub(super) transport: Transport,
    /// The edge's MQTT broker, `host:port`.
    pub(super) mqtt: Option<String>,
    pub(super) state: Mutex<CloudState>,
    /// Counts changes of the state.
    changes: watch::Sender<u64>,
}

/// A request for a certificate.
#[derive(Clone)]
pub(super) struct Enrolment {
    pub(super) bearer: Option<String>,
    pub(super) node: String,
    /// DER.
    pub(super) csr: Vec<u8>,
}

/// The upgrade of a session.
#[derive(Clone)]
pub(super) struct SessionRequest {
    pub(super) path: String,
    pub(super) headers: BTreeMap<String, String>,
    /// The edge's certificate, DER.
    pub(super) certificate: Vec<u8>,
    pub(super) at: Instant,
}

/// A stream tunnel. Its pings are answered until a case takes it.
pub(super) struct OpenTunnel {
    pub(super) headers: BTreeMap<String, String>,
    /// Requests to hand over the tunnel; closed when it has ended or was taken.
    pub(super) requests: mpsc::Sender<oneshot::Sender<Tunnel>>,
}

/// A message of the edge.
#[derive(Clone)]
pub(super) struct Seen {
    pub(super) at: Instant,
    pub(super) message: Message,
}

#[derive(Default)]
pub(super) struct CloudState {
    pub(super) ca_requests: usize,
    pub(super) enrolments: Vec<Enrolment>,
    pub(super) sessions: Vec<SessionRequest>,
    pub(super) outgoing: Option<mpsc::Sender<Outgoing>>,
    /// The newest tunnel.
    pub(super) tunnel: Option<OpenTunnel>,
    /// Path on the wire -> object.
    pub(super) objects: BTreeMap<String, Value>,
    seen: VecDeque<Seen>,
    /// Messages that were forgotten.
    forgotten: usize,
    revision: u64,
}

impl Cloud {
    pub(super) fn new(ca: Ca, options: &Options) -> Self {
        Self {
            ca,
            image: options.image.clone(),
            has_tunnel: options.addresses.tunnel.is_some(),
            transport: options.transport,
            mqtt: options.mqtt.clone(),
            state: Mutex::default(),
            changes: watch::channel(0).0,
        }
    }

    /// Changes the state, and wakes those who wait for a change.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut CloudState) -> T) -> T {
        let result = change(&mut self.state.lock());
        self.changes.send_modify(|count| *count += 1);
        result
    }

    /// Keeps a message of the edge.
    pub(super) fn record(&self, message: Message) {
        self.change(|state| {
            if state.seen.len() == MAX_SEEN {
                state.seen.pop_front();
                state.forgotten += 1;
            }
            let at = Instant::now();
            state.seen.push_back(Seen { at, message });
        });
    }

    /// Returns the place after the last message, for [`Self::expect`].
    pub(super) fn mark(&self) -> usize {
        let state = self.state.lock();
        state.forgotten + state.seen.len()
    }

    /// Waits until the state gives a value.
    pub(super) async fn until<T>(
        &self,
        what: &str,
        within: Duration,
        look: impl Fn(&mut CloudState) -> Option<T>,
    ) -> Result<T, Failure> {
        let mut changes = self.changes.subscribe();
        let found = async {
            loop {
                changes.mark_unchanged();
                if let Some(found) = look(&mut self.state.lock()) {
                    return Some(found);
                }
                if changes.changed().await.is_err() {
                    return None;
                }
            }
        };
        match timeout(within, found).await {
            Ok(Some(found)) => Ok(found),
            _ => fail!("timed out after {within:?} waiting for {what}"),
        }
    }

    /// Waits for a message of the edge after `mark`.
    pub(super) async fn expect(
        &self,
        what: &str,
        (mark, within): (usize, Duration),
        wanted: impl Fn(&Message) -> bool,
    ) -> Result<Seen, Failure> {
        self.until(what, within, |state| {
            let skip = mark.saturating_sub(state.forgotten);
            let mut later = state.seen.iter().skip(skip);
            later.find(|seen| wanted(&seen.message)).cloned()
        })
        .await
    }

    /// Waits for `during`, in which the edge may not send a message that `unwanted` accepts.
    pub(super) async fn expect_none(
        &self,
        what: &str,
        (mark, during): (usize, Duration),
        unwanted: impl Fn(&Message) -> bool,
    ) -> Result<(), Failure> {
        match self.expect(what, (mark, during), unwanted).await {
            Ok(seen) => fail!("unexpected {what}: {}", seen.message.route.summary()),
            Err(_) => Ok(()),
        }
    }

    /// Sends anything to the edge, when it is connected.
    pub(super) async fn put(&self, anything: Outgoing) -> Result<(), Failure> {
        let outgoing = self
            .until("a session of the edge", CONNECT_DEADLINE, |state| {
                state.outgoing.clone().filter(|sender| !sender.is_closed())
            })
            .await?;
        // an edge that has just left is found by the next wait
        outgoing.send(anything).await.ok();
        Ok(())
    }

    /// Sends a message to the edge, when it is connected.
    pub(super) async fn send(&self, message: &Message) -> Result<(), Failure> {
        self.put(message.clone().into()).await
    }

    /// Sends a message again and again until it is acknowledged, as KubeEdge's cloud does.
    pub(super) async fn send_reliably(&self, message: &Message) -> Result<(), Failure> {
        let what = format!("the acknowledgement of {}", message.route.summary());
        let mark = self.mark();
        let mut last = Ok(());
        for _ in 0..ATTEMPTS {
            self.send(message).await?;
            let id = &message.header.msg_id;
            let acknowledged = self.expect(&what, (mark, RETRANSMISSION_PERIOD), |one| {
                one.route.operation == Operation::Response && one.header.parent_msg_id == *id
            });
            last = acknowledged.await.map(drop);
            if last.is_ok() {
                break;
            }
        }
        last
    }

    /// Stores an object, with a UID and a new revision, and returns it.
    pub(super) fn store(&self, path: &str, mut object: Value) -> Value {
        self.change(|state| {
            state.revision += 1;
            let uid = state.objects.get(path).map_or_else(
                || json!(uuid::Uuid::new_v4().to_string()),
                |old| old["metadata"]["uid"].clone(),
            );
            object["metadata"]["uid"] = uid;
            object["metadata"]["resourceVersion"] = json!((1000 + state.revision).to_string());
            state.objects.insert(path.to_owned(), object.clone());
            object
        })
    }

    /// Returns the message with a stored object's state.
    pub(super) fn message_of(change: Change, path: &str, object: Value) -> Message {
        let revision = object["metadata"]["resourceVersion"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let origin = if path.contains("/device/") || path.contains("/devicemodel/") {
            Source::DeviceController
        } else {
            Source::EdgeController
        };
        Downstream::Object {
            origin,
            change,
            path: ResourcePath::from(path.to_owned()),
            object,
        }
        .into_message(now_ms())
        .at_revision(&revision)
    }

    /// Stores an object and delivers it reliably. Returns the object.
    pub(super) async fn deliver(
        &self,
        change: Change,
        path: &str,
        object: Value,
    ) -> Result<Value, Failure> {
        let object = self.store(path, object);
        let message = Self::message_of(change, path, object.clone());
        self.send_reliably(&message).await?;
        Ok(object)
    }

    /// Applies a patch of a status to a stored object, and returns the object.
    pub(super) fn patch_status(&self, path: &str, kind: &str, body: &Value) -> Option<Value> {
        let current = self.state.lock().objects.get(path)?.clone();
        let target = Target {
            group: "",
            version: "v1",
            kind,
            schema: None,
        };
        let options = ApplyOptions {
            manager: "conformance",
            force: false,
            now: "2026-01-01T00:00:00Z",
            subresource: "status",
            ignored: &[],
            versions: None,
        };
        let patched: Result<Value, PatchError> = patch(
            PatchKind::Strategic,
            &target,
            Some(&current),
            body,
            &options,
        );
        Some(self.store(path, patched.ok()?))
    }

    /// Returns the edge's name.
    pub(super) fn node(&self) -> Result<String, Failure> {
        let state = self.state.lock();
        match state
            .sessions
            .last()
            .and_then(|one| one.headers.get(NODE_HEADER))
        {
            Some(name) => Ok(name.clone()),
            None => fail!("no edge has connected"),
        }
    }
}
