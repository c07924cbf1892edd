//! Accepts other replicas at the relay, for streams between their nodes and those of this one.
//!
//! The replica of the node that asks opens a stream to the replica of the other node and sends [`super::stream::Between`]. That one joins
//! it to a stream of its own node, as it does with streams of nodes, and never to a third replica. Both ends of the connection show a
//! certificate of the replicas' CA.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use limits::{ConnectionLimits, ConnectionSlot};
use quinn::{
    ClientConfig, Endpoint, EndpointConfig, IdleTimeout, Incoming, ServerConfig, TokioRuntime,
    TransportConfig, VarInt,
    crypto::rustls::{QuicClientConfig, QuicServerConfig},
};
use tokio::{task::JoinSet, time::timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, warn};
use wire::relay::WINDOW;

use super::{
    join::{Asker, join},
    replicas::ReplicaRelays,
    server::{HANDSHAKE_TIMEOUT, IDLE_TIMEOUT},
    table::{ENDED, Relays},
};
use crate::{
    listeners::{LimitedEndpoint, Refusals, bind_udp},
    peers::{PeerTls, Peers},
};

/// The ALPN protocol between replicas.
const ALPN: &[u8] = b"cloudsim-relay/1";
/// The streams of one replica to another; further ones wait, and time out as a node that does not answer.
const MAX_STREAMS: VarInt = VarInt::from_u32(8192);
/// How often a connection without traffic is kept alive.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// The server for streams of other replicas.
pub(crate) struct ReplicaRelayServer {
    listener: LimitedEndpoint,
    address: SocketAddr,
    replicas: ReplicaRelays,
}

impl ReplicaRelayServer {
    /// Listens on `address`, UDP; streams of other replicas are served from [`Self::run`] on.
    ///
    /// # Errors
    /// The port is taken, or the keys are unusable.
    pub(crate) fn bind(
        address: SocketAddr,
        tls: &PeerTls,
        limits: ConnectionLimits,
        peers: Peers,
    ) -> io::Result<Self> {
        let (mut client, mut server) = ((*tls.client).clone(), tls.server.clone());
        client.alpn_protocols = vec![ALPN.to_vec()];
        server.alpn_protocols = vec![ALPN.to_vec()];
        let client = QuicClientConfig::try_from(client).map_err(io::Error::other)?;
        let server = QuicServerConfig::try_from(server).map_err(io::Error::other)?;
        let (mut client, mut server) = (
            ClientConfig::new(Arc::new(client)),
            ServerConfig::with_crypto(Arc::new(server)),
        );
        let transport = Arc::new(transport());
        client.transport_config(transport.clone());
        server.transport_config(transport);
        let (config, runtime) = (EndpointConfig::default(), Arc::new(TokioRuntime));
        let mut endpoint = Endpoint::new(config, Some(server), bind_udp(address)?, runtime)?;
        endpoint.set_default_client_config(client);
        let name = "relay for other replicas";
        let listener = LimitedEndpoint::new(name, endpoint.clone(), limits, Refusals::default());
        let address = endpoint.local_addr()?;
        let replicas = ReplicaRelays::new(endpoint, peers);
        Ok(Self {
            listener,
            address,
            replicas,
        })
    }

    /// Returns the address that it listens on.
    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves streams of other replicas, and opens those of `relays` to other replicas, until `shutdown`.
    pub(crate) async fn run(mut self, relays: Relays, shutdown: CancellationToken) {
        relays.forward_to(self.replicas);
        let tasks = TaskTracker::new();
        // cancel-safe: an accepted connection is served at once
        while let Some(Some((incoming, slot))) =
            shutdown.run_until_cancelled(self.listener.accept()).await
        {
            tasks.spawn(serve(incoming, slot, relays.clone()));
        }
        self.listener.endpoint.close(ENDED, b"the cloud ends");
        tasks.close();
        tasks.wait().await;
        self.listener.endpoint.wait_idle().await;
    }
}

fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .max_idle_timeout(Some(IdleTimeout::from(IDLE_TIMEOUT)))
        .keep_alive_interval(Some(KEEP_ALIVE))
        .max_concurrent_bidi_streams(MAX_STREAMS)
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        // no window for all streams together: a stream that is not read does not hold up the others
        .stream_receive_window(VarInt::from_u32(WINDOW))
        .datagram_receive_buffer_size(None);
    transport
}

/// Serves the streams of another replica until its connection ends.
async fn serve(incoming: Incoming, slot: ConnectionSlot, relays: Relays) {
    let peer = incoming.remote_address();
    let accepted = clock::select! {
        // cancel-safe: a half-made connection is simply closed
        () = slot.wait_evicted() => return debug!(%peer, "connection of another replica evicted: limit reached"),
        accepted = timeout(HANDSHAKE_TIMEOUT, incoming) => accepted,
    };
    let connection = match accepted {
        Ok(Ok(connection)) => connection,
        Ok(Err(error)) => {
            return warn!(%peer, %error, "connection to the relay for other replicas rejected");
        }
        Err(_) => return debug!(%peer, "handshake of another replica timed out"),
    };
    let Ok(_active) = slot.begin(false) else {
        return;
    };
    let mut streams = JoinSet::new();
    while let Ok(stream) = connection.accept_bi().await {
        while streams.try_join_next().is_some() {}
        let (connection, relays) = (connection.clone(), relays.clone());
        streams.spawn(async move { join(&connection, stream, Asker::Replica, &relays).await });
    }
}
