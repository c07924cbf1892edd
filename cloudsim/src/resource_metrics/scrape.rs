//! Scrapes the nodes' pages while somebody asks.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::BytesMut;
use futures::{FutureExt, StreamExt, future::BoxFuture, stream};
use http::{HeaderMap, Method, StatusCode};
use http_body_util::BodyExt;
use kubeapi::{BoxError, NodeAnswer, NodeError, NodeRequest, NodeStreams};
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};
use tracing::{debug, warn};

use super::{
    history::{History, Usage},
    inventory::Inventory,
    page::{self, PodName},
};

/// How often nodes are scraped; the default of metrics-server.
const SCRAPE_INTERVAL: Duration = Duration::from_secs(15);
/// The interval of the first scrapes of a node: usage needs two samples. A node caches its figures for a second.
const FAST_SCRAPE_INTERVAL: Duration = Duration::from_millis(1200);
/// The number of scrapes at this interval.
const FAST_SCRAPES: usize = 3;
/// How long after the last request nodes are scraped; then the samples are dropped.
const IDLE_TIMEOUT: Duration = Duration::from_secs(180);
/// How long the first request waits for an answer. kubectl waits without limit, but slow nodes should not delay the others' figures.
const FIRST_ANSWER_TIMEOUT: Duration = Duration::from_secs(8);
/// How long scraping one node may take.
const NODE_TIMEOUT: Duration = Duration::from_secs(6);
/// The number of nodes that are scraped at the same time.
const CONCURRENT_SCRAPES: usize = 32;
/// The largest page, bytes: a thousand containers need less than one MiB.
const MAX_PAGE_BYTES: usize = 4 << 20;

