//! The room over connections that are handed in, one after the other: the same sessions without dialling, enrolment and TLS.
//! What a simulation runs.

use tokio::{io::DuplexStream, sync::mpsc};
use tokio_tungstenite::{WebSocketStream, tungstenite::protocol::Role};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::{
    dial::websocket::{Stream, limits},
    liveness::Patience,
    metered::{Meter, Metered},
    network::Watcher,
    session::{self, Session},
    session_end::SessionEnd,
    task::Task,
    transport::Transport,
};
use crate::rt::{Heart, now};

/// See [`super::over`].
#[derive(Debug)]
pub struct Preconnected {
    task: Task,
    connections: mpsc::Receiver<DuplexStream>,
}

impl Preconnected {
    pub(super) fn new(task: Task, connections: mpsc::Receiver<DuplexStream>) -> Self {
        Self { task, connections }
    }

    /// Runs until `shutdown`, or until there are no connections to come. On each of them both ends speak WebSocket already.
    pub async fn run(mut self, shutdown: CancellationToken) {
        // nobody follows the kernel here: the network never changes
        let (_watcher, mut network) = Watcher::new();
        let mut patience = Patience::new();
        loop {
            let stream = tokio::select! {
                biased;
                // cancel-safe: a connection not taken is closed
                () = shutdown.cancelled() => return,
                stream = self.connections.recv() => stream,
            };
            let Some(stream) = stream else { return };
            let transport = self.transport(stream).await;
            let begun = now();
            self.task.begin(self.task.endpoints.traffic.connected());
            let Task { config, endpoints, .. } = &self.task;
            let heart = Heart::unheard();
            let (shutdown, heart) = (&shutdown, &heart);
            let session = Session { config, endpoints, patience: patience.get(), shutdown, heart };
            let ended = session::run(session, transport, &mut network).await;
            self.task.end(true);
            patience.ended(matches!(ended, SessionEnd::Silent), now().duration_since(begun));
            debug!(error = &ended as &dyn std::error::Error, "disconnected");
        }
    }

    async fn transport(&self, stream: DuplexStream) -> Transport {
        let meter = Meter::new(self.task.endpoints.traffic.clone(), now());
        let stream: Box<dyn Stream> = Box::new(Metered::new(stream, meter.clone()));
        let limits = limits(self.task.config.max_message);
        Transport::websocket(
            WebSocketStream::from_raw_socket(stream, Role::Client, Some(limits)).await,
            meter,
            false,
        )
    }
}
