//! What replicas of one cloud serve to each other: requests for nodes that are connected to this replica, and streams of the relay.

use std::net::SocketAddr;

use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use kubeapi::{
    Body,
    serve::{BindError, Handler, HandlerService, Server},
};

use super::{Options, StartError};
use crate::{
    controllers::rules::Rules,
    peers::{CALLS_PATH, PeerOptions, PeerTls, Peers, Reached, ReadPeers, STREAMS_PATH},
    relay::ReplicaRelayServer,
    router::Router,
    sessions::Sessions,
    streams::{self, Tunnels},
    tasks::Tasks,
};

/// The other replicas, and what this one needs to serve them.
pub(super) struct Peering {
    pub(super) options: PeerOptions,
    pub(super) peers: Peers,
    tls: PeerTls,
}

impl Peering {
    pub(super) fn new((options, tls, read): (PeerOptions, PeerTls, ReadPeers)) -> Self {
        let peers = Peers::new(tls.client.clone(), read);
        Self {
            options,
            peers,
            tls,
        }
    }

    /// Starts the servers for other replicas. Returns the addresses at which they reach them.
    pub(super) async fn serve(
        self,
        options: &Options,
        rules: &Rules,
        sessions: &Sessions,
        tasks: &Tasks,
    ) -> Result<Reached, StartError> {
        let service = PeerService {
            tunnels: sessions.tunnels().clone(),
            router: Router::unchecked(rules.clone()),
        };
        let at = SocketAddr::new(options.address, self.options.port);
        let at_replica = |port| SocketAddr::new(self.options.address, port);
        let relay = match options.relay_port {
            Some(_) => Some(at_replica(self.serve_relay(at, options, sessions, tasks)?)),
            None => None,
        };
        let bound = Server::bind(at, Some(self.tls.server), HandlerService(service)).await;
        let server = bound.map_err(|source| StartError::Bind {
            server: "server for other replicas",
            option: "--replica-port",
            source,
        })?;
        let requests = Some(at_replica(server.local_addr().port()));
        tasks.spawn("server for other replicas", server.run(tasks.child_token()));
        Ok(Reached { requests, relay })
    }

    /// Joins the relay to those of other replicas. Returns the UDP port.
    fn serve_relay(
        &self,
        at: SocketAddr,
        options: &Options,
        sessions: &Sessions,
        tasks: &Tasks,
    ) -> Result<u16, StartError> {
        let (limits, peers) = (options.limits.listener(), self.peers.clone());
        let bound = ReplicaRelayServer::bind(at, &self.tls, limits.connections, peers);
        let server = bound.map_err(|source| StartError::Bind {
            server: "relay for other replicas",
            option: "--replica-port",
            source: BindError::new(at, source),
        })?;
        let port = server.local_addr().port();
        let relays = sessions.relays().clone();
        tasks.spawn(
            "relay for other replicas",
            server.run(relays, tasks.child_token()),
        );
        Ok(port)
    }
}

/// Answers requests that other replicas forward. TLS has verified that they come from a replica.
#[derive(Clone)]
struct PeerService {
    tunnels: Tunnels,
    router: Router,
}

impl Handler for PeerService {
    async fn handle(self, request: Request<Incoming>) -> Response<Body> {
        let path = request
            .uri()
            .path_and_query()
            .map_or("/", |path| path.as_str());
        if let Some(path) = path.strip_prefix(STREAMS_PATH) {
            let path = path.to_owned();
            return streams::answer_forwarded(&self.tunnels, &path, request).await;
        }
        if path.starts_with(CALLS_PATH) {
            return self.router.answer_forwarded(request).await;
        }
        let body = Full::from("replicas forward requests for nodes here, and nothing else\n");
        let mut response = Response::new(body.map_err(|never| match never {}).boxed_unsync());
        *response.status_mut() = StatusCode::NOT_FOUND;
        response
    }
}
