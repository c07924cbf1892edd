//! The table of tunnels by node: a newer tunnel of a node ends the older one. One table serves all replicas of the hub.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use clock::HashMap;
use jiff::Timestamp;
use kubeapi::{NodeAnswer, NodeError, NodeRequest, NodeStreams};
use parking_lot::Mutex;
use record::{ConnectionRecorder, Recorder, Transport};
use tokio::{
    sync::{Semaphore, mpsc},
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use wire::tunnel::{Frame, Kind, MAX_DATA};

use super::{
    answer, connect_request,
    metrics::StreamMetrics,
    stream::{NodeStream, Streams},
};
use crate::peers::ConnectionRecord;

/// The maximum number of streams of a node; `edge-agent` answers as many.
pub(super) const MAX_STREAMS: usize = 256;
/// Frames queued for a node. Each stream additionally waits for its turn.
const OUTBOUND_QUEUE: usize = 4;
/// How long the head of an answer may take. EdgeCore does not report that it cannot reach its own server.
pub(super) const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// The headers that a node sends when it dials.
#[derive(Clone, Debug, Default)]
pub(super) struct DialHeaders {
    /// The node's address; empty if it sends none.
    pub(super) address: String,
    /// The node's window for each stream; `None` if it has no windows.
    pub(super) window: Option<usize>,
}

/// A tunnel, for opening streams on it.
#[derive(Clone, Debug)]
struct Tunnel {
    number: u64,
    since: Timestamp,
    /// The node's address, as it reports it.
    address: String,
    frames: mpsc::Sender<Frame>,
    streams: Streams,
    places: Arc<Semaphore>,
    /// The reason for which the tunnel is closed, which is sent to the node.
    close_reason: Arc<OnceLock<String>>,
    stop: CancellationToken,
}

impl Tunnel {
    /// Opens a stream with this number.
    fn open(&self, id: u64) -> Option<NodeStream> {
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        Some(self.streams.open(id, self.frames.clone(), place))
    }
}

#[derive(Debug, Default)]
struct Inner {
    tunnels: AtomicU64,
    streams: AtomicU64,
    nodes: Mutex<HashMap<String, Tunnel>>,
    metrics: StreamMetrics,
    recorder: Recorder,
}

/// The table of tunnels; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Tunnels(Arc<Inner>);

/// The registration of a tunnel; dropping it removes the tunnel from the table.
pub(super) struct TunnelEntry {
    node: String,
    number: u64,
    tunnels: Tunnels,
    /// Frames to send to the node.
    pub(super) outbound: mpsc::Receiver<Frame>,
    pub(super) streams: Streams,
    /// Cancelled when the tunnel must end.
    pub(super) stop: CancellationToken,
    close_reason: Arc<OnceLock<String>>,
    pub(super) recorder: ConnectionRecorder,
}

impl TunnelEntry {
    /// Returns the reason for which the tunnel is closed, if the node is to get one.
    pub(super) fn close_reason(&self) -> Option<&str> {
        self.close_reason.get().map(String::as_str)
    }

    pub(super) fn metrics(&self) -> &StreamMetrics {
        &self.tunnels.0.metrics
    }
}

impl Drop for TunnelEntry {
    fn drop(&mut self) {
        {
            let mut nodes = self.tunnels.0.nodes.lock();
            if nodes
                .get(&self.node)
                .is_some_and(|tunnel| tunnel.number == self.number)
            {
                nodes.remove(&self.node);
            }
        }
        self.stop.cancel();
        self.streams
            .end_all("the stream tunnel of the node has ended");
    }
}

impl Tunnels {
    /// Creates an empty table; frames of tunnels are recorded.
    pub(crate) fn new(recorder: Recorder) -> Self {
        Self(Arc::new(Inner {
            recorder,
            ..Inner::default()
        }))
    }

    /// Registers a tunnel of the node and ends the one before. The tunnel ends with `parent`. Returns `None` if the maximum number of
    /// nodes is reached.
    pub(super) fn begin(
        &self,
        node: &str,
        dial_headers: DialHeaders,
        limit: usize,
        parent: &CancellationToken,
    ) -> Option<TunnelEntry> {
        let (frames, outbound) = mpsc::channel(OUTBOUND_QUEUE);
        let tunnel = Tunnel {
            number: self.0.tunnels.fetch_add(1, Ordering::Relaxed),
            since: clock::now(),
            address: dial_headers.address,
            frames,
            streams: Streams::new(dial_headers.window),
            places: Arc::new(Semaphore::new(MAX_STREAMS)),
            close_reason: Arc::default(),
            stop: parent.child_token(),
        };
        let entry = TunnelEntry {
            node: node.to_owned(),
            number: tunnel.number,
            tunnels: self.clone(),
            outbound,
            streams: tunnel.streams.clone(),
            stop: tunnel.stop.clone(),
            close_reason: tunnel.close_reason.clone(),
            recorder: self.0.recorder.connect(
                Transport::Tunnel,
                node,
                &tunnel.address,
                Default::default(),
            ),
        };
        {
            let mut nodes = self.0.nodes.lock();
            if nodes.len() < limit || nodes.contains_key(node) {
                self.0.metrics.count_begun();
                if let Some(older) = nodes.insert(node.to_owned(), tunnel) {
                    older.stop.cancel();
                }
                return Some(entry);
            }
        }
        None
    }

    /// Ends the node's tunnel with a reason; whether the node may return is checked when it does.
    pub fn end(&self, node: &str, why: &str) {
        let tunnel = self.0.nodes.lock().get(node).cloned();
        if let Some(tunnel) = tunnel {
            // only the first reason is kept
            let _ = tunnel.close_reason.set(why.to_owned());
            tunnel.stop.cancel();
        }
    }

    /// Ends every tunnel; nodes may come back.
    pub(super) fn end_all(&self) {
        self.0
            .nodes
            .lock()
            .values()
            .for_each(|tunnel| tunnel.stop.cancel());
    }

    /// Reports whether the node has a tunnel.
    pub fn has(&self, node: &str) -> bool {
        self.0.nodes.lock().contains_key(node)
    }

    /// Returns since when the node has a tunnel.
    pub(crate) fn since(&self, node: &str) -> Option<Timestamp> {
        self.0.nodes.lock().get(node).map(|tunnel| tunnel.since)
    }

    /// Returns the nodes that report this address.
    pub(super) fn nodes_at(&self, address: &str) -> BTreeSet<String> {
        let nodes = self.0.nodes.lock();
        nodes
            .iter()
            .filter(|(_, tunnel)| tunnel.address == address && !address.is_empty())
            .map(|(node, _)| node.clone())
            .collect()
    }

    /// Returns all tunnels, ordered by node, for other replicas.
    pub(crate) fn list(&self) -> Vec<ConnectionRecord> {
        let nodes = self.0.nodes.lock();
        let record = |(node, tunnel): (&String, &Tunnel)| ConnectionRecord {
            node: node.clone(),
            since: tunnel.since,
            address: tunnel.address.clone(),
        };
        let mut all: Vec<_> = nodes.iter().map(record).collect();
        all.sort_by(|one, other| one.node.cmp(&other.node));
        all
    }

    /// Returns the numbers of tunnels and of open streams.
    pub(crate) fn count(&self) -> (usize, usize) {
        let nodes = self.0.nodes.lock();
        (
            nodes.len(),
            nodes.values().map(|tunnel| tunnel.streams.len()).sum(),
        )
    }

    /// Returns the metrics of tunnels.
    pub(crate) fn metrics(&self) -> &StreamMetrics {
        &self.0.metrics
    }

    async fn ask_now(&self, node: &str, request: NodeRequest) -> Result<NodeAnswer, NodeError> {
        let broken = |why: &dyn ToString| NodeError::Broken(node.to_owned(), why.to_string());
        let not_connected = || NodeError::NotConnected(node.to_owned());
        let tunnel = self
            .0
            .nodes
            .lock()
            .get(node)
            .cloned()
            .ok_or_else(not_connected)?;
        let id = self.0.streams.fetch_add(1, Ordering::Relaxed) + 1;
        let connect = connect_request::connect(id, &request)
            .frame(Kind::Exec)
            .map_err(|error| broken(&error))?;
        if connect.data.len() > MAX_DATA {
            return Err(broken(&format!(
                "the request is larger than {MAX_DATA} bytes"
            )));
        }
        let stream = tunnel
            .open(id)
            .ok_or_else(|| NodeError::Full(node.to_owned()))?;
        self.0.metrics.count_opened();
        tunnel
            .frames
            .send(connect)
            .await
            .map_err(|_| not_connected())?;
        answer::read(stream, request.method)
            .await
            .map_err(|error| broken(&error))
    }
}

#[async_trait]
impl NodeStreams for Tunnels {
    async fn ask(&self, node: &str, request: NodeRequest) -> Result<NodeAnswer, NodeError> {
        let asked = timeout(HEAD_TIMEOUT, self.ask_now(node, request)).await;
        asked.unwrap_or_else(|_| Err(NodeError::Timeout(node.to_owned())))
    }
}

/// Returns a frame that closes the tunnel, as CloudCore sends it.
pub(super) fn close(why: &str) -> Frame {
    Frame::new(
        0,
        Kind::CloseConnect,
        Bytes::copy_from_slice(why.as_bytes()),
    )
}
