//! Decides whether the stored pods are all pods that the cloud has for this node, so that whatever else runs is an orphan.
//!
//! A new store is empty although pods may run that the cloud still wants. It counts as complete once the cloud has been
//! connected without a break for [`QUIET_PERIOD`] in which no new pod came, and at least one pod is stored: a cloud that sends
//! none may not know yet that the node has lost them. Where no pod is stored, the cloud must have answered for each pod that
//! left something on this node that it does not know it. The store is complete at once where the node has nothing of unknown
//! pods. The result is written into the store: a store that was complete once is so from the start, with the cloud or without.

use std::{collections::BTreeSet, time::Duration};

use clock::Instant;
use componentbase::Link;
use componentbase::{CompletenessPublisher, PodsComplete};
use objectstore::{Key, Resource, StoreError};
use serde_json::json;
use tokio::sync::watch;
use tracing::{error, info};
use wire::ResourceType;

use super::{
    desired::{Desired, resource},
    mirror,
    record::GROUP,
};

/// Longer than a cloud takes to notice a node that has come back and to send it some hundred pods over a slow link.
const QUIET_PERIOD: Duration = Duration::from_secs(120);
/// How long to wait after an error of the store.
const STORE_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Finds out whether the pods are complete; the rules are at the top of the file.
#[derive(Debug)]
pub(super) struct CompletenessTracker {
    desired: Desired,
    link: watch::Receiver<Link>,
    publisher: CompletenessPublisher,
}

impl CompletenessTracker {
    pub(super) fn new(desired: Desired, link: watch::Receiver<Link>) -> (Self, PodsComplete) {
        let (publisher, handle) = PodsComplete::new(desired.damaged_objects());
        let tracker = Self {
            desired,
            link,
            publisher,
        };
        (tracker, handle)
    }

    /// Returns when the pods are complete.
    pub(super) async fn run(&mut self) {
        while let Err(error) = self.check().await {
            error!(
                error = &error as &dyn std::error::Error,
                "failed to check whether all pods are known; possible orphans continue to run, retrying"
            );
            tokio::time::sleep(STORE_RETRY_DELAY).await;
        }
    }

    async fn check(&mut self) -> Result<(), StoreError> {
        let mark = Key::new(Resource::new(GROUP, "stores"), "", "whole");
        if self.desired.get(&mark).await?.is_none() {
            info!(
                "pods of this node not complete yet; unknown pods continue to run until the cloud has sent all"
            );
            if !self.wait_until_complete().await? {
                return Ok(());
            }
            self.desired
                .set(&mark, Some(json!({"metadata": {}})))
                .await?;
            info!("all pods of this node stored; removing other running pods");
        }
        self.publisher.complete.send_replace(true);
        Ok(())
    }

