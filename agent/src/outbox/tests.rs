//! An outbox between a node and a fake cloud, in virtual time.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt;
use objectstore::Resource;
use objectstore::{MemoryStore, Page, Scope, Store};
use serde_json::json;
use testkit::{eventually, until, within};
use tokio::{task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;
use wire::{Downstream, Source, Upstream};

use super::*;
use crate::edgehub::fake_cloud::{FakeCloud, fake_cloud};

const LIMITS: Limits = Limits {
    messages: 200,
    bytes: 1 << 20,
};
/// The most messages that are being sent to a cloud that answers.
const AT_ONCE: usize = 4;
/// How long such a cloud may take.
const CLOUD_TIMEOUT: Duration = Duration::from_secs(30);

struct Rig {
    store: Arc<MemoryStore>,
    line: FakeCloud,
    items: mpsc::Sender<Item>,
    on_stored: Arc<AtomicUsize>,
    /// Whether publishers wait until their messages are stored.
    is_awaited: bool,
    stop: CancellationToken,
    running: JoinHandle<()>,
}

impl Rig {
    fn new() -> Self {
        Self::on(MemoryStore::new())
    }

    /// Starts over the store of an earlier run.
    fn on(store: Arc<MemoryStore>) -> Self {
        Self::with(store, 1, Delivery::written)
    }

    /// Starts with a cloud that answers, and this many concurrent messages.
    fn answered(store: Arc<MemoryStore>) -> Self {
        Self::with(store, AT_ONCE, |hub| {
            Delivery::new(move |message| {
                let hub = hub.clone();
                async move { hub.request(message, CLOUD_TIMEOUT).await.map(drop) }
            })
        })
    }

    fn with(
        store: Arc<MemoryStore>,
        max_concurrent: usize,
        deliver: impl FnOnce(EdgeHub) -> Delivery,
    ) -> Self {
        let (hub, _, line) = fake_cloud();
        let (items, received) = mpsc::channel(1024);
        let config = Config {
            what: "uploads",
            limits: LIMITS,
            store: store.clone(),
            deliver: deliver(hub.clone()),
            hub,
            max_concurrent,
            dropped: Arc::default(),
        };
        let mut outbox = new(config, received);
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let running = tokio::spawn(async move {
            clock::select! {
                () = stopped.cancelled() => {}
                () = outbox.run() => {}
            }
            outbox.finish().await;
        });
        Self {
            store,
            line,
            items,
            on_stored: Arc::default(),
            is_awaited: false,
            stop,
            running,
        }
    }

    fn say(&self, number: usize) {
        self.say_with(number, None);
    }

    fn say_with(&self, number: usize, key: Option<&str>) {
        let message = Upstream::BusUpload {
            topic: "t".into(),
            payload: number.to_string().into(),
        };
        let on_stored = self.on_stored.clone();
        let on_stored = move || {
            on_stored.fetch_add(1, Ordering::SeqCst);
        };
        let item = Item {
            message: message.into_message(1),
            key: key.map(str::to_owned),
            on_stored: Some(Box::new(on_stored)),
            is_awaited: self.is_awaited,
        };
        self.items.try_send(item).unwrap();
    }

    /// Returns the number of the next message that the cloud gets.
    async fn next_number(&self) -> usize {
        let message = within("a message to the cloud", self.line.next()).await;
        message.content.as_str().unwrap().parse().unwrap()
    }

    /// Returns the number and id of the next message that the cloud gets.
    async fn next_request(&self) -> (usize, String) {
        let message = within("a message to the cloud", self.line.next()).await;
        (
            message.content.as_str().unwrap().parse().unwrap(),
            message.header.msg_id,
        )
    }

    /// Answers a message.
    async fn answer(&self, id: &str) {
        let answer = Downstream::UploadAnswer {
            origin: Source::Bus,
            failed: false,
            path: "t".into(),
            content: "OK".into(),
        };
        self.line.say(answer.into_message(1).answering(id)).await;
    }

    fn hears_nothing(&self) -> bool {
        self.line.next().now_or_never().is_none()
    }

    /// Returns the number of chunks, and of the messages in all of them.
    async fn on_disk(&self) -> (usize, usize) {
        let scope = Scope {
            resource: Resource::new(GROUP, "uploads"),
            namespace: None,
        };
        let chunks = self
            .store
            .list(&scope, &Page::default())
            .await
            .unwrap()
            .items;
        let messages = chunks
            .iter()
            .map(|chunk| chunk.value().unwrap()["messages"].as_array().unwrap().len());
        (chunks.len(), messages.sum())
    }

    /// Waits until this many messages are said to be stored.
    async fn until_stored(&self, wanted: usize) {
        eventually(&format!("{wanted} messages are stored"), async || {
            let stored = self.on_stored.load(Ordering::SeqCst);
            if stored == wanted {
                Ok(())
            } else {
                Err(stored)
            }
        })
        .await;
    }

    /// Waits until this many messages are on disk.
    async fn until_on_disk(&self, wanted: usize) {
        eventually(&format!("{wanted} messages are on disk"), async || {
            let (chunks, messages) = self.on_disk().await;
            if messages == wanted {
                Ok(())
            } else {
                Err((chunks, messages))
            }
        })
        .await;
    }

    /// Waits until all that was said is taken.
    async fn until_taken(&self) {
        until("all is taken", || {
            self.items.capacity() == self.items.max_capacity()
        })
        .await;
    }

    /// Shuts down, and starts again over the same store.
    async fn again(self) -> Self {
        self.stop.cancel();
        self.running.await.unwrap();
        Self::on(self.store)
    }
}

/// Advances the virtual time.
async fn pass(time: Duration) {
    let _ = timeout(time, std::future::pending::<()>()).await;
}

#[tokio::test(start_paused = true)]
async fn messages_that_the_connection_takes_are_never_on_disk() {
    let mut rig = Rig::new();
    rig.line.up();
    let before = rig.store.revision();
    for number in 0..1000 {
        rig.say(number);
        assert_eq!(rig.next_number().await, number);
    }
    rig.until_stored(1000).await;
    assert_eq!(rig.store.revision(), before, "nothing was written");
}

#[tokio::test(start_paused = true)]
async fn waiting_messages_survive_and_are_sent_in_order() {
    let rig = Rig::new();
    (0..100).for_each(|number| rig.say(number));
    rig.until_on_disk(100).await;
    assert_eq!(
        rig.on_stored.load(Ordering::SeqCst),
        100,
        "what is on disk need not be said again"
    );
    // killed: nothing more is written
    rig.running.abort();
    let mut rig = Rig::on(rig.store);
    (100..150).for_each(|number| rig.say(number));
    rig.line.up();
    for number in 0..150 {
        assert_eq!(rig.next_number().await, number);
    }
    eventually("nothing is on disk", async || match rig.on_disk().await {
        (0, 0) => Ok(()),
        left => Err(left),
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_short_break_of_the_link_writes_nothing() {
    let mut rig = Rig::new();
    let before = rig.store.revision();
    rig.say(1);
    pass(FLUSH_AFTER / 2).await;
    assert_eq!(
        (rig.store.revision(), rig.on_stored.load(Ordering::SeqCst)),
        (before, 0)
    );
    rig.line.up();
    assert_eq!(rig.next_number().await, 1);
    assert_eq!(rig.store.revision(), before);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_writes_waiting_messages_to_disk() {
    let rig = Rig::new();
    (0..7).for_each(|number| rig.say(number));
    let mut rig = rig.again().await;
    assert_eq!(rig.on_disk().await, (1, 7));
    rig.line.up();
    for number in 0..7 {
        assert_eq!(rig.next_number().await, number);
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_was_not_written_is_sent_again() {
    let mut rig = Rig::new();
    rig.line.up();
    rig.say(1);
    // taken by the hub, and lost with the connection
    rig.until_taken().await;
    rig.line.down();
    assert_eq!(rig.on_stored.load(Ordering::SeqCst), 0);
    rig.line.up();
    assert_eq!(rig.next_number().await, 1);
    rig.until_stored(1).await;
    pass(2 * FLUSH_AFTER).await;
    assert!(rig.hears_nothing(), "once is enough");
}

#[tokio::test(start_paused = true)]
async fn the_oldest_are_dropped_where_there_are_too_many() {
    let mut rig = Rig::new();
    for chunk in 0..10 {
        (0..50).for_each(|number| rig.say(chunk * 50 + number));
        rig.until_stored((chunk + 1) * 50).await;
    }
    assert_eq!(rig.on_disk().await.1, LIMITS.messages);
    rig.line.up();
    for number in 500 - LIMITS.messages..500 {
        assert_eq!(rig.next_number().await, number);
    }
}

#[tokio::test(start_paused = true)]
async fn a_newer_message_takes_the_place_of_one_with_its_key() {
    let mut rig = Rig::new();
    rig.say(0);
    rig.say_with(1, Some("a"));
    rig.say_with(2, Some("b"));
    rig.say_with(3, Some("a"));
    rig.until_taken().await;
    rig.line.up();
    for number in [0, 3, 2] {
        assert_eq!(rig.next_number().await, number);
    }
}

#[tokio::test(start_paused = true)]
async fn a_chunk_that_cannot_be_read_holds_up_nothing() {
    let rig = Rig::new();
    (0..3).for_each(|number| rig.say(number));
    let rig = rig.again().await;
    let key = objectstore::Key::new(
        Resource::new(GROUP, "uploads"),
        "",
        format!("{:020}", 1_u64 << 32),
    );
    let value = Some(json!({"metadata": {}, "messages": ["{", 7]}));
    let write = objectstore::Write {
        key,
        expect: objectstore::Expect::Anything,
        value,
    };
    rig.store.commit(vec![write]).await.unwrap();
    let mut rig = rig.again().await;
    rig.line.up();
    rig.say(9);
    assert_eq!(rig.next_number().await, 9);
}

#[tokio::test(start_paused = true)]
async fn more_than_the_connection_takes_is_on_disk_meanwhile_and_none_comes_twice_or_too_late() {
    let mut rig = Rig::new();
    rig.line.up();
    (0..150).for_each(|number| rig.say(number));
    eventually("some are on disk", async || match rig.on_disk().await {
        (chunks, 0) => Err(chunks),
        _ => Ok(()),
    })
    .await;
    // the one that is being sent is lost with the connection, and is sent first
    rig.line.down();
    rig.until_on_disk(150).await;
    rig.line.up();
    (150..170).for_each(|number| rig.say(number));
    for number in 0..170 {
        assert_eq!(rig.next_number().await, number);
    }
    pass(2 * FLUSH_AFTER).await;
    assert!(rig.hears_nothing());
}

#[tokio::test(start_paused = true)]
async fn unanswered_messages_are_sent_again_under_the_same_id() {
    let mut rig = Rig::answered(MemoryStore::new());
    rig.line.up();
    (0..10).for_each(|number| rig.say(number));
    let mut ids = Vec::new();
    for number in 0..AT_ONCE {
        let (heard, id) = rig.next_request().await;
        assert_eq!(heard, number);
        ids.push(id);
    }
    assert!(rig.hears_nothing(), "no more are on their way at a time");
    rig.answer(&ids[0]).await;
    rig.answer(&ids[1]).await;
    rig.until_stored(2).await;
    rig.line.down();
    rig.line.up();
    for number in 2..10 {
        let (heard, id) = rig.next_request().await;
        assert_eq!(heard, number);
        assert!(
            ids.get(number).is_none_or(|before| *before == id),
            "{number} has another id"
        );
        rig.answer(&id).await;
    }
    rig.until_stored(10).await;
}

#[tokio::test(start_paused = true)]
async fn one_that_is_never_answered_is_sent_until_it_is_and_nothing_overtakes_it() {
    let mut rig = Rig::answered(MemoryStore::new());
    rig.line.up();
    (0..6).for_each(|number| rig.say(number));
    let (_, first) = rig.next_request().await;
    for _ in 1..AT_ONCE {
        let (_, id) = rig.next_request().await;
        rig.answer(&id).await;
    }
    // after the cloud's timeout
    for number in 0..6 {
        let (heard, id) = rig.next_request().await;
        assert_eq!(heard, number);
        assert!(number > 0 || id == first);
        rig.answer(&id).await;
    }
    rig.until_stored(6).await;
}

#[tokio::test(start_paused = true)]
async fn messages_from_disk_are_answered_in_order() {
    const ALL: usize = 150;
    let mut rig = Rig::answered(MemoryStore::new());
    (0..ALL).for_each(|number| rig.say(number));
    rig.until_on_disk(ALL).await;
    rig.line.up();
    for number in 0..ALL {
        let (heard, id) = rig.next_request().await;
        assert_eq!(heard, number);
        rig.answer(&id).await;
    }
    rig.until_on_disk(0).await;
    rig.say(ALL);
    assert_eq!(rig.next_request().await.0, ALL);
}

#[tokio::test(start_paused = true)]
async fn messages_in_flight_at_shutdown_are_sent_first_by_the_next_run() {
    let mut rig = Rig::answered(MemoryStore::new());
    rig.line.up();
    (0..AT_ONCE).for_each(|number| rig.say(number));
    let mut ids = Vec::new();
    for _ in 0..AT_ONCE {
        ids.push(rig.next_request().await.1);
    }
    // more than may wait in memory: they are written to disk, after those that are being sent
    (AT_ONCE..100).for_each(|number| rig.say(number));
    rig.until_on_disk(100 - AT_ONCE).await;
    rig.stop.cancel();
    rig.running.await.unwrap();
    let mut rig = Rig::answered(rig.store);
    rig.line.up();
    for number in 0..100 {
        let (heard, id) = rig.next_request().await;
        assert_eq!(heard, number);
        assert!(
            ids.get(number).is_none_or(|before| *before == id),
            "{number} has another id"
        );
        rig.answer(&id).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_whose_publisher_waits_is_on_disk_at_once_without_a_connection() {
    let mut rig = Rig::new();
    rig.is_awaited = true;
    for number in 0..200 {
        let begun = tokio::time::Instant::now();
        rig.say(number);
        rig.until_stored(number + 1).await;
        assert!(
            begun.elapsed() < FLUSH_AFTER,
            "{number}: {:?}",
            begun.elapsed()
        );
    }
    let (chunks, messages) = rig.on_disk().await;
    assert!(
        messages == 200 && chunks < 10,
        "{messages} messages in {chunks} chunks"
    );
    // killed: nothing more is written
    rig.running.abort();
    let mut rig = Rig::answered(rig.store);
    rig.line.up();
    for number in 0..200 {
        let (heard, id) = rig.next_request().await;
        assert_eq!(heard, number);
        rig.answer(&id).await;
    }
    rig.until_on_disk(0).await;
}

#[tokio::test(start_paused = true)]
async fn a_burst_is_stored_although_the_cloud_is_slow_and_is_sent_once_and_in_order() {
    const ALL: usize = 180;
    let mut rig = Rig::answered(MemoryStore::new());
    rig.is_awaited = true;
    rig.line.up();
    (0..ALL).for_each(|number| rig.say(number));
    // those that the cloud has not confirmed are stored, too, when their publishers have waited long enough
    rig.until_stored(ALL).await;
    assert_eq!(rig.on_disk().await.1, ALL);
    let mut heard = std::collections::BTreeMap::new();
    while heard.len() < ALL {
        let (number, id) = rig.next_request().await;
        assert!(
            heard
                .insert(number, id.clone())
                .is_none_or(|before| before == id),
            "{number} has another id"
        );
        assert_eq!(
            heard.len(),
            heard.keys().max().map_or(0, |most| most + 1),
            "{number} came too early"
        );
        rig.answer(&id).await;
    }
    rig.until_on_disk(0).await;
}

#[tokio::test(start_paused = true)]
async fn a_few_messages_whose_publishers_wait_are_sent_without_the_disk() {
    let mut rig = Rig::answered(MemoryStore::new());
    rig.is_awaited = true;
    rig.line.up();
    let before = rig.store.revision();
    for round in 0..50 {
        (0..AT_ONCE).for_each(|number| rig.say(round * AT_ONCE + number));
        for number in 0..AT_ONCE {
            let (heard, id) = rig.next_request().await;
            assert_eq!(heard, round * AT_ONCE + number);
            rig.answer(&id).await;
        }
        rig.until_stored((round + 1) * AT_ONCE).await;
    }
    assert_eq!(rig.store.revision(), before, "nothing was written");
}
