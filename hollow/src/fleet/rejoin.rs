//! Lets nodes of a cloud in this process return that were deleted or reset there.

use std::time::Duration;

use agent::{config::Secret, edgehub::Link};
use cloudsim::Cloud;
use tokio::time::{MissedTickBehavior, interval};
use tracing::warn;

use super::{Error, Fleet, HollowNode, identity};

/// How often nodes without a connection are checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

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
                    warn!(node = node.name, error, "failed to let a hollow node join again; retrying");
                }
            }
        }
    }
}

async fn rejoin_if_revoked(node: &mut HollowNode, cloud: &Cloud) -> Result<(), Error> {
    let is_connected = node.link().is_some_and(|link| *link.borrow() != Link::Down);
    if is_connected || !identity::forget_if_useless(cloud, &node.name, node.directory()).await? {
        return Ok(());
    }
    let token = match cloud.token_now() {
        Ok(token) => token,
        Err(error) => {
            warn!(error = &error as &dyn std::error::Error, "failed to sign a join token");
            cloud.token().to_owned()
        }
    };
    node.configure(|config| config.edge_hub.token = Some(Secret::new(token)));
    node.start().await
}
