//! The one connection to the cloud's relay: dials it, serves the streams of other nodes, reports this node's paths, and dials again.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use componentbase::{Heartbeat, Part, PartError};
use limits::Repeated;
use quinn::{
    ClientConfig, Connection, ConnectionError, Endpoint, IdleTimeout, TransportConfig, VarInt,
    crypto::rustls::QuicClientConfig,
};
use tokio::{
    net::lookup_host,
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};
use wire::{
    relay::{ALPN, MAX_STREAMS, Report, WINDOW},
    text::printable_short,
};

use super::{
    certificates::{CertificateError, Certificates},
    serve::StreamServer,
};
use crate::{
    config::HostPort,
    edgehub::{Cause, Redial},
    edgemesh::path_table::PathTable,
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
        "no QUIC connection to the relay at {server}: {why}; check that cloudsim listens there (--relay-port), that no firewall blocks \
         UDP, and that \
         modules.edgeMesh.relay.server names it"
    )]
    Quic {
        server: String,
        /// What it is, in words of this program.
        kind: String,
        /// The same with the reason that the other end gives, which may be anything.
        why: String,
    },
    #[error(
        "cannot resolve the relay's name in {server}; check modules.edgeMesh.relay.server and this machine's DNS"
    )]
    Resolve {
        server: String,
        source: std::io::Error,
    },
    #[error(
        "no QUIC connection to the relay at {0} within {1:?}; check that cloudsim listens there (--relay-port), and that no firewall \
         blocks UDP"
    )]
    Timeout(String, Duration),
}

impl ConnectError {
    /// Reports whether the node has no certificate yet, which EdgeHub reports already.
    fn is_before_join(&self) -> bool {
        matches!(self, Self::Certificates(CertificateError::Files(error)) if error.is_missing())
    }

    fn of_connection(server: &str, error: &ConnectionError) -> Self {
        let why = printable_short(error);
        Self::Quic {
            server: server.to_owned(),
            kind: kind(error).to_owned(),
            why,
        }
    }

    /// Returns the error without the reason that the other end gives: with a new one each time, each would be logged.
    fn fault(&self) -> String {
        if let Self::Quic { kind, .. } = self {
            kind.clone()
        } else {
            self.to_string()
        }
    }
}

