//! The played side is the cloud: servers that an edge joins.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use peer::{
    Failure, Service,
    cloud::{Addresses, Caller, Cloud, Opened, Refusal, Servers, certify},
    fail,
    session::{Automatic, Session},
    transport::Outgoing,
    tunnel::Tunnel,
};
use tokio::{sync::mpsc, time::timeout};
use tokio_tungstenite::{WebSocketStream, tungstenite::protocol};
use wire::{
    Message,
    enroll::{Ca, Token},
    websocket::Role,
};

use crate::{Link, drive::CLOSE_DEADLINE};

/// How long the join token is valid.
const TOKEN_LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// How long an edge may take to connect again: EdgeCore waits 30 s, and 30 s more after five attempts.
const CONNECT_DEADLINE: Duration = Duration::from_secs(120);
/// How long a tunnel is kept open.
const TUNNEL_LIFETIME: Duration = Duration::from_secs(30 * 24 * 3600);
/// Sessions that wait to be played; more are closed.
const MAX_SESSIONS: usize = 4;

/// The servers of a cloud that is played.
pub struct CloudServers {
    servers: Servers,
    token: String,
    sessions: mpsc::Receiver<(String, Session)>,
}

struct PlayedCloud {
    ca: Ca,
    sessions: mpsc::Sender<(String, Session)>,
}

impl CloudServers {
    /// Starts the servers. Edges dial them by `names`.
    ///
    /// # Errors
    /// A port is in use, or a name is no host.
    pub async fn start(names: Vec<String>, addresses: Addresses) -> Result<Self, Failure> {
        let now = SystemTime::now();
        let ca = Ca::generate(now)?;
        let token = Token::mint(&ca, now, TOKEN_LIFETIME)?;
        let (sender, sessions) = mpsc::channel(MAX_SESSIONS);
        let cloud = Arc::new(PlayedCloud {
            ca,
            sessions: sender,
        });
        let servers = Servers::start(cloud.clone(), &cloud.ca, names, addresses).await?;
        Ok(Self {
            servers,
            token,
            sessions,
        })
    }

    /// Returns the join token.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Returns the addresses, with the ports that were chosen.
    pub fn addresses(&self) -> Addresses {
        self.servers.addresses()
    }

    /// Waits until an edge has connected.
    ///
    /// # Errors
    /// None does in this time.
    pub async fn wait_joined(mut self, within: Duration) -> Result<CloudLink, Failure> {
        match timeout(within, self.sessions.recv()).await {
            Ok(Some((node, session))) => Ok(CloudLink {
                node,
                session,
                sessions: self.sessions,
                _servers: self.servers,
            }),
            _ => fail!("no edge has joined within {within:?}"),
        }
    }
}

impl Cloud for PlayedCloud {
    type Accepted = ();

    async fn answer(
        &self,
        request: Request<Bytes>,
        caller: &Caller,
    ) -> Result<Response<Bytes>, Refusal> {
        Ok(certify(&self.ca, &request, caller))
    }

    async fn accept(
        &self,
        _: Service,
        _: &Request<()>,
        _: &Caller,
    ) -> Result<(HeaderMap, ()), Refusal> {
        Ok((HeaderMap::new(), ()))
    }

    async fn serve(&self, service: Service, opened: Opened<()>) {
        if service == Service::Tunnel {
            // pings are answered, and nothing is requested
            let mut tunnel = Tunnel::new(opened.stream, Role::Server);
            let end = tunnel.expect("the end of the tunnel", TUNNEL_LIFETIME, |_| None::<()>);
            end.await.ok();
            return;
        }
        let Ok(node) = opened.caller.node() else {
            return;
        };
        let (stream, role) = (opened.stream, protocol::Role::Server);
        let socket = WebSocketStream::from_raw_socket(stream, role, None).await;
        let automatic = Automatic {
            keepalive: false,
            acknowledge: false,
        };
        let session = Session::start(socket, automatic);
        self.sessions.try_send((node, session)).ok();
    }
}

/// The sessions of an edge, the newest one after the other.
pub struct CloudLink {
    node: String,
    session: Session,
    sessions: mpsc::Receiver<(String, Session)>,
    _servers: Servers,
}

impl CloudLink {
    /// Returns the name of the edge.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Waits for the next session; other nodes are not served.
    async fn next_session(
        sessions: &mut mpsc::Receiver<(String, Session)>,
        node: &str,
    ) -> Option<Session> {
        loop {
            let (name, session) = sessions.recv().await?;
            if name == node {
                return Some(session);
            }
        }
    }
}

impl Link for CloudLink {
    fn sender(&self) -> mpsc::Sender<Outgoing> {
        self.session.sender()
    }

    async fn next(&mut self) -> Result<Message, String> {
        loop {
            let next = Self::next_session(&mut self.sessions, &self.node);
            let why = tokio::select! {
                biased;
                message = self.session.next() => match message {
                    Ok(message) => return Ok(message),
                    Err(why) => why,
                },
                Some(session) = next => {
                    self.session = session;
                    continue;
                }
            };
            let next = Self::next_session(&mut self.sessions, &self.node);
            match timeout(CONNECT_DEADLINE, next).await {
                Ok(Some(session)) => self.session = session,
                _ => return Err(format!("the edge has disconnected: {why}")),
            }
        }
    }

    async fn reconnect(&mut self) -> Result<(), String> {
        self.finish().await;
        let next = Self::next_session(&mut self.sessions, &self.node);
        match timeout(CONNECT_DEADLINE, next).await {
            Ok(Some(session)) => self.session = session,
            _ => {
                return Err(format!(
                    "the edge has not connected within {CONNECT_DEADLINE:?}"
                ));
            }
        }
        Ok(())
    }

    async fn finish(&mut self) {
        self.session.finish(CLOSE_DEADLINE).await;
    }
}
