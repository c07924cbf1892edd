//! The kit as a cloud that an edge can join.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, SystemTime},
};

use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};
use wire::enroll::{Ca, Token};

use super::{listeners, state::Cloud};
use crate::{
    Failure,
    peer::identity::{Identity, server_tls},
};

/// How long the join token is valid.
const TOKEN_LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// How the kit's cloud is reached.
#[derive(Clone, Debug)]
pub struct Options {
    /// The names and addresses by which the edge dials the kit.
    pub names: Vec<String>,
    /// The address of the HTTPS server; port 0 is any free port.
    pub https: SocketAddr,
    /// The address of CloudHub.
    pub websocket: SocketAddr,
    /// The address of the stream tunnel.
    pub tunnel: SocketAddr,
    /// The image of the pods; the edge must have it or be able to pull it. It needs `sleep`.
    pub image: String,
}

/// A running cloud of the kit. It ends when it is dropped.
pub struct Kit {
    cloud: Arc<Cloud>,
    token: String,
    /// HTTPS, CloudHub and tunnel.
    addresses: [SocketAddr; 3],
    _stop: DropGuard,
}

impl Kit {
    /// Starts the servers.
    ///
    /// # Errors
    /// A port is in use, or a name is no host.
    pub async fn start(options: Options) -> Result<Self, Failure> {
        let now = SystemTime::now();
        let ca = Ca::generate(now)?;
        let (certificate, key) = ca.sign_server(options.names, now)?;
        let identity = Identity { certificate, key };
        let token = Token::mint(&ca, now, TOKEN_LIFETIME)?;
        let tls = |must| -> Result<Arc<ServerConfig>, Failure> {
            server_tls(ca.cert_der(), &identity, must)
        };
        let (open, closed) = (tls(false)?, tls(true)?);
        let cloud = Arc::new(Cloud::new(ca, options.image));
        let stop = CancellationToken::new();
        let mut addresses = [options.https, options.websocket, options.tunnel];
        let servers = [
            (listeners::Service::Https, open),
            (listeners::Service::Hub, closed.clone()),
            (listeners::Service::Tunnel, closed),
        ];
        for ((service, tls), address) in servers.into_iter().zip(&mut addresses) {
            let listener = TcpListener::bind(*address)
                .await
                .map_err(|error| Failure::Failed(format!("cannot listen on {address}: {error}")))?;
            *address = listener.local_addr()?;
            let server =
                listeners::serve(service, listener, tls, cloud.clone(), TaskTracker::new());
            let stop = stop.clone();
            tokio::spawn(async move { stop.run_until_cancelled(server).await });
        }
        Ok(Self {
            cloud,
            token,
            addresses,
            _stop: stop.drop_guard(),
        })
    }

    /// Returns the join token.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Returns the addresses of the HTTPS server, of CloudHub and of the stream tunnel.
    pub fn addresses(&self) -> [SocketAddr; 3] {
        self.addresses
    }

    /// Waits until an edge has connected, and returns its name.
    ///
    /// # Errors
    /// None has within this time.
    pub async fn wait_joined(&self, within: Duration) -> Result<String, Failure> {
        let joined = self.cloud.until("an edge that joins", within, |state| {
            state.outgoing.as_ref().map(drop)
        });
        joined.await?;
        self.cloud.node()
    }

    pub(super) fn cloud(&self) -> &Arc<Cloud> {
        &self.cloud
    }
}
