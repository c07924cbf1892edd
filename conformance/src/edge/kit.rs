//! The kit as a cloud that an edge can join.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use peer::{
    Failure,
    cloud::{Addresses, Servers},
    fail,
    identity::{Identity, server_tls},
    quic,
    transport::Transport,
};
use wire::enroll::{Ca, Token};

use super::{hub::serve_quic, options::Options, state::Cloud};

/// How long the join token is valid.
const TOKEN_LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// A running cloud of the kit. It ends when it is dropped.
pub struct Kit {
    cloud: Arc<Cloud>,
    token: String,
    addresses: Addresses,
    _servers: (Servers, Option<quic::Server>),
}

impl Kit {
    /// Starts the servers.
    ///
    /// # Errors
    /// A port is in use, or a name is no host.
    pub async fn start(options: Options) -> Result<Self, Failure> {
        let now = SystemTime::now();
        let ca = Ca::generate(now)?;
        let token = Token::mint(&ca, now, TOKEN_LIFETIME)?;
        let cloud = Arc::new(Cloud::new(ca, &options));
        let names = options.names.clone();
        let servers = Servers::start(cloud.clone(), &cloud.ca, names, options.addresses).await?;
        let mut addresses = servers.addresses();
        let quic = match options.transport {
            Transport::WebSocket => None,
            Transport::Quic => {
                let (certificate, key) = cloud.ca.sign_server(options.names, now)?;
                let identity = Identity { certificate, key };
                let tls = server_tls(cloud.ca.cert_der(), &identity, true)?;
                let target = cloud.clone();
                let server = quic::Server::start(options.addresses.hub, &tls, move |greeting| {
                    serve_quic(target.clone(), greeting)
                })?;
                addresses.hub = server.address();
                Some(server)
            }
        };
        Ok(Self {
            cloud,
            token,
            addresses,
            _servers: (servers, quic),
        })
    }

    /// Returns the join token.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Returns the addresses at which the kit listens.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Waits until an edge has connected, and returns its name.
    ///
    /// # Errors
    /// None has within this time.
    pub async fn wait_joined(&self, within: Duration) -> Result<String, Failure> {
        let joined = self
            .cloud
            .until("an edge", within, |state| state.outgoing.as_ref().map(drop));
        match joined.await {
            Ok(()) => self.cloud.node(),
            Err(_) => fail!(
                "no edge joined within {within:?}; check that the edge reaches these addresses"
            ),
        }
    }

    pub(super) fn cloud(&self) -> &Arc<Cloud> {
        &self.cloud
    }
}
