//! Repairs damaged objects of the cloud: each is fetched by its name and written anew, because a cloud that knows that this
//! node has acknowledged an object does not send it again. While the cloud is not connected, damaged objects stay, `/healthz`
//! names them, and running pods go on.

use std::{collections::BTreeMap, time::Duration};

use kubeapi::store::{Key, StoreError};
use tokio::time::Instant;
use tracing::{debug, info, warn};
use wire::ResourceType;

use super::{Refusal, Remote, token_resource};
use crate::{
    metamanager::{
        desired::{Placement, StoreChange, resource},
        record::{Record, is_records, object_key},
    },
    rt::Backoff,
};

/// The wait before the first retry …
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// … which doubles up to this.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// How long a pod that the cloud does not have is kept: its name may have been damaged, too, and the search for lost pods has
/// to find it before what it left counts as an orphan.
const UNKNOWN_POD: Duration = Duration::from_secs(30);

/// Pods that the cloud does not have, and since when that is known.
type Unknown = BTreeMap<Key, Instant>;

/// The outcome of one repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mended {
    /// The object is readable again, or removed.
    Done,
    /// Another component writes it anew.
    Left,
    /// The repair has to be tried again later.
    Later,
}

/// Why an object is not repaired yet.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("the cloud does not tell: {0:?}")]
    Cloud(Refusal),
    #[error("the store failed")]
    Store(#[from] StoreError),
}

impl Remote {
    /// Repairs damaged objects, now and as they are found; never returns.
    pub(in crate::metamanager) async fn mend(self) {
        let mut damaged = self.desired.damaged();
        let mut link = self.hub.link();
        let mut backoff = Backoff::new(FIRST_WAIT, MAX_WAIT);
        let mut unknown = Unknown::new();
        loop {
            link.borrow_and_update();
            let mut is_left = false;
            for key in damaged.now().keys() {
                is_left |= match self.mend_one(key, &mut unknown).await {
                    Ok(Mended::Done) => {
                        info!(object = %key, "a damaged object was written anew");
                        false
                    }
                    Ok(Mended::Left) => false,
                    Ok(Mended::Later) => true,
                    Err(error) => {
                        debug!(object = %key, error = &error as &dyn std::error::Error, "a damaged object is asked for again");
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
            // Cancel-safe, all: each only ends the wait.
            tokio::select! {
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

    async fn mend_one(&self, key: &Key, unknown: &mut Unknown) -> Result<Mended, Failed> {
        if is_records(&key.resource) {
            return self.mend_record(key).await;
        }
        match kind(key) {
            Some(ResourceType::Pod) => self.mend_pod(key, unknown).await,
            // EdgeD creates the node anew, and the record says which one it is in the cloud
            Some(ResourceType::Node) if *key.name == *self.desired.node_name() => {
                self.desired.set(key, None).await?;
                Ok(Mended::Done)
            }
            Some(kind) => match self.ask_and_keep(&kind, key).await {
                Ok(_) => Ok(self.outcome(key).await?),
                Err(refusal) if refusal.is_not_found() => self.forget(key).await,
                Err(refusal) => Err(Failed::Cloud(refusal)),
            },
            None if key.resource == token_resource() => self.forget(key).await,
            // The cloud cannot be asked for it: either it stays until the cloud sends it, and is then stored whatever its
            // revision is, or it belongs to a module that wrote it for itself and reads it at its start only.
            None => Ok(Mended::Left),
        }
    }

    async fn mend_pod(&self, key: &Key, unknown: &mut Unknown) -> Result<Mended, Failed> {
        let entry = self.desired.entry(key).await?;
        // the cloud has deleted it
        if entry.record.is_some_and(|record| record.gone) {
            return self.forget(key).await;
        }
        match self.bring_back(key).await {
            // a static pod, of which the cloud has a mirror, is written anew from its file
            Ok(()) => Ok(self.outcome(key).await?),
            Err(refusal) if refusal.is_not_found() => {
                let since = *unknown.entry(key.clone()).or_insert_with(Instant::now);
                if since.elapsed() < UNKNOWN_POD { Ok(Mended::Later) } else { self.forget(key).await }
            }
            Err(refusal) => Err(Failed::Cloud(refusal)),
        }
    }

    /// Makes a record anew from its object: what the cloud had confirmed is reported again.
    async fn mend_record(&self, key: &Key) -> Result<Mended, Failed> {
        // the marks of this store are no records of objects, and count as absent
        let place = object_key(key).filter(|place| place.resource.as_str() != "stores");
        let Some(place) = place else { return Ok(Mended::Left) };
        let uid = self.desired.get(&place).await?;
        let uid = uid.and_then(|object| Some(object.pointer("/metadata/uid")?.as_str()?.to_owned()));
        match uid {
            Some(uid) => self.desired.set(key, Some(Record::of(&uid, 0).write())).await?,
            None => {
                self.desired.set(key, None).await?;
                if kind(&place) == Some(ResourceType::Pod)
                    && let Err(refusal) = self.bring_back(&place).await
                    && !refusal.is_not_found()
                {
                    warn!(pod = %place, ?refusal, "what the cloud wants of a pod that had ended is not known");
                }
            }
        }
        Ok(Mended::Done)
    }

    async fn forget(&self, key: &Key) -> Result<Mended, Failed> {
        self.desired
            .change(key, |_| Placement { object: StoreChange::Remove, record: StoreChange::Remove })
            .await?;
        Ok(Mended::Done)
    }

    /// Returns the outcome after the cloud's answer was stored.
    async fn outcome(&self, key: &Key) -> Result<Mended, StoreError> {
        let is_damaged = self.desired.is_damaged(key).await?;
        Ok(if is_damaged { Mended::Later } else { Mended::Done })
    }
}

/// Returns the type under which the cloud can be asked for the object; `None` if it cannot.
fn kind(key: &Key) -> Option<ResourceType> {
    let kinds = [
        ResourceType::Pod,
        ResourceType::Node,
        ResourceType::ConfigMap,
        ResourceType::Secret,
        ResourceType::PersistentVolume,
        ResourceType::PersistentVolumeClaim,
    ];
    kinds.into_iter().find(|kind| resource(kind) == key.resource)
}

#[cfg(test)]
mod tests;
