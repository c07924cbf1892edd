//! Devices written, read, and taken over.

use objectstore::MemoryStore;

use wire::twin::{Attribute, TypeMetadata, Version};

use super::{
    super::{
        device::{Property, TwinValue},
        rules::Kind,
    },
    *,
};

fn id(text: &str) -> DeviceId {
    DeviceId::parse(text).unwrap()
}

async fn put(store: &dyn Store, table: &str, key: &str, row: Value) {
    let key = Key::new(Resource::new(EDGECORE_GROUP, table), "", key);
    let value = Some(json!({"metadata": {"name": key.name}, "row": row}));
    store
        .commit(vec![Write {
            key,
            expect: Expect::Anything,
            value,
        }])
        .await
        .unwrap();
}

#[tokio::test]
async fn written_devices_are_read_back() {
    let store = DeviceStore::new(MemoryStore::new());
    let device = Device {
        state: "online".into(),
        ..Device::default()
    };
    let (one, two, never) = (id("ns/one"), id("two"), id("never"));
    store
        .write([(&one, Some(&device)), (&two, Some(&device))].into_iter())
        .await
        .unwrap();
    store
        .write([(&never, None), (&two, None)].into_iter())
        .await
        .unwrap();
    assert_eq!(store.load().await.unwrap(), [(one, device)]);
}

#[tokio::test]
async fn edgecores_rows_are_taken_over_once() {
    let store = MemoryStore::new();
    put(&*store, "device", "default/d", json!({"id": "default/d", "name": "d", "description": "x", "state": "online", "last_online": "2026-11-21T03:09:49Z"})).await;
    put(&*store, "device_attr", "1", json!({"deviceid": "default/d", "name": "place", "value": "roof", "optional": 1, "attr_type": "string"})).await;
    put(&*store, "device_twin", "1", json!({
        "deviceid": "default/d", "name": "temp", "expected": "20", "actual": "12", "expected_meta": "{\"timestamp\":5}",
        "actual_meta": "{\"timestamp\":6}", "expected_version": "{\"cloud\":2,\"edge\":1}",
        "actual_version": "{\"cloud\":0,\"edge\":7}", "optional": 0, "attr_type": "int", "metadata": "{}",
    })).await;
    put(&*store, "device_twin", "2", json!({"deviceid": "default/d", "name": "old", "attr_type": "deleted", "actual_version": "{\"cloud\":0,\"edge\":3}"})).await;
    put(
        &*store,
        "device_twin",
        "3",
        json!({"deviceid": "default/nobody", "name": "x", "actual": "1"}),
    )
    .await;
    put(&*store, "device_twin", "4", json!({"deviceid": 7})).await;
    let store = DeviceStore::new(store.clone());
    let mut devices = store.load().await.unwrap();
    let (found, device) = devices.pop().unwrap();
    assert_eq!((found, devices.len()), (id("default/d"), 0));
    insta::assert_json_snapshot!("taken_over", device);
    // nothing is left to import, and newer changes stay
    let changed = Device {
        state: "offline".into(),
        ..device
    };
    store
        .write([(&id("default/d"), Some(&changed))].into_iter())
        .await
        .unwrap();
    assert_eq!(store.load().await.unwrap(), [(id("default/d"), changed)]);
}

#[tokio::test]
async fn unreadable_devices_are_left_out() {
    let store = MemoryStore::new();
    let key = Key::new(Resource::new(GROUP, "devices"), "", "odd");
    let value = Some(json!({"metadata": {}, "id": "a/b/c"}));
    store
        .commit(vec![Write {
            key,
            expect: Expect::Anything,
            value,
        }])
        .await
        .unwrap();
    assert_eq!(DeviceStore::new(store).load().await.unwrap(), []);
}

#[tokio::test]
async fn the_history_is_written_in_chunks() {
    let store = DeviceStore::new(MemoryStore::new());
    let past = |device: &str, at| HistoryEntry {
        device: id(device),
        property: "t".into(),
        value: Some("1".into()),
        at,
    };
    let chunk = |entries: Vec<HistoryEntry>| Chunk { entries };
    store
        .write_chunk(9, &chunk(vec![past("a", 1), past("b", 2)]), &[])
        .await
        .unwrap();
    store
        .write_chunk(10, &chunk(vec![past("a", 3)]), &[7])
        .await
        .unwrap();
    assert_eq!(store.chunks().await.unwrap(), [(9, 2), (10, 3)]);
    assert_eq!(
        store.history(&id("a")).await.unwrap(),
        [past("a", 1), past("a", 3)]
    );
    store
        .write_chunk(11, &chunk(vec![past("a", 4)]), &[9, 10])
        .await
        .unwrap();
    assert_eq!(store.history(&id("a")).await.unwrap(), [past("a", 4)]);
}

#[tokio::test]
async fn a_device_survives_export_and_takeover() {
    let store = MemoryStore::new();
    let property = |expected: TwinValue, actual: TwinValue, deleted| {
        let kind = Kind::parse("int").unwrap();
        Box::new(Property {
            kind,
            optional: false,
            expected,
            actual,
            deleted,
            ..Property::default()
        })
    };
    let version = |cloud, edge| Version { cloud, edge };
    let side = |value: &str, at, version, due| TwinValue {
        value: Some(value.to_owned()),
        at,
        version,
        due,
    };
    let place = Attribute {
        value: "roof".into(),
        optional: Some(true),
        metadata: Some(TypeMetadata {
            kind: "string".into(),
        }),
    };
    // reported values are reported once more
    let device = Device {
        member: true,
        description: "x".into(),
        state: "online".into(),
        last_online: "2026-11-21T03:09:49Z".into(),
        attributes: [("place".to_owned(), place)].into(),
        twins: [
            (
                "temp".to_owned(),
                property(
                    side("20", 5, version(2, 1), false),
                    side("12", 6, version(0, 7), true),
                    false,
                ),
            ),
            ("old".to_owned(), {
                let actual = TwinValue {
                    version: version(0, 3),
                    ..TwinValue::default()
                };
                let kind = Kind::default();
                Box::new(Property {
                    kind,
                    ..*property(TwinValue::default(), actual, true)
                })
            }),
        ]
        .into(),
        ..Device::default()
    };
    DeviceStore::new(store.clone())
        .write([(&id("default/d"), Some(&device))].into_iter())
        .await
        .unwrap();
    let stored = store
        .get(&key(&id("default/d")))
        .await
        .unwrap()
        .unwrap()
        .value()
        .unwrap();
    let device_rows = device_rows(&stored).unwrap();
    assert_eq!(
        (device_rows.id.as_str(), device_rows.has_unconfirmed),
        ("default/d", true)
    );

    let edgecore = MemoryStore::new();
    for (number, (table, row)) in device_rows.rows.iter().enumerate() {
        put(&*edgecore, table, &number.to_string(), row.clone()).await;
    }
    assert_eq!(
        DeviceStore::new(edgecore).load().await.unwrap(),
        [(id("default/d"), device)]
    );
}
