//! Waits until the Nodes of a fleet are Ready, and finds out why one is not.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use componentbase::Link;
use futures::{StreamExt, TryStreamExt, future::try_join, stream::FuturesUnordered};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client, ResourceExt,
    runtime::{WatchStreamExt, watcher},
};
use tokio::{sync::watch, time::timeout};

use super::{Error, Fleet, HollowNode};

/// How long nodes may take to become Ready, and how much more each of them.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
const READY_TIMEOUT_PER_NODE: Duration = Duration::from_millis(500);

/// Why a node is not Ready.
#[derive(Debug, thiserror::Error)]
pub enum NotReady {
    /// The agent of a node has ended.
    #[error("node {node} has stopped")]
    Stopped {
        /// The name of the node.
        node: String,
        /// Why; `None` if it was told to.
        source: Option<Error>,
    },
    /// Nodes take too long.
    #[error(
        "{ready} of {count} nodes are Ready after {after:?}; the first other one is {node}: {why}; CLOUDSIM_LOG=info shows more"
    )]
    TimedOut {
        /// The number of Ready nodes.
        ready: usize,
        /// The number of all nodes.
        count: usize,
        /// How long it has taken.
        after: Duration,
        /// A node that is not Ready.
        node: String,
        /// What is known about it.
        why: String,
    },
    /// The Nodes cannot be watched.
    #[error("cannot watch the Nodes of the cloud")]
    Watch(#[from] Box<watcher::Error>),
}

/// Whether a Node is Ready, or why not.
type Readiness = Result<(), String>;

impl Fleet {
    /// Waits until all Nodes are Ready in the cloud of this client.
    ///
    /// # Errors
    /// An agent has ended, or a Node takes too long.
    pub async fn ready(&mut self, client: Client) -> Result<(), NotReady> {
        self.ready_counting(client, &AtomicUsize::new(0)).await
    }

    /// Waits like [`Self::ready`], and keeps `count` at the number of Nodes that are Ready.
    ///
    /// # Errors
    /// As for [`Self::ready`].
    pub async fn ready_counting(
        &mut self,
        client: Client,
        count: &AtomicUsize,
    ) -> Result<(), NotReady> {
        let links: Vec<_> = self.nodes.iter().filter_map(HollowNode::link).collect();
        let unseen =
            |node: &HollowNode| (node.name.clone(), Err("it is not registered".to_owned()));
        let mut seen: BTreeMap<String, Readiness> = self.nodes.iter().map(unseen).collect();
        let limit =
            READY_TIMEOUT + READY_TIMEOUT_PER_NODE * u32::try_from(seen.len()).unwrap_or(u32::MAX);
        let all_ready = async {
            // A Node that was stored is Ready before its agent is connected.
            try_join(wait_connected(links), watch_nodes(client, &mut seen, count))
                .await
                .map(drop)
        };
        let mut ended: FuturesUnordered<_> = self.nodes.iter_mut().map(wait_ended).collect();
        let is_ready = clock::select! {
            // cancel-safe: what is seen of a Node stays in `seen`.
            is_ready = timeout(limit, all_ready) => is_ready,
            Some((node, ended)) = ended.next() => return Err(NotReady::Stopped { node, source: ended.err() }),
        };
        drop(ended);
        match is_ready {
            Ok(is_ready) => is_ready,
            Err(_) => Err(self.timed_out(seen, limit)),
        }
    }

    /// Explains which node was not Ready in time.
    fn timed_out(&self, mut seen: BTreeMap<String, Readiness>, after: Duration) -> NotReady {
        for node in &self.nodes {
            let is_connected = node.link().is_some_and(|link| *link.borrow() != Link::Down);
            if !is_connected {
                seen.insert(
                    node.name.clone(),
                    Err("it is not connected to CloudHub".to_owned()),
                );
            }
        }
        let (ready, count) = (
            seen.values().filter(|readiness| readiness.is_ok()).count(),
            seen.len(),
        );
        let first = seen
            .into_iter()
            .find_map(|(node, readiness)| Some((node, readiness.err()?)));
        let (node, why) = first.unwrap_or_default();
        NotReady::TimedOut {
            ready,
            count,
            after,
            node,
            why,
        }
    }
}

/// Waits until all agents are connected. The watch of one that has ended is closed, which [`wait_ended`] reports.
async fn wait_connected(links: Vec<watch::Receiver<Link>>) -> Result<(), NotReady> {
    for link in links {
        connection(link).await;
    }
    Ok(())
}

/// Waits until an agent is connected, or has ended.
pub(super) async fn connection(mut link: watch::Receiver<Link>) {
    let _ = link.wait_for(|link| *link != Link::Down).await;
}

async fn wait_ended(node: &mut HollowNode) -> (String, Result<(), Error>) {
    let ended = node.wait_ended().await;
    (node.name.clone(), ended)
}

/// Watches the Nodes until all of `seen` are Ready.
async fn watch_nodes(
    client: Client,
    seen: &mut BTreeMap<String, Readiness>,
    count: &AtomicUsize,
) -> Result<(), NotReady> {
    let nodes = watcher(Api::<Node>::all(client), watcher::Config::default()).default_backoff();
    let mut nodes = std::pin::pin!(nodes.applied_objects());
    let is_not_ready = |readiness: &&mut Readiness| readiness.is_err();
    let mut missing = seen.values_mut().filter(is_not_ready).count();
    while missing > 0 {
        let Some(node) = nodes.try_next().await.map_err(Box::new)? else {
            break;
        };
        if let Some(readiness) = seen.get_mut(&node.name_any()) {
            let is_ready = std::mem::replace(readiness, readiness_of(&node)).is_ok();
            match (is_ready, readiness.is_ok()) {
                (false, true) => missing -= 1,
                (true, false) => missing += 1,
                _ => {}
            }
        }
        count.store(seen.len() - missing, Ordering::Relaxed);
    }
    Ok(())
}

fn readiness_of(node: &Node) -> Readiness {
    let conditions = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default();
    match conditions
        .iter()
        .find(|condition| condition.type_ == "Ready")
    {
        Some(condition) if condition.status == "True" => Ok(()),
        Some(condition) => Err(condition.message.clone().unwrap_or_default()),
        None => Err("it has no status yet".to_owned()),
    }
}
