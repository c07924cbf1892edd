//! Repairs damaged objects of the cloud: each is fetched by its name and written anew, because a cloud that knows that this
//! node has acknowledged an object does not send it again. While the cloud is not connected, damaged objects stay, `/healthz`
//! names them, and running pods go on.

use std::{collections::BTreeMap, time::Duration};

use componentbase::Backoff;
use objectstore::{Key, StoreError};
use tokio::time::Instant;
use tracing::{debug, info, warn};
use wire::ResourceType;

use super::{ApiError, Remote, token_resource};
use crate::metamanager::{
    desired::{EntryChange, StoreChange, resource},
    record::{Record, is_record_collection, object_key},
};

/// The wait before the first retry …
const INITIAL_BACKOFF: Duration = Duration::from_secs(1);
/// … which doubles up to this.
const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// How long a pod that the cloud does not have is kept: its name may have been damaged, too, and the search for lost pods has
/// to find it before what it left counts as an orphan.
const UNKNOWN_POD_GRACE_PERIOD: Duration = Duration::from_secs(30);

/// Pods that the cloud does not have, and since when that is known.
type UnknownPods = BTreeMap<Key, Instant>;

/// The outcome of one repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RepairOutcome {
    /// The object is readable again, or removed.
    Done,
    /// Another component writes it again.
    Skipped,
    /// The repair has to be tried again later.
    Retry,
}

/// Why an object is not repaired yet.
#[derive(Debug, thiserror::Error)]
enum RepairError {
    #[error("the cloud refused: {0}")]
    Cloud(ApiError),
    #[error("the store failed")]
    Store(#[from] StoreError),
}

impl Remote {
    /// Repairs damaged objects, now and as they are found; never returns.
    pub(in crate::metamanager) async fn repair_damaged(self) {
        let mut damaged = self.desired.damaged_objects();
        let mut link = self.hub.link();
        let mut backoff = Backoff::new(INITIAL_BACKOFF, MAX_BACKOFF);
        let mut unknown = UnknownPods::new();
        loop {
            link.borrow_and_update();
            let mut is_left = false;
            for key in damaged.now().keys() {
                is_left |= match self.repair(key, &mut unknown).await {
                    Ok(RepairOutcome::Done) => {
                        info!(object = %key, "damaged object rewritten");
                        false
                    }
                    Ok(RepairOutcome::Skipped) => false,
                    Ok(RepairOutcome::Retry) => true,
                    Err(error) => {
                        debug!(object = %key, error = &error as &dyn std::error::Error, "failed to fetch a damaged object; retrying");
                        true
                    }
                };
            }
            let again = async {
                match is_left {
                    true => tokio::time::sleep(backoff.next(1.0)).await,
                    false => std::future::pending().await,
                }
            };
            // cancel-safe: each only ends the wait.
            clock::select! {
                _ = damaged.changed() => {}
                () = again => {}
                // once EdgeHub has ended, the cloud cannot be reached any more
                changed = link.changed() => match changed {
                    Ok(()) => backoff.reset(),
                    Err(_) => std::future::pending().await,
                },
            }
        }
    }

    async fn repair(
        &self,
        key: &Key,
        unknown: &mut UnknownPods,
    ) -> Result<RepairOutcome, RepairError> {
        if is_record_collection(&key.resource) {
            return self.repair_record(key).await;
        }
        match queryable_type(key) {
            Some(ResourceType::Pod) => self.repair_pod(key, unknown).await,
            // EdgeD creates the node anew, and the record says which one it is in the cloud
            Some(ResourceType::Node) if *key.name == *self.desired.node_name() => {
                self.desired.set(key, None).await?;
                Ok(RepairOutcome::Done)
            }
            Some(kind) => match self.fetch_and_store(&kind, key).await {
                Ok(_) => Ok(self.outcome(key).await?),
                Err(refusal) if refusal.is_not_found() => self.forget(key).await,
                Err(refusal) => Err(RepairError::Cloud(refusal)),
            },
            None if key.resource == token_resource() => self.forget(key).await,
            // The cloud cannot be asked for it: either it stays until the cloud sends it, and is then stored whatever its
            // revision is, or it belongs to a module that wrote it for itself and reads it at its start only.
            None => Ok(RepairOutcome::Skipped),
        }
    }

    async fn repair_pod(
        &self,
        key: &Key,
        unknown: &mut UnknownPods,
    ) -> Result<RepairOutcome, RepairError> {
        let entry = self.desired.entry(key).await?;
        // the cloud has deleted it
        if entry.record.is_some_and(|record| record.deleted_in_cloud) {
            return self.forget(key).await;
        }
        match self.fetch_pod(key).await {
            // a static pod, of which the cloud has a mirror, is written anew from its file
            Ok(()) => Ok(self.outcome(key).await?),
            Err(refusal) if refusal.is_not_found() => {
                let since = *unknown.entry(key.clone()).or_insert_with(Instant::now);
                if since.elapsed() < UNKNOWN_POD_GRACE_PERIOD {
                    Ok(RepairOutcome::Retry)
                } else {
                    self.forget(key).await
                }
            }
            Err(refusal) => Err(RepairError::Cloud(refusal)),
        }
    }

    /// Recreates a record from its object: statuses that the cloud had confirmed are reported again.
    async fn repair_record(&self, key: &Key) -> Result<RepairOutcome, RepairError> {
        // the marks of this store are no records of objects, and count as absent
        let place = object_key(key).filter(|place| place.resource.as_str() != "stores");
        let Some(place) = place else {
            return Ok(RepairOutcome::Skipped);
        };
        let uid = self.desired.get(&place).await?;
        let uid =
            uid.and_then(|object| Some(object.pointer("/metadata/uid")?.as_str()?.to_owned()));
        match uid {
            Some(uid) => {
                self.desired
                    .set(key, Some(Record::of(&uid, 0).write()))
                    .await?
            }
            None => {
                self.desired.set(key, None).await?;
                if queryable_type(&place) == Some(ResourceType::Pod)
                    && let Err(refusal) = self.fetch_pod(&place).await
                    && !refusal.is_not_found()
                {
                    warn!(pod = %place, error = %refusal, "failed to fetch the desired state of a terminated pod");
                }
            }
        }
        Ok(RepairOutcome::Done)
    }

    async fn forget(&self, key: &Key) -> Result<RepairOutcome, RepairError> {
        self.desired
            .change(key, |_| EntryChange {
                object: StoreChange::Remove,
                record: StoreChange::Remove,
            })
            .await?;
        Ok(RepairOutcome::Done)
    }

    /// Returns the outcome after the cloud's answer was stored.
    async fn outcome(&self, key: &Key) -> Result<RepairOutcome, StoreError> {
        let is_damaged = self.desired.is_damaged(key).await?;
        Ok(if is_damaged {
            RepairOutcome::Retry
        } else {
            RepairOutcome::Done
        })
    }
}

/// Returns the type under which the cloud can be asked for the object; `None` if it cannot.
fn queryable_type(key: &Key) -> Option<ResourceType> {
    let kinds = [
        ResourceType::Pod,
        ResourceType::Node,
        ResourceType::ConfigMap,
        ResourceType::Secret,
        ResourceType::PersistentVolume,
        ResourceType::PersistentVolumeClaim,
    ];
    kinds
        .into_iter()
        .find(|kind| resource(kind) == key.resource)
}

#[cfg(test)]
mod tests;
