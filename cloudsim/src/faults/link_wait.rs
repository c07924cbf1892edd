//! Link faults while a node connects: a cut link refuses it, and a half-open one does not answer.

use clock::Instant;

use tokio::time::{sleep, sleep_until};

use super::{Faults, Link, LinkState};

/// The link was cut, or half-open, when the node connected.
#[derive(Debug, thiserror::Error)]
#[error("the link of node {0} is cut by fault injection")]
pub(crate) struct LinkDown(String);

/// Waits while the node's link is half-open. Fails if it is cut.
pub(crate) async fn wait_for_link(faults: &Faults, node: &str) -> Result<(), LinkDown> {
    let mut changes = faults.changes();
    let mut swallowed = false;
    loop {
        changes.borrow_and_update();
        let set = faults.on(node);
        let LinkState { link, until } = LinkState::of(set.as_ref(), Instant::now());
        match link {
            Link::Cut => return Err(LinkDown(node.to_owned())),
            // what a half-open link has swallowed does not come back
            Link::Up if swallowed => return Err(LinkDown(node.to_owned())),
            Link::Up => {
                let delay = set
                    .and_then(|set| set.conditions().delay)
                    .unwrap_or_default()
                    .get();
                sleep(delay * 2).await;
                return Ok(());
            }
            Link::HalfOpen => swallowed = true,
        }
        clock::select! {
            // cancel-safe: both hold no data; the sender lives in the faults
            _ = changes.changed() => {}
            () = sleep_until_opt(until) => {}
        }
    }
}

/// Sleeps until this moment; forever if there is none.
pub(crate) async fn sleep_until_opt(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