    /// Waits until the pods are complete. Returns false if EdgeHub ends before.
    async fn wait_until_complete(&mut self) -> Result<bool, StoreError> {
        let mut quiet = None;
        loop {
            let link = *self.link.borrow_and_update();
            let unknown = *self.publisher.unknown.borrow_and_update();
            let pods = self.pods().await?;
            quiet = match evaluate(quiet, link, pods, unknown, clock::Instant::now()) {
                Completeness::Complete => return Ok(true),
                Completeness::Wait(quiet) => quiet,
            };
            let until = quiet.as_ref().map(|quiet| quiet.since + QUIET_PERIOD);
            let over = async {
                match until {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            // cancel-safe: each only shortens the wait for the next check, or ends it.
            clock::select! {
                changed = self.link.changed() => if changed.is_err() { return Ok(false) },
                () = over => {}
                // when the sender is gone, no further answer can come
                Ok(()) = self.publisher.unknown.changed() => {}
                () = self.publisher.no_orphans.notified() => return Ok(true),
            }
        }
    }

    async fn pods(&self) -> Result<BTreeSet<String>, StoreError> {
        let pods = self.desired.list(&resource(&ResourceType::Pod)).await?.0;
        let mut uids = BTreeSet::new();
        for pod in pods {
            let pod = pod.value()?;
            // a static pod says nothing about the cloud
            if mirror::is_static(&pod) {
                continue;
            }
            uids.extend(
                pod.pointer("/metadata/uid")
                    .and_then(|uid| uid.as_str())
                    .map(str::to_owned),
            );
        }
        Ok(uids)
    }
}

/// A period without a break of the link and without a new pod.
#[derive(Clone, Debug, PartialEq, Eq)]
struct QuietPeriod {
    /// The connection.
    link: Link,
    since: Instant,
    /// The pods that were stored at its start.
    pods: BTreeSet<String>,
}

#[derive(Debug, PartialEq, Eq)]
enum Completeness {
    Complete,
    /// Check again when the link changes, or when this period has lasted for [`QUIET_PERIOD`].
    Wait(Option<QuietPeriod>),
}

/// Evaluates the rules. `unknown`: the cloud has answered that it does not know any other pod of this node.
fn evaluate(
    quiet: Option<QuietPeriod>,
    link: Link,
    pods: BTreeSet<String>,
    unknown: bool,
    now: Instant,
) -> Completeness {
    if link == Link::Down {
        return Completeness::Wait(None);
    }
    match quiet.filter(|quiet| quiet.link == link) {
        Some(quiet) if now < quiet.since + QUIET_PERIOD => Completeness::Wait(Some(quiet)),
        Some(quiet) if (unknown || !pods.is_empty()) && pods.is_subset(&quiet.pods) => {
            Completeness::Complete
        }
        _ => Completeness::Wait(Some(QuietPeriod {
            link,
            since: now,
            pods,
        })),
    }
}

#[cfg(test)]
mod tests {
    use objectstore::MemoryStore;

    use super::*;

    fn pods(uids: &[&str]) -> BTreeSet<String> {
        uids.iter().map(|&uid| uid.to_owned()).collect()
    }

    #[test]
    fn pods_are_whole_after_a_quiet_time_of_one_connection() {
        let start = Instant::now();
        let (early, due) = (start + QUIET_PERIOD / 2, start + QUIET_PERIOD);
        let quiet = |link, uids: &[&str], since| QuietPeriod {
            link,
            since,
            pods: pods(uids),
        };
        let (first, second) = (Link::Up(1), Link::Up(2));
        let known = || Some(quiet(first, &["a", "b"], start));
        let begins =
            |link, uids: &[&str], since| Completeness::Wait(Some(quiet(link, uids, since)));
        let table = [
            (
                "not connected",
                None,
                Link::Down,
                pods(&["a"]),
                due,
                Completeness::Wait(None),
            ),
            (
                "connected now",
                None,
                first,
                pods(&["a"]),
                start,
                begins(first, &["a"], start),
            ),
            (
                "not long enough",
                known(),
                first,
                pods(&["a", "b"]),
                early,
                Completeness::Wait(known()),
            ),
            (
                "the same pods",
                known(),
                first,
                pods(&["a", "b"]),
                due,
                Completeness::Complete,
            ),
            (
                "one has gone",
                known(),
                first,
                pods(&["a"]),
                due,
                Completeness::Complete,
            ),
            (
                "one has come",
                known(),
                first,
                pods(&["a", "c"]),
                due,
                begins(first, &["a", "c"], due),
            ),
            (
                "none at all",
                known(),
                first,
                pods(&[]),
                due,
                begins(first, &[], due),
            ),
            (
                "disconnected",
                known(),
                Link::Down,
                pods(&["a", "b"]),
                due,
                Completeness::Wait(None),
            ),
            (
                "connected anew",
                known(),
                second,
                pods(&["a"]),
                due,
                begins(second, &["a"], due),
            ),
        ];
        for (name, before, link, uids, now, expected) in table {
            assert_eq!(evaluate(before, link, uids, false, now), expected, "{name}");
        }
        assert_eq!(
            evaluate(known(), first, pods(&[]), true, due),
            Completeness::Complete,
            "none, and none is known"
        );
        assert_eq!(
            evaluate(known(), first, pods(&[]), true, early),
            Completeness::Wait(known())
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_without_pods_is_complete_when_the_cloud_knows_none_of_this_node() {
        let desired = Desired::new(MemoryStore::new(), "edge-1".into());
        let (_up, link) = watch::channel(Link::Up(1));
        let (mut completeness, complete) = CompletenessTracker::new(desired, link);
        let tracking = componentbase::spawn(async move { completeness.run().await });
        tokio::time::sleep(10 * QUIET_PERIOD).await;
        assert!(!complete.now(), "nobody has asked the cloud");
        complete.set_unknown_to_cloud(true);
        tokio::time::timeout(2 * QUIET_PERIOD, complete.until())
            .await
            .unwrap();
        tracking.await.unwrap();
    }
}