/// The reason why a node could not be scraped.
#[derive(Debug, thiserror::Error)]
enum ScrapeError {
    #[error(transparent)]
    Node(#[from] NodeError),
    #[error("/metrics/resource responded with status {0}")]
    Refused(StatusCode),
    #[error("/metrics/resource ended early")]
    Broken(#[source] BoxError),
    #[error("/metrics/resource has more than {} bytes", MAX_PAGE_BYTES)]
    TooLarge,
    #[error("/metrics/resource is not text")]
    NoText(#[from] std::str::Utf8Error),
    #[error(transparent)]
    Page(#[from] page::ParsePageError),
    #[error("/metrics/resource did not respond within {} s", NODE_TIMEOUT.as_secs())]
    Late,
}

/// The samples of a node.
#[derive(Debug, Default)]
struct NodeState {
    history: History,
    /// Whether the last scrape succeeded.
    answers: bool,
}

/// Reports whether somebody has asked recently.
fn is_asked(asked: Option<Instant>) -> bool {
    asked.is_some_and(|asked| asked.elapsed() < IDLE_TIMEOUT)
}

/// Scrapes pages and keeps their samples.
pub(super) struct Scraper {
    inventory: Arc<dyn Inventory>,
    streams: Arc<dyn NodeStreams>,
    known: Mutex<BTreeMap<String, NodeState>>,
    /// The time of the last request.
    asked: watch::Sender<Option<Instant>>,
    /// Whether all nodes were scraped since requests began.
    ready: watch::Sender<bool>,
}

impl Scraper {
    pub(super) fn new(inventory: Arc<dyn Inventory>, streams: Arc<dyn NodeStreams>) -> Self {
        let (asked, ready) = (watch::Sender::new(None), watch::Sender::new(false));
        Self {
            inventory,
            streams,
            known: Mutex::default(),
            asked,
            ready,
        }
    }

    /// Records a request, and waits until there is an answer, at most [`FIRST_ANSWER_TIMEOUT`].
    pub(super) async fn wait_scraped(&self) {
        self.asked.send_replace(Some(Instant::now()));
        let mut ready = self.ready.subscribe();
        let _ = timeout(FIRST_ANSWER_TIMEOUT, ready.wait_for(|ready| *ready)).await;
    }

    /// Returns the usage of the node, if it answers.
    pub(super) fn node(&self, name: &str) -> Option<Usage> {
        self.known
            .lock()
            .get(name)
            .filter(|known| known.answers)?
            .history
            .node()
    }

    /// Passes the usage of a pod's containers on `node` to `made`, if the node answers.
    pub(super) fn pod<T>(
        &self,
        node: &str,
        pod: &PodName,
        made: impl FnOnce(&[(&str, Usage)]) -> Option<T>,
    ) -> Option<T> {
        let known = self.known.lock();
        made(
            &known
                .get(node)
                .filter(|known| known.answers)?
                .history
                .pod(pod)?,
        )
    }

    /// Scrapes nodes while somebody asks.
    pub(super) async fn run(self: Arc<Self>) {
        let mut asked = self.asked.subscribe();
        loop {
            while !is_asked(*asked.borrow_and_update()) {
                // fails only without sender, and this has one
                let _ = asked.changed().await;
            }
            let began = Instant::now();
            if let Err(error) = self.scrape_all().await {
                let error: &dyn std::error::Error = error.as_ref();
                warn!(error, "failed to list nodes to scrape; retrying");
            }
            self.ready.send_replace(true);
            sleep(SCRAPE_INTERVAL.saturating_sub(began.elapsed())).await;
            // who asks from here on waits, or is seen
            self.ready.send_replace(false);
            if is_asked(*asked.borrow()) {
                self.ready.send_replace(true);
            } else {
                self.known.lock().clear();
            }
        }
    }

    /// Scrapes every node, and soon again those without an earlier sample.
    async fn scrape_all(self: &Arc<Self>) -> Result<(), BoxError> {
        let nodes = self.inventory.list("nodes", "", "").await?;
        let mut names: Vec<String> = nodes.into_iter().map(|node| node.metadata.name).collect();
        names.sort();
        self.known
            .lock()
            .retain(|name, _| names.binary_search(name).is_ok());
        for look in 0..FAST_SCRAPES {
            if look > 0 {
                sleep(FAST_SCRAPE_INTERVAL).await;
            }
            let looks: Vec<_> = names
                .iter()
                .map(|name| Arc::clone(self).scrape_node(name.clone()))
                .collect();
            stream::iter(looks)
                .for_each_concurrent(CONCURRENT_SCRAPES, |look| look)
                .await;
            let known = self.known.lock();
            names.retain(|name| {
                known
                    .get(name)
                    .is_some_and(|known| known.answers && known.history.needs_another())
            });
            if names.is_empty() {
                break;
            }
        }
        Ok(())
    }

    fn scrape_node(self: Arc<Self>, name: String) -> BoxFuture<'static, ()> {
        let look = async move {
            let page = timeout(NODE_TIMEOUT, self.page(&name))
                .await
                .unwrap_or(Err(ScrapeError::Late));
            if let Err(error) = &page {
                debug!(node = %name, error = error as &dyn std::error::Error, "failed to scrape a node");
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

    async fn page(&self, node: &str) -> Result<page::Page, ScrapeError> {
        let path_and_query = "/metrics/resource".to_owned();
        let request = NodeRequest {
            method: Method::GET,
            path_and_query,
            headers: HeaderMap::new(),
        };
        let response = match self.streams.ask(node, request).await? {
            NodeAnswer::Response(response) => response,
            NodeAnswer::Upgraded(head, _) => return Err(ScrapeError::Refused(head.status)),
        };
        let status = response.status();
        if status != StatusCode::OK {
            return Err(ScrapeError::Refused(status));
        }
        let (mut body, mut page) = (response.into_body(), BytesMut::new());
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(ScrapeError::Broken)?.into_data() else {
                continue;
            };
            if page.len() + data.len() > MAX_PAGE_BYTES {
                return Err(ScrapeError::TooLarge);
            }
            page.extend_from_slice(&data);
        }
        Ok(page::read(
            std::str::from_utf8(&page)?,
            clock::now().as_millisecond(),
        )?)
    }
}
