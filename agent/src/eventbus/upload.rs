//! Messages that go to the cloud as they are. While it is not connected they wait, up to a bound.

use bytes::Bytes;
use tokio::sync::mpsc;
use tracing::{debug, warn};
use wire::Upstream;

use super::handle::Receipt;
use crate::edgehub::{EdgeHub, Link, now_ms};

/// Messages that wait for the cloud; more are dropped, and said to be.
const WAITING: usize = 512;

/// A message for the cloud.
#[derive(Debug)]
pub(super) struct Upload {
    pub(super) topic: String,
    pub(super) payload: Bytes,
    pub(super) receipt: Receipt,
}

/// Sends them.
#[derive(Debug)]
pub(super) struct Uploader {
    hub: EdgeHub,
    uploads: mpsc::Receiver<Upload>,
}

pub(super) fn new(hub: EdgeHub) -> (mpsc::Sender<Upload>, Uploader) {
    let (sender, uploads) = mpsc::channel(WAITING);
    (sender, Uploader { hub, uploads })
}

/// There was no room for a message.
pub(super) fn dropped(topic: &str) {
    warn!(topic, "too many messages wait for the cloud; this one is dropped");
}

impl Uploader {
    /// Runs until nobody has anything to send any more.
    pub(super) async fn run(mut self) {
        let mut link = self.hub.link();
        while let Some(Upload { topic, payload, receipt }) = self.uploads.recv().await {
            let text = String::from_utf8_lossy(&payload).into_owned();
            let message =
                Upstream::BusUpload { topic: topic.into(), payload: text.into() }.into_message(now_ms());
            loop {
                if link.wait_for(|link| *link != Link::Down).await.is_err() {
                    return;
                }
                match self.hub.send(message.clone()).await {
                    Ok(()) => break,
                    // the link has gone in between
                    Err(error) => debug!(%error, "a message waits for the cloud"),
                }
                if link.changed().await.is_err() {
                    return;
                }
            }
            receipt.give();
        }
    }
}
