//! Lets hollow nodes return that were deleted or reset in their cloud.

use std::{path::Path, time::Duration};

use agent::config::{Config, Secret};
use cloudsim::Cloud;
use componentbase::Link;
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval},
};
use tracing::{debug, info, warn};

use super::{Error, Fleet, HollowNode, identity};

/// How often nodes without a connection are checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// How often a node without a connection asks a cloud elsewhere whether its certificate is valid.
const QUERY_INTERVAL: Duration = Duration::from_secs(5);

impl Fleet {
    /// Starts nodes again whose certificate `cloud` has revoked, with a new join token: nobody runs `edge-agent reset` for them. Never
    /// returns. Cancel-safe: a node that is not started is started by the next call.
    pub async fn rejoin_revoked(&mut self, cloud: &Cloud) {
        let mut ticks = interval(CHECK_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            for node in &mut self.nodes {
                if let Err(error) = rejoin_if_revoked(node, cloud).await {
                    let error = &error as &dyn std::error::Error;
                    warn!(
                        node = node.name,
                        error, "failed to rejoin a hollow node; retrying"
                    );
                }
            }
        }
    }
}

impl HollowNode {
    /// Runs until the agent ends on its own, and returns why. When the cloud, which is elsewhere, has freed the node's name, the agent
    /// starts again with the present join token. If it is dropped during that start, the node is stopped.
    pub async fn run_and_rejoin(
        &mut self,
        mut token: impl AsyncFnMut() -> Option<String>,
    ) -> Result<(), Error> {
        loop {
            let (link, directory, config) = (
                self.link(),
                self.directory().to_owned(),
                self.config().clone(),
            );
            let token = clock::select! {
                ended = self.wait_ended() => return ended,
                token = token_when_freed(link.as_ref(), &directory, config, &mut token) => token,
            };
            info!(node = self.name, "certificate revoked; joining again");
            self.stop().await;
            self.remove_identity().await?;
            self.start_with(token).await?;
        }
    }

    /// Starts the agent with this join token.
    async fn start_with(&mut self, token: String) -> Result<(), Error> {
        self.configure(|config| config.edge_hub.token = Some(Secret::new(token)));
        self.start().await
    }
}

/// Waits until the cloud has freed the name of a node that has a certificate and no connection. Returns the join token.
async fn token_when_freed(
    link: Option<&watch::Receiver<Link>>,
    directory: &Path,
    mut config: Config,
    token: &mut impl AsyncFnMut() -> Option<String>,
) -> String {
    let mut ticks = interval(QUERY_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        // without a certificate the agent is about to join by itself
        if is_connected(link) || !identity::exists(directory) {
            continue;
        }
        let Some(token) = token().await else { continue };
        config.edge_hub.token = Some(Secret::new(token.clone()));
        match agent::app::must_rejoin(&config).await {
            // the agent may have connected meanwhile
            Ok(true) if !is_connected(link) => return token,
            Ok(_) => {}
            Err(error) => debug!(
                error = &error as &dyn std::error::Error,
                "failed to query the node's certificate"
            ),
        }
    }
}

async fn rejoin_if_revoked(node: &mut HollowNode, cloud: &Cloud) -> Result<(), Error> {
    let is_connected = is_connected(node.link().as_ref());
    if is_connected || !identity::is_refused(cloud, &node.name, node.certificate()).await {
        return Ok(());
    }
    node.stop().await;
    node.remove_identity().await?;
    let token = match cloud.token_now() {
        Ok(token) => token,
        Err(error) => {
            warn!(
                error = &error as &dyn std::error::Error,
                "failed to sign a join token"
            );
            cloud.token().to_owned()
        }
    };
    node.start_with(token).await
}

fn is_connected(link: Option<&watch::Receiver<Link>>) -> bool {
    link.is_some_and(|link| *link.borrow() != Link::Down)
}
