//! The end of EventBus.

use std::{io, sync::Arc};

use objectstore::MemoryStore;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tracing::Level;

use super::{
    super::{Config, new},
    node::{internal, meta_config},
};
use crate::{edgehub::fake_cloud::fake_cloud, metamanager};

/// The captured log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn an_ordinary_end_warns_of_nothing() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(Level::WARN)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    for is_running in [false, true] {
        let (hub, inbound, _line) = fake_cloud();
        let store = MemoryStore::new();
        let (_, ends) = metamanager::new(meta_config(store.clone(), &hub, inbound));
        let messages = ends.topic_messages;
        let config = Config {
            internal: Some(internal(None)),
            external: None,
            store,
            hub,
            messages,
        };
        let (bus, _requests, task) = new(config).unwrap();
        let stop = CancellationToken::new();
        if !is_running {
            stop.cancel();
        }
        let running = tokio::spawn(task.run(stop.clone()));
        if is_running {
            bus.internal_address().await.unwrap();
        }
        stop.cancel();
        running.await.unwrap().unwrap();
    }
    let log = String::from_utf8(log.0.lock().clone()).unwrap();
    assert_eq!(log, "");
}
