//! The one connection to the cloud's relay: dials it, serves what other nodes open, tells of this node's ways, and dials again.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use quinn::{
    ClientConfig, Connection, Endpoint, IdleTimeout, TransportConfig, VarInt,
    crypto::rustls::QuicClientConfig,
};
use tokio::{
    net::lookup_host,
    sync::watch,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, info, warn};
use wire::relay::{ALPN, MAX_STREAMS, Report, WINDOW};

use super::{
    Beginning, Config, Snapshots,
    keys::{Keys, NoKeys},
    serve::Serving,
};
use crate::{
    edgehub::{Cause, Redial},
    edgemesh::dialer::Dialer,
    rt::{Heartbeat, Part, PartError, Repeated, now},
};

/// A connection on which nothing was heard for so long is dead.
const SILENCE: VarInt = VarInt::from_u32(10_000);
/// A connection on which nothing is said is kept alive so often.
const KEEP_ALIVE: Duration = Duration::from_secs(3);
/// How long dialling may take.
const DIAL: Duration = Duration::from_secs(10);
/// Changes of ways that come within this time are told together.
const GATHER: Duration = Duration::from_millis(500);
/// How long telling of them may take.
const TELL: Duration = Duration::from_secs(10);
/// Why this end closes a connection, as numbers of QUIC.
const ENDED: VarInt = VarInt::from_u32(0);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
enum NoLink {
    #[error("this node's certificate cannot be used at the relay")]
    Keys(#[from] NoKeys),
    #[error(
        "no QUIC connection to the relay at {0}: {1}; check that cloudsim listens there (--relay-port), that UDP passes, and that \
         modules.edgeMesh.relay.server names it"
    )]
    Quic(String, Box<dyn std::error::Error + Send + Sync>),
    #[error(
        "no QUIC connection to the relay at {0} within {1:?}; check that cloudsim listens there (--relay-port), and that UDP passes"
    )]
    Timeout(String, Duration),
}

impl NoLink {
    /// Whether the node has no certificate yet, of which EdgeHub tells.
    fn is_too_early(&self) -> bool {
        matches!(self, Self::Keys(NoKeys::Files(error)) if error.is_missing())
    }
}

/// See [`super::new`].
#[derive(Debug)]
pub(crate) struct Task {
    config: Config,
    keys: Keys,
    publish: watch::Sender<Option<Connection>>,
    serving: Serving,
    dialer: Dialer,
}

impl Task {
    pub(super) fn new(beginning: Beginning, snapshots: Snapshots, dialer: Dialer) -> Self {
        let Beginning { config, keys, publish, figures } = beginning;
        let serving = Serving { node: config.node.as_str().into(), keys: keys.clone(), snapshots, figures };
        Self { config, keys, publish, serving, dialer }
    }

    pub(super) async fn run(&self, shutdown: &CancellationToken) {
        let mut redial = Redial::new(now());
        let mut faults = Repeated::default();
        loop {
            let begun = now();
            let dialled = tokio::select! {
                // cancel-safe: a dial that is given up is none
                () = shutdown.cancelled() => return,
                dialled = timeout(DIAL, self.dial()) => dialled,
            };
            match dialled.unwrap_or_else(|_| Err(NoLink::Timeout(self.config.server.to_string(), DIAL))) {
                Ok((connection, endpoint)) => {
                    faults = Repeated::default();
                    info!(server = %self.config.server, "connected to the relay");
                    self.publish.send_replace(Some(connection.clone()));
                    self.serve(&connection, shutdown).await;
                    self.publish.send_replace(None);
                    connection.close(ENDED, b"ended");
                    endpoint.close(ENDED, b"ended");
                    redial.ended(begun, now(), true);
                    redial.record_cause(Cause::Cloud);
                    if shutdown.is_cancelled() {
                        // the goodbye goes out
                        let _ = timeout(Duration::from_secs(1), endpoint.wait_idle()).await;
                        return;
                    }
                    let why = connection.close_reason().map(|why| why.to_string()).unwrap_or_default();
                    warn!(why, "the connection to the relay has ended");
                }
                Err(error) => {
                    if error.is_too_early() {
                        debug!(
                            error = &error as &dyn std::error::Error,
                            "no relay before the node has joined"
                        );
                    } else if let Some(times) = faults.count(&error.to_string(), now()) {
                        warn!(
                            times,
                            error = &error as &dyn std::error::Error,
                            "not connected to the relay yet"
                        );
                    }
                    redial.record_cause(Cause::Network);
                }
            }
            tokio::select! {
                // cancel-safe: neither holds data
                () = shutdown.cancelled() => return,
                () = sleep(redial.wait(rand::random(), now())) => {}
            }
        }
    }

