//! The servers of nodes' streams: the tunnels, the kubelets' endpoint for an external API server, and the relay between nodes.

use std::net::SocketAddr;

use kube::Client;
use kubeapi::serve::{HandlerService, Server};

use super::{Options, StartError};
use crate::{
    faults::Faults,
    pki::{ServerIdentity, Trust},
    relay::RelayServer,
    sessions::Sessions,
    streams::{self, Kubelets, StreamServer},
    tasks::Tasks,
};

/// The servers that are switched on.
pub(super) struct Streams {
    tunnels: Option<StreamServer>,
    kubelets: Option<Server<HandlerService<Kubelets>>>,
    relay: Option<RelayServer>,
}

impl Streams {
    pub(super) async fn bind(
        options: &Options,
        trust: &Trust,
        (faults, sessions): (&Faults, &Sessions),
        client: &Client,
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
        let kubelets = match &options.kubelets {
            Some(kubelets) => {
                let tls = streams::tls(kubelets, client, identity).await?;
                let service = Kubelets::new(
                    client.clone(),
                    sessions.tunnels().clone(),
                    &kubelets.client_names,
                );
                let failed = |source| StartError::Bind {
                    server: "server of nodes' kubelets",
                    option: "--stream-port",
                    source,
                };
                let bound =
                    Server::bind(at(kubelets.port), Some(tls), HandlerService(service)).await;
                Some(bound.map_err(failed)?)
            }
            None => None,
        };
        Ok(Self {
            tunnels,
            kubelets,
            relay,
        })
    }

    /// Returns their addresses.
    pub(super) fn addresses(&self) -> (Option<SocketAddr>, Option<SocketAddr>, Option<SocketAddr>) {
        let tunnels = self.tunnels.as_ref().map(StreamServer::local_addr);
        let kubelets = self.kubelets.as_ref().map(Server::local_addr);
        (
            tunnels,
            kubelets,
            self.relay.as_ref().map(RelayServer::local_addr),
        )
    }

    pub(super) fn run(self, tasks: &Tasks) {
        if let Some(tunnels) = self.tunnels {
            tasks.spawn("stream server", tunnels.run(tasks.child_token()));
        }
        if let Some(relay) = self.relay {
            tasks.spawn("relay", relay.run(tasks.child_token()));
        }
        if let Some(kubelets) = self.kubelets {
            tasks.spawn(
                "server of nodes' kubelets",
                kubelets.run(tasks.child_token()),
            );
        }
    }
}
