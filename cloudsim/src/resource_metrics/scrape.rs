//! Reads the nodes' pages again and again while somebody asks.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::BytesMut;
use futures::{FutureExt, StreamExt, future::BoxFuture, stream};
use http::{HeaderMap, Method, StatusCode};
use http_body_util::BodyExt;
use jiff::Timestamp;
use kubeapi::{
    BoxError, NodeAnswer, NodeError, NodeRequest, NodeStreams,
    store::{Page as ListPage, Resource, Scope, Store, StoreError},
};
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};
use tracing::{debug, warn};

use super::{
    history::{History, Usage},
    page::{self, PodName},
};

/// How often nodes are looked at: as often as the shipped metrics-server does it.
const EVERY: Duration = Duration::from_secs(15);
/// The time between the first two looks at a node, without which nobody could be told anything for [`EVERY`]. A node keeps its figures
/// for a second.
const SECOND_LOOK: Duration = Duration::from_millis(1200);
/// How many looks follow each other so closely.
const LOOKS: usize = 3;
/// For so long after the last question, nodes are looked at; then what is known is forgotten.
const IDLE: Duration = Duration::from_secs(180);
/// How long the first question waits for an answer. kubectl waits without end, but slow nodes should not keep the others' figures back.
const FIRST_ANSWER: Duration = Duration::from_secs(8);
/// How long one node may take.
const NODE_TIMEOUT: Duration = Duration::from_secs(6);
/// How many nodes are asked at the same time.
const CONCURRENT_SCRAPES: usize = 32;
/// The largest page, bytes: a thousand containers take less than one MiB.
const LARGEST_PAGE: usize = 4 << 20;

