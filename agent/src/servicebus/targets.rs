//! The URLs that rules let programs of this machine call: in the store, and in memory for who asks.

use std::{collections::BTreeSet, sync::Arc};

use kubeapi::store::{Store, StoreError};
use parking_lot::RwLock;

use crate::name_set::NameSet;

/// The names of the URLs in the store, and of EdgeCore's table of them.
const TARGETS: NameSet = NameSet::new("servicebus.outrigger.dev", "targets", "target_urls");
/// Most that are kept: a few for each of a thousand rules.
const MAX_TARGETS: usize = 4096;
/// The longest that is kept, bytes.
const MAX_URL: usize = 2048;

/// Why a URL is not kept.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unkept {
    #[error("it is empty, longer than {MAX_URL} bytes, or has control characters")]
    NoUrl,
    #[error("{MAX_TARGETS} are kept already; delete rules that nobody needs")]
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
    /// Those in the store, once they are loaded.
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, known: Arc::default() }
    }

    /// Reads what is kept.
    pub(super) async fn load(&self) -> Result<usize, StoreError> {
        let known = TARGETS.load(&self.store).await?;
        let count = known.len();
        *self.known.write() = known;
        Ok(count)
    }

    /// Whether a program may call it.
    pub(super) fn has(&self, url: &str) -> bool {
        self.known.read().contains(url)
    }

    /// Keeps a URL, or no longer. Said again, as with each connection to the cloud, it changes nothing.
    pub(super) async fn set(&self, url: &str, on: bool) -> Result<(), Unkept> {
        if url.is_empty() || url.len() > MAX_URL || url.contains(char::is_control) {
            return Err(Unkept::NoUrl);
        }
        let (is_known, count, meant) = {
            let known = self.known.read();
            let is_known = known.contains(url);
            let of_cloudcore = || known.iter().find(|one| joined(one) == joined(url)).cloned();
            let meant = if on || is_known { None } else { of_cloudcore() };
            (is_known, known.len(), meant)
        };
        let url = meant.as_deref().unwrap_or(url);
        if on && is_known {
            return Ok(());
        }
        if on && count >= MAX_TARGETS {
            return Err(Unkept::TooMany);
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

/// CloudCore takes a URL back in the form that Go's `path.Join` makes of it: `http:/host/a`.
fn joined(url: &str) -> String {
    url.split('/').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use kubeapi::store::MemoryStore;

    use super::*;

    #[tokio::test]
    async fn a_url_is_taken_back_in_cloudcores_form() {
        let targets = Targets::new(MemoryStore::new());
        for url in ["http://a:7777/orders", "http://a:7777/orders/b", "https://a:7777/orders"] {
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
            targets.set(&format!("http://a/{number}"), true).await.unwrap();
        }
        assert!(matches!(targets.set("http://b", true).await, Err(Unkept::TooMany)));
        targets.set("http://a/0", true).await.unwrap();
        targets.set("http://a/1", false).await.unwrap();
        targets.set("http://b", true).await.unwrap();
        for bad in [String::new(), "a\nb".to_owned(), "x".repeat(MAX_URL + 1)] {
            assert!(matches!(targets.set(&bad, true).await, Err(Unkept::NoUrl)));
        }
        let again = Targets::new(store);
        assert_eq!(again.load().await.unwrap(), MAX_TARGETS);
        assert!(again.has("http://b") && again.has("http://a/0") && !again.has("http://a/1"));
    }
}
