//! The one connection to the cloud's relay: dials it, serves the streams of other nodes, reports this node's paths, and dials again.

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
    certificates::{CertificateError, Certificates},
    serve::StreamServer,
};
use crate::{
    config::HostPort,
    edgehub::{Cause, Redial},
    edgemesh::path_table::PathTable,
    rt::{Heartbeat, Part, PartError, Repeated, now},
};

/// How long a connection may be silent before it counts as dead; milliseconds.
const IDLE_TIMEOUT: VarInt = VarInt::from_u32(10_000);
/// How often a silent connection is kept alive.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(3);
/// How long dialling may take.
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);
/// The time between two reports: changes of paths within it are reported together.
const REPORT_INTERVAL: Duration = Duration::from_millis(500);
/// How long a report may take.
const REPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// The QUIC error code with which this end closes a connection.
const CLOSED: VarInt = VarInt::from_u32(0);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
enum ConnectError {
    #[error("this node's certificate cannot be used at the relay")]
    Certificates(#[from] CertificateError),
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

impl ConnectError {
    /// Reports whether the node has no certificate yet, which EdgeHub reports already.
    fn is_before_join(&self) -> bool {
        matches!(self, Self::Certificates(CertificateError::Files(error)) if error.is_missing())
    }
}

/// The task that [`super::new`] builds.
#[derive(Debug)]
pub(crate) struct Task {
    server: HostPort,
    certificates: Certificates,
    publish: watch::Sender<Option<Connection>>,
    streams: StreamServer,
    paths: PathTable,
}

impl Task {
    pub(super) fn new(
        server: HostPort,
        certificates: Certificates,
        publish: watch::Sender<Option<Connection>>,
        streams: StreamServer,
        paths: PathTable,
    ) -> Self {
        Self { server, certificates, publish, streams, paths }
    }

    pub(super) async fn run(&self, shutdown: &CancellationToken) {
        let mut redial = Redial::new(now());
        let mut faults = Repeated::default();
        loop {
            let started = now();
            let dialled = tokio::select! {
                // cancel-safe: a dial that is given up is none
                () = shutdown.cancelled() => return,
                dialled = timeout(DIAL_TIMEOUT, self.dial()) => dialled,
            };
            match dialled
                .unwrap_or_else(|_| Err(ConnectError::Timeout(self.server.to_string(), DIAL_TIMEOUT)))
            {
                Ok((connection, endpoint)) => {
                    faults = Repeated::default();
                    info!(server = %self.server, "connected to the relay");
                    self.publish.send_replace(Some(connection.clone()));
                    self.serve(&connection, shutdown).await;
                    self.publish.send_replace(None);
                    connection.close(CLOSED, b"ended");
                    endpoint.close(CLOSED, b"ended");
                    redial.ended(started, now(), true);
                    redial.record_cause(Cause::Cloud);
                    if shutdown.is_cancelled() {
                        // let the close frame go out
                        let _ = timeout(Duration::from_secs(1), endpoint.wait_idle()).await;
                        return;
                    }
                    let why = connection.close_reason().map(|why| why.to_string()).unwrap_or_default();
                    warn!(why, "the connection to the relay has ended");
                }
                Err(error) => {
                    if error.is_before_join() {
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

    async fn dial(&self) -> Result<(Connection, Endpoint), ConnectError> {
        let server = self.server.to_string();
        let failed =
            |error: Box<dyn std::error::Error + Send + Sync>| ConnectError::Quic(server.clone(), error);
        // read before each dial: EdgeHub makes and renews them
        let tls = self.certificates.to_cloud().await?;
        let client = client(&tls).map_err(|error| failed(error.into()))?;
        let mut last = failed("the name has no address".into());
        for address in lookup_host(&server).await.map_err(|error| failed(error.into()))? {
            let any: SocketAddr = if address.is_ipv4() { ([0; 4], 0).into() } else { ([0; 16], 0).into() };
            let endpoint = Endpoint::client(any).map_err(|error| failed(error.into()))?;
            let connecting = endpoint.connect_with(client.clone(), address, &self.server.host);
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
                let server = self.streams.clone();
                tasks.spawn(async move { server.serve(stream).await });
            }
        };
        tokio::select! {
            // cancel-safe, all: the connection ends, and its streams with it
            () = streams => {}
            () = self.report(connection) => {}
            () = shutdown.cancelled() => {}
        }
        connection.close(CLOSED, b"ended");
        tasks.close();
        tasks.wait().await;
    }

    /// Reports this node's paths to the cloud whenever they have changed; ends with the connection.
    async fn report(&self, connection: &Connection) {
        let mut changes = self.paths.changes();
        loop {
            changes.borrow_and_update();
            let sent = timeout(REPORT_TIMEOUT, send(connection, &Report { paths: self.paths.all() })).await;
            match sent {
                Ok(Ok(())) => {}
                Ok(Err(error)) => debug!(%error, "the paths to other nodes were not reported to the relay"),
                Err(_) => debug!("the relay did not take the report of the paths to other nodes"),
            }
            sleep(REPORT_INTERVAL).await;
            tokio::select! {
                // cancel-safe, both: a change that is not seen stays
                _ = connection.closed() => return,
                changed = changes.changed() => if changed.is_err() { return },
            }
        }
    }
}

/// Sends a report on a stream of its own.
async fn send(
    connection: &Connection,
    report: &Report,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let text = serde_json::to_vec(report)?;
    let mut stream = connection.open_uni().await?;
    stream.write_all(&text).await?;
    Ok(stream.finish()?)
}

/// Configures QUIC with this TLS.
fn client(tls: &rustls::ClientConfig) -> Result<ClientConfig, quinn::crypto::rustls::NoInitialCipherSuite> {
    let mut tls = tls.clone();
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(IdleTimeout::from(IDLE_TIMEOUT)));
    transport.keep_alive_interval(Some(KEEP_ALIVE_INTERVAL));
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(MAX_STREAMS))
        .max_concurrent_uni_streams(VarInt::from_u32(0));
    // no window for all streams together: a stream that is not read does not hold up the others
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