/// Why a node's figures are not known.
#[derive(Debug, thiserror::Error)]
enum Unknown {
    #[error(transparent)]
    Node(#[from] NodeError),
    #[error("/metrics/resource was answered with {0}")]
    Refused(StatusCode),
    #[error("/metrics/resource broke off")]
    Broken(#[source] BoxError),
    #[error("/metrics/resource has more than {} bytes", LARGEST_PAGE)]
    TooLarge,
    #[error("/metrics/resource is no text")]
    NoText(#[from] std::str::Utf8Error),
    #[error(transparent)]
    Page(#[from] page::Unreadable),
    #[error("/metrics/resource did not come within {} s", NODE_TIMEOUT.as_secs())]
    Late,
}

/// What is known of a node.
#[derive(Debug, Default)]
struct Known {
    history: History,
    /// Whether it answered when it was last asked.
    answers: bool,
}

/// Whether somebody has asked not long ago.
fn is_asked(asked: Option<Instant>) -> bool {
    asked.is_some_and(|asked| asked.elapsed() < IDLE)
}

/// Reads pages and keeps what they say.
pub(super) struct Scraper {
    store: Arc<dyn Store>,
    streams: Arc<dyn NodeStreams>,
    known: Mutex<BTreeMap<String, Known>>,
    /// When somebody asked last.
    asked: watch::Sender<Option<Instant>>,
    /// Whether all nodes have been looked at since nobody asked.
    ready: watch::Sender<bool>,
}

impl Scraper {
    pub(super) fn new(store: Arc<dyn Store>, streams: Arc<dyn NodeStreams>) -> Self {
        let (asked, ready) = (watch::Sender::new(None), watch::Sender::new(false));
        Self { store, streams, known: Mutex::default(), asked, ready }
    }

    /// Says that somebody asks, and waits until there is something to answer, [`FIRST_ANSWER`] at most.
    pub(super) async fn wanted(&self) {
        self.asked.send_replace(Some(Instant::now()));
        let mut ready = self.ready.subscribe();
        let _ = timeout(FIRST_ANSWER, ready.wait_for(|ready| *ready)).await;
    }

    /// What the node uses, if it answers.
    pub(super) fn node(&self, name: &str) -> Option<Usage> {
        self.known.lock().get(name).filter(|known| known.answers)?.history.node()
    }

    /// What `made` makes of what the containers of a pod on `node` use, if that answers.
    pub(super) fn pod<T>(
        &self,
        node: &str,
        pod: &PodName,
        made: impl FnOnce(&[(&str, Usage)]) -> Option<T>,
    ) -> Option<T> {
        let known = self.known.lock();
        made(&known.get(node).filter(|known| known.answers)?.history.pod(pod)?)
    }

    /// Looks at the nodes while somebody asks.
    pub(super) async fn run(self: Arc<Self>) {
        let mut asked = self.asked.subscribe();
        loop {
            while !is_asked(*asked.borrow_and_update()) {
                // fails only without sender, and this has one
                let _ = asked.changed().await;
            }
            let began = Instant::now();
            if let Err(error) = self.scrape_all().await {
                warn!(error = &error as &dyn std::error::Error, "the nodes to be measured cannot be listed");
            }
            self.ready.send_replace(true);
            sleep(EVERY.saturating_sub(began.elapsed())).await;
            // whoever asks from here on waits, or is seen
            self.ready.send_replace(false);
            if is_asked(*asked.borrow()) {
                self.ready.send_replace(true);
            } else {
                self.known.lock().clear();
            }
        }
    }

    /// Looks at every node, and soon again at those of which there was nothing to compare with.
    async fn scrape_all(self: &Arc<Self>) -> Result<(), StoreError> {
        let scope = Scope { resource: Resource::new("", "nodes"), namespace: None };
        let nodes = self.store.list(&scope, &ListPage::default()).await?.items;
        // in the order of their names
        let mut names: Vec<String> = nodes.into_iter().map(|node| node.key.name).collect();
        self.known.lock().retain(|name, _| names.binary_search(name).is_ok());
        for look in 0..LOOKS {
            if look > 0 {
                sleep(SECOND_LOOK).await;
            }
            let looks: Vec<_> = names.iter().map(|name| Arc::clone(self).scrape_node(name.clone())).collect();
            stream::iter(looks).for_each_concurrent(CONCURRENT_SCRAPES, |look| look).await;
            let known = self.known.lock();
            names.retain(|name| {
                known.get(name).is_some_and(|known| known.answers && known.history.needs_another())
            });
            if names.is_empty() {
                break;
            }
        }
        Ok(())
    }

    fn scrape_node(self: Arc<Self>, name: String) -> BoxFuture<'static, ()> {
        let look = async move {
            let page = timeout(NODE_TIMEOUT, self.page(&name)).await.unwrap_or(Err(Unknown::Late));
            if let Err(error) = &page {
                debug!(node = %name, error = error as &dyn std::error::Error, "a node cannot be measured");
            }
            let mut known = self.known.lock();
            let known = known.entry(name).or_default();
            known.answers = page.is_ok();
            if let Ok(page) = page {
                known.history.take(page);
            }
        };
        look.boxed()
    }

    async fn page(&self, node: &str) -> Result<page::Page, Unknown> {
        let path_and_query = "/metrics/resource".to_owned();
        let request = NodeRequest { method: Method::GET, path_and_query, headers: HeaderMap::new() };
        let response = match self.streams.ask(node, request).await? {
            NodeAnswer::Response(response) => response,
            NodeAnswer::Upgraded(head, _) => return Err(Unknown::Refused(head.status)),
        };
        let status = response.status();
        if status != StatusCode::OK {
            return Err(Unknown::Refused(status));
        }
        let (mut body, mut page) = (response.into_body(), BytesMut::new());
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(Unknown::Broken)?.into_data() else { continue };
            if page.len() + data.len() > LARGEST_PAGE {
                return Err(Unknown::TooLarge);
            }
            page.extend_from_slice(&data);
        }
        Ok(page::read(std::str::from_utf8(&page)?, Timestamp::now().as_millisecond())?)
    }
}
