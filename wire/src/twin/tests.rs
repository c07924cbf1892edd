//! Round trips of recorded bodies.

use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};

use super::*;

/// Parses `json` as a `T` and checks that it is written back unchanged.
fn same<T: Serialize + DeserializeOwned>(json: Json) -> T {
    let body: T = serde_json::from_value(json.clone()).unwrap();
    assert_eq!(serde_json::to_value(&body).unwrap(), json);
    body
}

#[test]
fn recorded_bodies_are_read_and_written() {
    let membership: MembershipUpdate = same(json!({
        "event_id": "2ef02545", "timestamp": 1_795_231_246_430_i64,
        "added_devices": [{"id": "default/sensor-2", "name": "sensor-2"}], "removed_devices": null,
    }));
    assert_eq!(
        membership.added.unwrap(),
        [Member::new(DeviceId::parse("default/sensor-2").unwrap())]
    );
    let report: TwinUpdate = same(json!({
        "event_id": "bfcc7e75", "timestamp": 1_795_231_252_485_i64, "twin": {"temperature": {
            "actual": {"value": "22.0", "metadata": {"timestamp": 1_795_231_252_484_i64}}, "optional": true,
            "metadata": {"type": "float"}, "actual_version": {"cloud": 0, "edge": 1},
        }},
    }));
    let twin = report.twin.unwrap()["temperature"].clone().unwrap();
    assert_eq!(
        (twin.actual_version, twin.expected_version),
        (Some(Version { cloud: 0, edge: 1 }), None)
    );
    same::<MembershipQuestion>(json!({
        "event_type": "group_membership_event", "event_id": "65a94672", "group_id": "edge2", "operation": "detail",
        "timestamp": 1_795_231_219_726_i64,
    }));
    same::<StateResult>(json!({
        "event_id": "u", "timestamp": 1, "device": {"name": "d1", "state": "online", "lastOnlineTime": "2026-11-21T03:09:49Z"},
    }));
    same::<Refusal>(json!({
        "event_id": "x5", "timestamp": 1, "code": 404, "reason": "Device default/nodev not found while getting twin",
    }));
    same::<TwinDocument>(json!({
        "event_id": "x1", "timestamp": 1,
        "twin": {"temp": {"last": null, "current": {"actual": {"value": "12"}, "optional": true, "metadata": {"type": "int"}}}},
    }));
    same::<TwinDelta>(json!({
        "event_id": "u", "timestamp": 1, "twin": {"temp": {"expected": {"value": "20"}}}, "delta": {"temp": "20"},
    }));
    same::<MembershipList>(
        json!({"event_id": "x3", "timestamp": 1, "devices": [{"id": "default/d1", "name": "d1"}]}),
    );
}

#[test]
fn what_is_left_out_or_null_is_empty() {
    for text in [
        "{}",
        "{\"event_id\":null,\"timestamp\":null,\"twin\":null,\"more\":[1]}",
    ] {
        assert_eq!(
            serde_json::from_str::<TwinUpdate>(text).unwrap(),
            TwinUpdate::default(),
            "{text}"
        );
    }
    let update: TwinUpdate = serde_json::from_str("{\"twin\":{\"a\":null,\"b\":{}}}").unwrap();
    assert_eq!(
        update.twin.unwrap(),
        Twins::from([
            ("a".to_owned(), None),
            ("b".to_owned(), Some(Twin::default()))
        ])
    );
    let update: DeviceUpdate =
        serde_json::from_str("{\"state\":null,\"attributes\":null}").unwrap();
    assert_eq!(update, DeviceUpdate::default());
    let empty = serde_json::to_value(MembershipUpdate::default()).unwrap();
    assert_eq!(
        empty,
        json!({"event_id": "", "timestamp": 0, "added_devices": null, "removed_devices": null})
    );
}

#[test]
fn other_types_are_no_bodies() {
    for text in [
        "",
        "[]",
        "{\"twin\":[]}",
        "{\"timestamp\":\"1\"}",
        "{\"timestamp\":1.5}",
        "{\"twin\":{\"a\":{\"actual\":{\"value\":20}}}}",
        "{\"twin\":{\"a\":{\"actual\":\"20\"}}}",
        "{\"event_id\":7}",
    ] {
        assert!(serde_json::from_str::<TwinUpdate>(text).is_err(), "{text}");
    }
    assert!(
        serde_json::from_str::<MembershipUpdate>("{\"added_devices\":[{\"id\":\"a/b/c\"}]}")
            .is_err()
    );
}
