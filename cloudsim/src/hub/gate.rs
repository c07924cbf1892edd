//! Before a node gets its session: a link that is cut lets nobody in, and one that is half-open answers nothing.

use std::time::Instant;

use tokio::time::{sleep, sleep_until};

use crate::faults::{Faults, Link, Standing, now};

/// The link stood dead when the node came.
#[derive(Debug, thiserror::Error)]
#[error("the link of node {0} is cut, on purpose")]
pub(crate) struct Dead(String);

/// Waits as long as the node's link keeps its greeting.
pub(crate) async fn pass(faults: &Faults, node: &str) -> Result<(), Dead> {
    let mut changes = faults.changes();
    let mut swallowed = false;
    loop {
        changes.borrow_and_update();
        let set = faults.on(node);
        let Standing { link, until } = Standing::of(set.as_ref(), now());
        match link {
            Link::Cut => return Err(Dead(node.to_owned())),
            // what was swallowed does not come back
            Link::Up if swallowed => return Err(Dead(node.to_owned())),
            Link::Up => {
                let delay = set.and_then(|set| set.lowered.delay).unwrap_or_default().get();
                sleep(delay * 2).await;
                return Ok(());
            }
            Link::HalfOpen => swallowed = true,
        }
        tokio::select! {
            // cancel-safe: both hold no data; the sender lives in the faults
            _ = changes.changed() => {}
            () = until_then(until) => {}
        }
    }
}

/// Until this moment, or for ever.
pub(super) async fn until_then(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}
