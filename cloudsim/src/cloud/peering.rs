//! What replicas of one cloud serve to each other: requests for nodes that are connected to this replica.

use std::net::SocketAddr;

use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use kubeapi::{
    Body,
    serve::{Handler, HandlerService, Server},
};

use super::{Options, StartError};
use crate::{
    controllers::rules::Rules,
    peers::{CALLS_PATH, PeerOptions, PeerTls, Peers, ReadPeers, STREAMS_PATH},
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

    /// Starts the server for other replicas. Returns the address at which they reach it.
    pub(super) async fn serve(
        self,
        options: &Options,
        rules: &Rules,
        sessions: &Sessions,
        tasks: &Tasks,
    ) -> Result<SocketAddr, StartError> {
        let service = PeerService {
            tunnels: sessions.tunnels().clone(),
            router: Router::unchecked(rules.clone()),
        };
        let at = SocketAddr::new(options.address, self.options.port);
        let bound = Server::bind(at, Some(self.tls.server), HandlerService(service)).await;
        let server = bound.map_err(|source| StartError::Bind {
            server: "server for other replicas",
            option: "--replica-port",
            source,
        })?;
        let reached = SocketAddr::new(self.options.address, server.local_addr().port());
        tasks.spawn("server for other replicas", server.run(tasks.child_token()));
        Ok(reached)
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
