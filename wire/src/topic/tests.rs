//! Parsing and writing of topics.

use super::*;

fn device(text: &str) -> DeviceId {
    DeviceId::parse(text).unwrap()
}

#[test]
fn every_topic_of_a_device_is_read_as_it_is_written() {
    for topic in DeviceTopic::ALL {
        for id in [
            "default/sensor-1",
            "sensor-1",
            "dev/hw",
            "events/e",
            "twin/update",
            "a/twin",
        ] {
            let written = Topic::Device(device(id), *topic);
            let text = format!("$hw/events/device/{id}/{}", topic.as_str());
            assert_eq!(written.to_string(), text);
            assert_eq!(Topic::parse(&text), written, "{text}");
        }
    }
}

#[test]
fn every_topic_of_a_node_is_read_as_it_is_written() {
    for topic in NodeTopic::ALL {
        let written = Topic::Node("edge-1.example".to_owned(), *topic);
        let text = format!("$hw/events/node/edge-1.example/{}", topic.as_str());
        assert_eq!((written.to_string(), Topic::parse(&text)), (text, written));
    }
}

#[test]
fn longer_endings_come_first() {
    for topics in [
        DeviceTopic::ALL
            .iter()
            .map(|it| it.as_str())
            .collect::<Vec<_>>(),
        NodeTopic::ALL.iter().map(|it| it.as_str()).collect(),
    ] {
        let levels = |text: &&str| std::cmp::Reverse(text.split('/').count());
        assert!(topics.is_sorted_by_key(levels), "{topics:?}");
    }
}

#[test]
fn what_goes_to_the_cloud_as_it_is() {
    for text in [
        "$hw/events/upload/a",
        "$hw/events/upload/a/b",
        "$hw/events/upload",
        "SYS/dis/upload_records",
        "SYS/dis/upload_records/x",
        "ns/user",
        "ns/user/a/b",
    ] {
        assert_eq!(Topic::parse(text), Topic::Upload(text.to_owned()));
        assert_eq!(Topic::parse(text).to_string(), text);
    }
}

#[test]
fn everything_else_is_a_value_too() {
    for text in [
        "",
        "/",
        "$hw/events/device/",
        "$hw/events/device/twin/update",
        "$hw/events/device//twin/update",
        "$hw/events/device/a/b/c/twin/update",
        "$hw/events/device/a/+/twin/update",
        "$hw/events/device/a/b/twin/updated",
        "$hw/events/node//membership/get",
        "$hw/events/node/a/b/membership/get",
        "$sys/user/a",
        "default/up",
        "SYS/dis/upload_records/x/y",
        "SYS/dis/upload_recordsx",
        "$ke/events/device/default/d/data/update",
    ] {
        assert_eq!(Topic::parse(text), Topic::Other(text.to_owned()), "{text}");
    }
}

#[test]
fn a_question_may_have_a_tag() {
    for (text, asked) in [
        (
            "$hw/events/device/ns/d/state/update/x1",
            "$hw/events/device/ns/d/state/update",
        ),
        (
            "$hw/events/device/d/state/update/x1",
            "$hw/events/device/d/state/update",
        ),
        (
            "$hw/events/node/n/membership/get/x1",
            "$hw/events/node/n/membership/get",
        ),
    ] {
        assert_eq!(Topic::without_tag(text), asked);
        assert!(matches!(
            Topic::parse(asked),
            Topic::Device(..) | Topic::Node(..)
        ));
    }
    for text in [
        "$hw/events/device/ns/d/state/update",
        "$hw/events/device/ns/d/state/update/result",
        "$hw/events/device/ns/d/twin/update/x1",
        "$hw/events/node/n/membership/get/result",
        "$hw/events/node/n/membership/get/",
        "a/state/update/x1",
        "",
    ] {
        assert_eq!(Topic::without_tag(text), text);
    }
}

#[test]
fn what_is_of_devices_is_known_by_how_it_begins() {
    for text in [
        "$hw/events/device/default/d/twin/other",
        "$hw/events/device/",
        "$hw/events/node/n/x",
    ] {
        assert!(Topic::is_of_devices(text), "{text}");
    }
    for text in [
        "$hw/events/upload/device",
        "$hw/events/devices/d",
        "default/user/x",
        "$ke/events/device/d/data/update",
    ] {
        assert!(!Topic::is_of_devices(text), "{text}");
    }
}

#[test]
fn readings_have_a_topic_of_their_own() {
    assert_eq!(
        Topic::data(&device("ns/d")),
        "$ke/events/device/ns/d/data/update"
    );
    assert_eq!(
        Topic::data_of("$ke/events/device/ns/d/data/update"),
        Some(device("ns/d"))
    );
    assert_eq!(
        Topic::data_of("$ke/events/device/d/data/update"),
        Some(device("d"))
    );
    assert_eq!(Topic::data_of("$hw/events/device/d/data/update"), None);
}

#[test]
fn devices() {
    let parts = |text| {
        DeviceId::parse(text).map(|id| (id.namespace().map(str::to_owned), id.name().to_owned()))
    };
    assert_eq!(parts("ns/d"), Some((Some("ns".to_owned()), "d".to_owned())));
    assert_eq!(parts("d"), Some((None, "d".to_owned())));
    for bad in [
        "",
        "/",
        "a/",
        "/a",
        "a/b/c",
        "a+",
        "#",
        "a\nb",
        "a\0",
        &"x".repeat(318),
    ] {
        assert_eq!(DeviceId::parse(bad), None, "{bad:?}");
    }
    assert_eq!(DeviceId::new("", "d"), DeviceId::parse("d"));
    assert_eq!(DeviceId::new("ns", "d"), DeviceId::parse("ns/d"));
    assert_eq!(serde_json::to_string(&device("ns/d")).unwrap(), "\"ns/d\"");
    assert!(serde_json::from_str::<DeviceId>("\"a/b/c\"").is_err());
}

proptest::proptest! {
    #[test]
    fn what_is_read_is_written_back(text in "(\\$hw/events/(device|node)/)?([a-z+#$]{0,3}/){0,4}(twin/update|twin/get/result|membership/get|user|x)") {
        proptest::prop_assert_eq!(Topic::parse(&text).to_string(), text);
    }
}
