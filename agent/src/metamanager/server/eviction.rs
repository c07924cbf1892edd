//! Limits the disk space of the copies: beyond the limit, the least recently used collections are removed.

use std::{cmp::Reverse, collections::HashMap, sync::Arc, time::Duration};

use clock::Instant;
use objectstore::{Resource, StoreError};
use parking_lot::Mutex;
use tokio::time::{MissedTickBehavior, interval_at};
use tracing::{info, warn};

use super::{
    copies::{Copies, MAX_COPIES_BYTES},
    keys,
    kinds::definitions,
    listed_collections,
    watches::ClientWatches,
};
use crate::metamanager::record;

/// How often the space is checked. Collections that were used since the last check stay: a client that reads a list page by
/// page must not find that it ends early.
const CHECK_INTERVAL: Duration = Duration::from_mins(5);
/// The most collections whose last use is remembered. A cluster has some hundred.
const MAX_REMEMBERED_COLLECTIONS: usize = 4096;

/// When each collection was last used; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct CollectionUsage(Arc<Mutex<HashMap<Resource, Instant>>>);

impl CollectionUsage {
    /// Records that a client uses this collection.
    pub(super) fn record_use(&self, resource: Resource, now: Instant) {
        let mut asked = self.0.lock();
        if asked.len() < MAX_REMEMBERED_COLLECTIONS || asked.contains_key(&resource) {
            asked.insert(resource, now);
        }
    }

    /// Keeps the copies within the limit; never returns.
    pub(super) async fn run(&self, copies: &Copies, watches: &ClientWatches) {
        // the first check is not at the start, when pods wait for the disk and no collection was used yet
        let mut looks = interval_at(tokio::time::Instant::now() + CHECK_INTERVAL, CHECK_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            if let Err(error) = self
                .evict(copies, watches, MAX_COPIES_BYTES, Instant::now())
                .await
            {
                warn!(
                    error = &error as &dyn std::error::Error,
                    "failed to limit the size of MetaServer's copies; retrying"
                );
            }
        }
    }

    async fn evict(
        &self,
        copies: &Copies,
        watches: &ClientWatches,
        most: u64,
        now: Instant,
    ) -> Result<(), StoreError> {
        let mut sizes = copies.sizes().await?;
        let stays = watches.all().into_iter().chain([definitions()]);
        let stays: Vec<_> = stays
            .map(|collection| keys::resource(&collection.target))
            .collect();
        let total = sizes.iter().map(|(_, bytes)| bytes).sum();
        sizes.retain(|(resource, _)| {
            !stays.contains(resource)
                && !record::is_record_collection(resource)
                && *resource != listed_collections::set_resource()
        });
        for resource in self.select_evicted(sizes, total, most, now) {
            info!(%resource, "least recently used copies of MetaServer removed: size limit reached");
            copies.forget(&resource).await?;
        }
        Ok(())
    }

    /// Returns the collections of `sizes` to remove, so that of `total` bytes three quarters of `most` are left; none if all
    /// fit.
    fn select_evicted(
        &self,
        mut sizes: Vec<(Resource, u64)>,
        mut total: u64,
        most: u64,
        now: Instant,
    ) -> Vec<Resource> {
        if total <= most {
            return Vec::new();
        }
        let mut asked = self.0.lock();
        // of collections not used since the start, the largest go first, so that few are lost
        sizes.sort_by_key(|(resource, bytes)| (asked.get(resource).copied(), Reverse(*bytes)));
        let is_old = |at: &Instant| now.saturating_duration_since(*at) >= CHECK_INTERVAL;
        let mut evicted = Vec::new();
        for (resource, bytes) in sizes {
            if total > most / 4 * 3 && asked.get(&resource).is_none_or(is_old) {
                total = total.saturating_sub(bytes);
                evicted.push(resource);
            }
        }
        for resource in &evicted {
            asked.remove(resource);
        }
        evicted
    }
}

#[cfg(test)]
mod tests {
    use objectstore::{Key, MemoryStore};
    use serde_json::json;