/// Returns what an error is, without the reason that the other end gives.
fn kind(error: &ConnectionError) -> &'static str {
    match error {
        ConnectionError::VersionMismatch => "version",
        ConnectionError::TransportError(_) => "transport",
        ConnectionError::ConnectionClosed(_) => "closed by the relay's QUIC",
        ConnectionError::ApplicationClosed(_) => "closed by the relay",
        ConnectionError::Reset => "reset",
        ConnectionError::TimedOut => "timeout",
        ConnectionError::LocallyClosed => "closed here",
        ConnectionError::CidsExhausted => "no connection IDs",
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
        Self {
            server,
            certificates,
            publish,
            streams,
            paths,
        }
    }

    pub(super) async fn run(&self, shutdown: &CancellationToken) {
        let mut redial = Redial::new(clock::Instant::now());
        // whether the end of the last connection was logged
        let (mut faults, mut is_ended) = (Repeated::default(), false);
        loop {
            let started = clock::Instant::now();
            let dialled = clock::select! {
                // cancel-safe: a dial that is given up is none
                () = shutdown.cancelled() => return,
                dialled = timeout(DIAL_TIMEOUT, self.dial()) => dialled,
            };
            match dialled.unwrap_or_else(|_| {
                Err(ConnectError::Timeout(self.server.to_string(), DIAL_TIMEOUT))
            }) {
                Ok((connection, endpoint)) => {
                    if faults.recover() || std::mem::take(&mut is_ended) {
                        info!(server = %self.server, "connection to the relay restored");
                    } else {
                        info!(server = %self.server, "connected to the relay");
                    }
                    self.publish.send_replace(Some(connection.clone()));
                    self.serve(&connection, shutdown).await;
                    self.publish.send_replace(None);
                    // before it is closed here, which would be the reason afterwards
                    let why = connection.close_reason().map(printable_short);
                    connection.close(CLOSED, b"ended");
                    endpoint.close(CLOSED, b"ended");
                    // a relay that accepts and closes at once is not there again: the waits grow
                    redial.record_end(started, clock::Instant::now(), false);
                    redial.record_cause(Cause::Cloud);
                    if shutdown.is_cancelled() {
                        // let the close frame go out
                        let _ = timeout(Duration::from_secs(1), endpoint.wait_idle()).await;
                        return;
                    }
                    let why = why.unwrap_or_default();
                    warn!(reason = why, "connection to the relay lost");
                    is_ended = true;
                }
                Err(error) => {
                    if error.is_before_join() {
                        debug!(
                            error = &error as &dyn std::error::Error,
                            "relay not used before the node has joined"
                        );
                    } else if let Some(times) = faults.count(&error.fault(), clock::Instant::now())
                    {
                        warn!(
                            times,
                            error = &error as &dyn std::error::Error,
                            "failed to connect to the relay; retrying"
                        );
                    }
                    redial.record_cause(Cause::Network);
                }
            }
            clock::select! {
                // cancel-safe: neither holds data
                () = shutdown.cancelled() => return,
                () = sleep(redial.wait(clock::rng().random(), clock::Instant::now())) => {}
            }
        }
    }

    async fn dial(&self) -> Result<(Connection, Endpoint), ConnectError> {
        let server = self.server.to_string();
        let failed = |error: &dyn std::error::Error| ConnectError::Quic {
            server: server.clone(),
            kind: error.to_string(),
            why: error.to_string(),
        };
        // read before each dial: EdgeHub makes and renews them
        let tls = self.certificates.to_cloud().await?;
        let client = client(&tls).map_err(|error| failed(&error))?;
        let mut last = failed(&std::io::Error::other("the name has no address"));
        let resolved = lookup_host(&server).await;
        let resolved = resolved.map_err(|source| ConnectError::Resolve {
            server: server.clone(),
            source,
        });
        for address in resolved? {
            let any: SocketAddr = if address.is_ipv4() {
                ([0; 4], 0).into()
            } else {
                ([0; 16], 0).into()
            };
            let endpoint = Endpoint::client(any).map_err(|error| failed(&error))?;
            let connecting = endpoint.connect_with(client.clone(), address, &self.server.host);
            match connecting.map_err(|error| failed(&error))?.await {
                Ok(connection) => return Ok((connection, endpoint)),
                Err(error) => last = ConnectError::of_connection(&server, &error),
            }
        }
        Err(last)
    }

    /// Serves a connection until it ends.
    async fn serve(&self, connection: &Connection, shutdown: &CancellationToken) {
        // dropped with them, streams end with their connection: an endpoint that does not end would keep this node off the relay
        let mut tasks = JoinSet::new();
        let streams = async {
            loop {
                clock::select! {
                    // cancel-safe: a stream is taken only by the arm that wins
                    accepted = connection.accept_bi() => match accepted {
                        Ok(stream) => {
                            let server = self.streams.clone();
                            tasks.spawn(componentbase::in_span(async move { server.serve(stream).await }));
                        }
                        Err(_) => return,
                    },
                    Some(_) = tasks.join_next() => {}
                }
            }
        };
        clock::select! {
            // cancel-safe: the connection ends, and its streams with it
            () = streams => {}
            () = self.report(connection) => {}
            () = shutdown.cancelled() => {}
        }
        connection.close(CLOSED, b"ended");
    }

    /// Reports this node's paths to the cloud whenever they have changed; ends with the connection.
    async fn report(&self, connection: &Connection) {
        let mut changes = self.paths.changes();
        loop {
            changes.borrow_and_update();
            let sent = timeout(
                REPORT_TIMEOUT,
                send(
                    connection,
                    &Report {
                        paths: self.paths.report(),
                    },
                ),
            )
            .await;
            match sent {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    let error = printable_short(error);
                    debug!(
                        error,
                        "failed to report the paths to other nodes to the relay"
                    );
                }
                Err(_) => debug!("relay rejected the report of the paths to other nodes"),
            }
            sleep(REPORT_INTERVAL).await;
            clock::select! {
                // cancel-safe: a change that is not seen stays
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
fn client(
    tls: &rustls::ClientConfig,
) -> Result<ClientConfig, quinn::crypto::rustls::NoInitialCipherSuite> {
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
    // nobody reads QUIC's own datagrams
    transport.datagram_receive_buffer_size(None);
    let mut client = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    client.transport_config(Arc::new(transport));
    Ok(client)
}

impl Part for Task {
    async fn run(
        &mut self,
        _heart: Heartbeat,
        shutdown: CancellationToken,
    ) -> Result<(), PartError> {
        Self::run(self, &shutdown).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use quinn::ApplicationClose;

    use super::*;

    #[test]
    fn reasons_that_a_relay_makes_up_are_one_fault_and_write_no_lines() {
        let error = |number: usize| {
            let reason = format!("\u{1b}[31m\r\nERROR FAKE {number} {}", "x".repeat(900));
            let closed = ApplicationClose {
                error_code: VarInt::from_u32(1),
                reason: reason.into(),
            };
            ConnectError::of_connection("relay:20006", &ConnectionError::ApplicationClosed(closed))
        };
        let said = error(1).to_string();
        assert!(
            !said.contains(char::is_control) && said.len() < 600,
            "{said:?}"
        );
        let mut faults = Repeated::default();
        assert_eq!(
            (0..100)
                .filter(|number| faults
                    .count(&error(*number).fault(), clock::Instant::now())
                    .is_some())
                .count(),
            1
        );
    }
}
