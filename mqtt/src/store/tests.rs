//! What is committed is read again, and nothing else.

use std::sync::Arc;

use bytes::Bytes;

use super::{Changes, Queued, SavedMessage, SavedSession, Subscription, sqlite::SqliteStore};
use crate::{
    codec::{Options, RetainHandling},
    message::{Message, QoS},
};

fn saved(sequence: u64) -> SavedMessage {
    let mut message = Message::new("t/ü".into(), Bytes::from(vec![0, 255, 7]), QoS::ExactlyOnce, false);
    message.properties = Bytes::from_static(&[1, 1]);
    message.expires = Some(1 << 40);
    let queued = Queued {
        sequence,
        message: Arc::new(message),
        qos: QoS::ExactlyOnce,
        retain: false,
        subscription_ids: Box::new([7, 70_000]),
    };
    SavedMessage { client: "c".into(), queued, id: 0, released: false }
}

#[tokio::test]
async fn what_is_committed_is_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("mqtt.db");
    let mut store = SqliteStore::open(&path).await.unwrap();
    let options = Options {
        qos: QoS::AtLeastOnce,
        no_local: true,
        retain_as_published: true,
        retained: RetainHandling::Never,
    };
    let (session, subscription) = (
        SavedSession { user: Some("u".into()), expiry: u32::MAX },
        Subscription { options, id: Some(268_435_455) },
    );
    let mut changes = Changes::default();
    changes.sessions.insert("c".into(), Some(session.clone()));
    changes.subscriptions.insert(("c".into(), "$share/g/#".into()), Some(subscription));
    for sequence in 1..=150 {
        changes.insert(saved(sequence));
    }
    changes.update(1, 9, false);
    changes.incoming.insert(("c".into(), 65_535), true);
    let retained = Arc::new(Message::new("r".into(), Bytes::from_static(b"x"), QoS::AtLeastOnce, true));
    changes.retained.insert("r".into(), Some(Arc::clone(&retained)));
    store.commit(&changes).await.unwrap();

    let mut changes = Changes::default();
    (3..=150).for_each(|sequence| changes.delete(sequence));
    changes.update(2, 10, false);
    store.commit(&changes).await.unwrap();
    drop(store);

    let mut store = SqliteStore::open(&path).await.unwrap();
    let read = store.load().await.unwrap();
    assert_eq!(read.sessions.get("c"), Some(&session));
    assert_eq!(read.subscriptions, [("c".into(), "$share/g/#".into(), subscription)]);
    assert_eq!(read.messages, [SavedMessage { id: 9, ..saved(1) }, SavedMessage { id: 10, ..saved(2) }]);
    assert_eq!(read.incoming, [("c".into(), 65_535)]);
    assert_eq!(read.retained, [retained]);

    let mut changes = Changes::default();
    changes.update(1, 9, true);
    changes.delete(2);
    changes.sessions.insert("c".into(), None);
    changes.subscriptions.insert(("c".into(), "$share/g/#".into()), None);
    changes.incoming.insert(("c".into(), 65_535), false);
    changes.retained.insert("r".into(), None);
    store.commit(&changes).await.unwrap();
    let read = store.load().await.unwrap();
    assert!(read.sessions.is_empty() && read.subscriptions.is_empty() && read.incoming.is_empty());
    assert!(read.retained.is_empty());
    assert!(matches!(&read.messages[..], [one] if one.released && one.queued.message.payload.is_empty()));
}

#[tokio::test]
async fn a_torn_file_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("mqtt.db");
    std::fs::write(&path, "this is no database at all, and it is long enough to be looked at").unwrap();
    assert!(SqliteStore::open(&path).await.is_err());
}
