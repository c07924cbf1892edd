//! EdgeHub over connections that are handed in one by one: the same sessions without dialling, enrolment and TLS, for
//! simulations.

use componentbase::Heartbeat;
use tokio::{io::DuplexStream, sync::mpsc};
use tokio_tungstenite::{WebSocketStream, tungstenite::protocol::Role};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::{
    dial::websocket::limits,
    frame_filter::{CutMessages, Filtered, FrameFilter, MessageLimits},
    liveness::SilenceLimit,
    metered::{Meter, Metered},
    network::Watcher,
    session::{self, Session},
    session_end::SessionEnd,
    stream::Stream,
    task::Task,
    transport::Transport,
};

/// EdgeHub over given connections; see [`super::over_connections`].
#[derive(Debug)]
pub struct Preconnected {
    task: Task,
    connections: mpsc::Receiver<DuplexStream>,
}

impl Preconnected {
    pub(super) fn new(task: Task, connections: mpsc::Receiver<DuplexStream>) -> Self {
        Self { task, connections }
    }

    /// Runs until `shutdown`, or until no more connections can come. Both ends speak WebSocket already.
    pub async fn run(mut self, shutdown: CancellationToken) {
        // no kernel is watched here: the network never changes
        let (_watcher, mut network) = Watcher::new();
        let mut silence_limit = SilenceLimit::new();
        loop {
            let stream = clock::select! {
                biased;
                // cancel-safe: a connection that is not taken is closed
                () = shutdown.cancelled() => return,
                stream = self.connections.recv() => stream,
            };
            let Some(stream) = stream else { return };
            let transport = self.transport(stream).await;
            let begun = clock::Instant::now();
            self.task
                .begin(self.task.endpoints.traffic.count_connection());
            let Task {
                config, endpoints, ..
            } = &self.task;
            let heartbeat = Heartbeat::unmonitored();
            let (shutdown, heartbeat) = (&shutdown, &heartbeat);
            let session = Session {
                config,
                endpoints,
                silence_limit: silence_limit.get(),
                server: String::new(),
                shutdown,
                heartbeat,
            };
            let ended = session::run(session, transport, &mut network).await;
            self.task.end(true);
            silence_limit.record_end(
                matches!(ended, SessionEnd::Silent),
                clock::Instant::now().duration_since(begun),
            );
            debug!(error = &ended as &dyn std::error::Error, "disconnected");
        }
    }

    async fn transport(&self, stream: DuplexStream) -> Transport {
        let meter = Meter::new(self.task.endpoints.traffic.clone(), clock::Instant::now());
        let (limits_of_messages, cut) = (
            MessageLimits::of(self.task.config.max_message),
            CutMessages::default(),
        );
        let filter = FrameFilter::new(limits_of_messages, cut.clone());
        let stream: Box<dyn Stream> =
            Box::new(Filtered::new(Metered::new(stream, meter.clone()), filter));
        let limits = limits(self.task.config.max_message);
        Transport::websocket(
            WebSocketStream::from_raw_socket(stream, Role::Client, Some(limits)).await,
            cut,
            meter,
            false,
        )
    }
}