    use super::*;
    use crate::metamanager::{desired::Desired, server::watches::Collection};

    fn resource(plural: &str) -> Resource {
        Resource::new("", plural)
    }

    #[test]
    fn the_least_recently_used_collections_are_evicted() {
        let (usage, begun) = (CollectionUsage::default(), Instant::now());
        let sizes = || {
            [("a", 30), ("b", 30), ("c", 10), ("d", 20)]
                .map(|(name, bytes)| (resource(name), bytes))
                .to_vec()
        };
        for (minute, name) in [(0, "c"), (1, "b"), (0, "a")] {
            usage.record_use(resource(name), begun + Duration::from_mins(minute));
        }
        let evicted = |total, most, minute| {
            usage.select_evicted(sizes(), total, most, begun + Duration::from_mins(minute))
        };
        assert!(evicted(90, 90, 60).is_empty(), "they fit");
        // `d` was not used since the start
        assert_eq!(
            evicted(90, 89, 1),
            [resource("d")],
            "the others were asked for just now"
        );
        assert_eq!(
            evicted(90, 60, 60),
            ["d", "a"].map(resource),
            "40 are left of 60"
        );
        assert_eq!(
            evicted(90, 80, 60),
            [resource("a")],
            "what has gone is as if never asked for; the largest goes first"
        );
    }

    #[test]
    fn remembered_uses_are_limited() {
        let (usage, now) = (CollectionUsage::default(), Instant::now());
        (0..=MAX_REMEMBERED_COLLECTIONS)
            .for_each(|number| usage.record_use(resource(&number.to_string()), now));
        assert_eq!(usage.0.lock().len(), MAX_REMEMBERED_COLLECTIONS);
        usage.record_use(resource("0"), now + CHECK_INTERVAL);
        assert_eq!(usage.0.lock()[&resource("0")], now + CHECK_INTERVAL);
    }

    #[tokio::test]
    async fn own_objects_definitions_and_watched_collections_are_not_evicted() {
        let own = Desired::new(MemoryStore::new(), "edge-1".into());
        let copies = Copies::new(MemoryStore::new(), own.clone(), "edge-1");
        let filler = "x".repeat(1000);
        let object = |name: &str| json!({"metadata": {"name": name, "uid": name, "resourceVersion": "7"}, "data": filler});
        let key = |plural: &str, name: &str| Key::new(resource(plural), "ns", name);
        own.set(&key("secrets", "ours"), Some(object("ours")))
            .await
            .unwrap();
        let definitions = Key::new(
            Resource::new("apiextensions.k8s.io", "customresourcedefinitions"),
            "",
            "defined",
        );
        let theirs = key("secrets", "theirs");
        let all = [
            key("secrets", "ours"),
            theirs.clone(),
            key("configmaps", "watched"),
            definitions,
        ];
        for key in &all {
            copies.put(key, &object(&key.name)).await.unwrap();
        }
        let watches = ClientWatches::default();
        let target = wire::application::Target {
            version: "v1".into(),
            plural: "configmaps".into(),
            ..Default::default()
        };
        let _client = watches
            .add(&Collection {
                target,
                labels: String::new(),
                fields: String::new(),
            })
            .unwrap();
        let usage = CollectionUsage::default();
        usage
            .evict(&copies, &watches, 1 << 20, Instant::now())
            .await
            .unwrap();
        let left = async || {
            let mut left = Vec::new();
            for key in &all {
                let copy = copies.get(key).await.unwrap();
                left.push(copy.is_some_and(|copy| copy["data"] == filler.as_str()));
            }
            left
        };
        assert_eq!(left().await, [true, true, true, true], "there is room");
        usage
            .evict(&copies, &watches, 1000, Instant::now())
            .await
            .unwrap();
        assert_eq!(left().await, [true, false, true, true]);
        copies.put(&theirs, &object("theirs")).await.unwrap();
        assert_eq!(
            left().await,
            [true, true, true, true],
            "it can be read anew"
        );
    }
}
