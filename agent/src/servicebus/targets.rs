//! The URLs that rules let programs of this machine call, in the store and in memory.

use std::{collections::BTreeSet, sync::Arc};

use objectstore::{Store, StoreError};
use parking_lot::RwLock;

use crate::name_set::NameSet;

/// The collection of the URLs, and EdgeCore's table of them.
const TARGETS: NameSet = NameSet::new("servicebus.outrigger.dev", "targets", "target_urls");
/// The most URLs: a few for each of a thousand rules.
const MAX_TARGETS: usize = 4096;
/// The longest URL, bytes.
const MAX_URL_BYTES: usize = 2048;

/// Why a URL was not stored.
#[derive(Debug, thiserror::Error)]
pub(super) enum TargetError {
    #[error("it is empty, longer than {MAX_URL_BYTES} bytes, or has control characters")]
    NoUrl,
    #[error("{MAX_TARGETS} are registered already; delete unused rules")]
    TooMany,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The URLs; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Targets {
    store: Arc<dyn Store>,
    known: Arc<RwLock<BTreeSet<String>>>,
}

impl Targets {
    /// Creates the set over the store; [`Targets::load`] reads it.
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            known: Arc::default(),
        }
    }

    /// Reads the stored URLs.
    pub(super) async fn load(&self) -> Result<usize, StoreError> {
        let known = TARGETS.load(&self.store).await?;
        let count = known.len();
        *self.known.write() = known;
        Ok(count)
    }

    /// Reports whether a program may call the URL.
    pub(super) fn has(&self, url: &str) -> bool {
        self.known.read().contains(url)
    }

    /// Stores or removes a URL. A repetition, as with each connection to the cloud, changes nothing.
    pub(super) async fn set(&self, url: &str, on: bool) -> Result<(), TargetError> {
        if url.is_empty() || url.len() > MAX_URL_BYTES || url.contains(char::is_control) {
            return Err(TargetError::NoUrl);
        }
        let (is_known, count, meant) = {
            let known = self.known.read();
            let is_known = known.contains(url);
            let of_cloudcore = || {
                known
                    .iter()
                    .find(|one| path_join(one) == path_join(url))
                    .cloned()
            };
            let meant = if on || is_known { None } else { of_cloudcore() };
            (is_known, known.len(), meant)
        };
        let url = meant.as_deref().unwrap_or(url);
        if on && is_known {
            return Ok(());
        }
        if on && count >= MAX_TARGETS {
            return Err(TargetError::TooMany);
        }
        TARGETS.set(&self.store, url, on).await?;
        let mut known = self.known.write();
        if on {
            known.insert(url.to_owned());
        } else {
            known.remove(url);
        }
        Ok(())
    }
}

/// Returns the form in which CloudCore removes a URL, that of Go's `path.Join`: `http:/host/a`.
fn path_join(url: &str) -> String {
    url.split('/')
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("/")
}

#[cfg(test)]
mod tests {
    use objectstore::MemoryStore;

    use super::*;

    #[tokio::test]
    async fn a_url_is_taken_back_in_cloudcores_form() {
        let targets = Targets::new(MemoryStore::new());
        for url in [
            "http://a:7777/orders",
            "http://a:7777/orders/b",
            "https://a:7777/orders",
        ] {
            targets.set(url, true).await.unwrap();
        }
        targets.set("http:/a:7777/orders", false).await.unwrap();
        assert!(!targets.has("http://a:7777/orders"));
        assert!(targets.has("http://a:7777/orders/b") && targets.has("https://a:7777/orders"));
        targets.set("https://a:7777/orders", false).await.unwrap();
        assert!(!targets.has("https://a:7777/orders"));
    }

    #[tokio::test]
    async fn urls_survive_and_are_bounded() {
        let store: Arc<dyn Store> = MemoryStore::new();
        let targets = Targets::new(store.clone());
        for number in 0..MAX_TARGETS {
            targets
                .set(&format!("http://a/{number}"), true)
                .await
                .unwrap();
        }
        assert!(matches!(
            targets.set("http://b", true).await,
            Err(TargetError::TooMany)
        ));
        targets.set("http://a/0", true).await.unwrap();
        targets.set("http://a/1", false).await.unwrap();
        targets.set("http://b", true).await.unwrap();
        for bad in [
            String::new(),
            "a\nb".to_owned(),
            "x".repeat(MAX_URL_BYTES + 1),
        ] {
            assert!(matches!(
                targets.set(&bad, true).await,
                Err(TargetError::NoUrl)
            ));
        }
        let again = Targets::new(store);
        assert_eq!(again.load().await.unwrap(), MAX_TARGETS);
        assert!(again.has("http://b") && again.has("http://a/0") && !again.has("http://a/1"));
    }
}