    async fn dial(&self) -> Result<(Connection, Endpoint), NoLink> {
        let server = self.config.server.to_string();
        let failed = |error: Box<dyn std::error::Error + Send + Sync>| NoLink::Quic(server.clone(), error);
        // read before each dial: EdgeHub makes and renews them
        let tls = self.keys.to_cloud().await?;
        let client = client(&tls).map_err(|error| failed(error.into()))?;
        let mut last = failed("the name has no address".into());
        for address in lookup_host(&server).await.map_err(|error| failed(error.into()))? {
            let any: SocketAddr = if address.is_ipv4() { ([0; 4], 0).into() } else { ([0; 16], 0).into() };
            let endpoint = Endpoint::client(any).map_err(|error| failed(error.into()))?;
            let connecting = endpoint.connect_with(client.clone(), address, &self.config.server.host);
            match connecting.map_err(|error| failed(error.into()))?.await {
                Ok(connection) => return Ok((connection, endpoint)),
                Err(error) => last = failed(error.into()),
            }
        }
        Err(last)
    }

    /// Serves a connection until it ends.
    async fn serve(&self, connection: &Connection, shutdown: &CancellationToken) {
        let tasks = TaskTracker::new();
        let streams = async {
            while let Ok(stream) = connection.accept_bi().await {
                let serving = self.serving.clone();
                tasks.spawn(async move { serving.serve(stream).await });
            }
        };
        tokio::select! {
            // cancel-safe, all: the connection ends, and its streams with it
            () = streams => {}
            () = self.report(connection) => {}
            () = shutdown.cancelled() => {}
        }
        connection.close(ENDED, b"ended");
        tasks.close();
        tasks.wait().await;
    }

    /// Tells the cloud of this node's ways to others, when they have changed; ends with the connection.
    async fn report(&self, connection: &Connection) {
        let mut changes = self.dialer.changes();
        loop {
            changes.borrow_and_update();
            let told = timeout(TELL, tell(connection, &Report { paths: self.dialer.known() })).await;
            match told {
                Ok(Ok(())) => {}
                Ok(Err(error)) => debug!(%error, "the relay is not told of the ways to other nodes"),
                Err(_) => debug!("the relay takes no report of the ways to other nodes"),
            }
            sleep(GATHER).await;
            tokio::select! {
                // cancel-safe, both: a change that is not seen stays
                _ = connection.closed() => return,
                changed = changes.changed() => if changed.is_err() { return },
            }
        }
    }
}

async fn tell(
    connection: &Connection,
    report: &Report,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let text = serde_json::to_vec(report)?;
    let mut stream = connection.open_uni().await?;
    stream.write_all(&text).await?;
    Ok(stream.finish()?)
}

fn client(tls: &rustls::ClientConfig) -> Result<ClientConfig, quinn::crypto::rustls::NoInitialCipherSuite> {
    let mut tls = tls.clone();
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(IdleTimeout::from(SILENCE)));
    transport.keep_alive_interval(Some(KEEP_ALIVE));
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(MAX_STREAMS))
        .max_concurrent_uni_streams(VarInt::from_u32(0));
    // what is not read of one stream holds up no other: there is no window of all streams together
    transport.stream_receive_window(VarInt::from_u32(WINDOW));
    let mut client = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    client.transport_config(Arc::new(transport));
    Ok(client)
}

impl Part for Task {
    async fn run(&mut self, _heart: Heartbeat, shutdown: CancellationToken) -> Result<(), PartError> {
        Self::run(self, &shutdown).await;
        Ok(())
    }
}
