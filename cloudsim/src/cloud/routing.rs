//! Rules, and the router's listener if it is served.

use std::net::SocketAddr;

use kube::Client;
use kubeapi::serve::{HandlerService, Server};

use super::Options;
use crate::{
    controllers::rules::{self, Rules, Via},
    peers::Peers,
    pki::Pki,
    router::{Auth, Router, RouterError},
    sessions::Sessions,
    tasks::Tasks,
};

/// The rules and the listener.
pub(super) struct Routing {
    /// Handles messages by rules.
    pub(super) rules: Rules,
    listener: Option<Server<HandlerService<Router>>>,
}

impl Routing {
    pub(super) async fn bind(
        options: &Options,
        (client, peers): (&Client, Option<&Peers>),
        sessions: &Sessions,
        pki: &Pki,
    ) -> Result<Self, RouterError> {
        let agents = sessions.clone();
        let via = Via::of_authority(pki.ca().cert_der());
        let is_own_agent = move |node: &str| agents.is_own_agent(node);
        let rules = Rules::new(client.clone(), via, is_own_agent, rules::CALL_TIMEOUT);
        let listener = match options.router {
            Some(router) => {
                let at = SocketAddr::new(options.address, router.port);
                let auth = Auth::new(client.clone(), options.rbac);
                let calls = (rules.clone(), peers.cloned());
                Some(Router::bind(at, router.anonymous, calls, auth, pki.server()).await?)
            }
            None => None,
        };
        Ok(Self { rules, listener })
    }

    /// Returns the address of the router.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.listener.as_ref().map(Server::local_addr)
    }

    pub(super) fn run(self, tasks: &Tasks) {
        tasks.spawn("rules", self.rules.run(tasks.child_token()));
        if let Some(listener) = self.listener {
            tasks.spawn("router", listener.run(tasks.child_token()));
        }
    }
}
