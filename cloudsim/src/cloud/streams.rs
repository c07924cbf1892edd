//! The servers of nodes' streams: the tunnels, the kubelets' endpoint for an external API server, and the relay between nodes.

use std::{net::SocketAddr, sync::Arc};

use kube::Client;
use kubeapi::serve::{HandlerService, Server};

use super::{Options, StartError};
use crate::{
    faults::Faults,
    listeners::LocalConnector,
    peers::Peers,
    pki::{ServerIdentity, Trust},
    relay::RelayServer,
    resource_metrics::{AggregatedApi, ResourceMetrics},
    sessions::Sessions,
    streams::{ClientCa, ClientTrust, ClusterTunnels, Kubelets, StreamServer},
    tasks::Tasks,
};

/// The servers that are switched on.
pub(super) struct Streams {
    tunnels: Option<StreamServer>,
    kubelets: Option<(Server<HandlerService<Kubelets>>, ClientTrust)>,
    relay: Option<RelayServer>,
    metrics_api: Option<MetricsApi>,
}

/// `metrics.k8s.io` for the API server of a cluster.
struct MetricsApi {
    server: Server<HandlerService<AggregatedApi>>,
    trust: ClientTrust,
    metrics: ResourceMetrics,
}

impl Streams {
    pub(super) async fn bind(
        options: &Options,
        trust: &Trust,
        (faults, sessions): (&Faults, &Sessions),
        (client, peers): (&Client, Option<&Peers>),
        identity: &ServerIdentity,
    ) -> Result<Self, StartError> {
        let at = |port| SocketAddr::new(options.address, port);
        let tunnels = match options.tunnel_port {
            Some(port) => {
                let (limits, tunnels) = (options.limits.listener(), sessions.tunnels().clone());
                Some(StreamServer::bind(at(port), trust.clone(), limits, tunnels, faults).await?)
            }
            None => None,
        };
        let relay = match options.relay_port {
            Some(port) => {
                let (limits, relays) = (options.limits.listener(), sessions.relays().clone());
                Some(RelayServer::bind(
                    at(port),
                    trust.clone(),
                    limits,
                    relays,
                    faults,
                )?)
            }
            None => None,
        };
        let reached = ClusterTunnels::new(sessions.tunnels().clone(), peers.cloned());
        let kubelets = match &options.kubelets {
            Some(kubelets) => {
                let trust = ClientTrust::read(&kubelets.client_ca, client, identity).await?;
                let names = &kubelets.client_names;
                let service = Kubelets::new(client.clone(), reached.clone(), names);
                let failed = |source| StartError::Bind {
                    server: "server of nodes' kubelets",
                    option: "--stream-port",
                    source,
                };
                let (at, service) = (at(kubelets.port), HandlerService(service));
                let bound = Server::bind_changing(at, trust.current(), service).await;
                Some((bound.map_err(failed)?, trust))
            }
            None => None,
        };
        let cluster = options.cluster.as_ref();
        let metrics_api = match cluster.and_then(|cluster| cluster.metrics_api_port) {
            Some(port) => Some(MetricsApi::bind(at(port), client, reached, identity).await?),
            None => None,
        };
        Ok(Self {
            tunnels,
            kubelets,
            relay,
            metrics_api,
        })
    }

    /// Returns the connector to tunnels for nodes of this process.
    pub(super) fn tunnel_connector(&self) -> Option<LocalConnector> {
        self.tunnels.as_ref().map(StreamServer::connector)
    }

    /// Returns their addresses.
    pub(super) fn addresses(&self) -> [Option<SocketAddr>; 4] {
        let tunnels = self.tunnels.as_ref().map(StreamServer::local_addr);
        let kubelets = self
            .kubelets
            .as_ref()
            .map(|(server, _)| server.local_addr());
        let metrics_api = self.metrics_api.as_ref();
        [
            tunnels,
            kubelets,
            self.relay.as_ref().map(RelayServer::local_addr),
            metrics_api.map(|api| api.server.local_addr()),
        ]
    }

    pub(super) fn run(self, tasks: &Tasks) {
        if let Some(tunnels) = self.tunnels {
            tasks.spawn("stream server", tunnels.run(tasks.child_token()));
        }
        if let Some(relay) = self.relay {
            tasks.spawn("relay", relay.run(tasks.child_token()));
        }
        if let Some((kubelets, trust)) = self.kubelets {
            tasks.spawn(
                "server of nodes' kubelets",
                kubelets.run(tasks.child_token()),
            );
            tasks.spawn("CA of clients", trust.follow(tasks.child_token()));
        }
        if let Some(api) = self.metrics_api {
            let server = api.server.run(tasks.child_token());
            tasks.spawn("metrics API", server);
            tasks.spawn("scraper of nodes", api.metrics.run(tasks.child_token()));
            tasks.spawn(
                "CA of the front proxy",
                api.trust.follow(tasks.child_token()),
            );
        }
    }
}

impl MetricsApi {
    async fn bind(
        at: SocketAddr,
        client: &Client,
        tunnels: ClusterTunnels,
        identity: &ServerIdentity,
    ) -> Result<Self, StartError> {
        let trust = ClientTrust::read(&ClientCa::FrontProxy, client, identity).await?;
        let metrics = ResourceMetrics::in_cluster(client.clone(), Arc::new(tunnels));
        let service = AggregatedApi::new(&metrics, client.clone(), trust.names());
        let bound = Server::bind_changing(at, trust.current(), HandlerService(service)).await;
        let server = bound.map_err(|source| StartError::Bind {
            server: "metrics API",
            option: "--metrics-api-port",
            source,
        })?;
        Ok(Self {
            server,
            trust,
            metrics,
        })
    }
}
