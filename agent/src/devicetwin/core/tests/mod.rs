//! Messages in, messages out.

use serde_json::json;
use wire::twin::INTERNAL;

use super::*;

mod edgecore;
mod reports;

const NOW: i64 = 1_795_230_556_314;

fn id(text: &str) -> DeviceId {
    DeviceId::parse(text).unwrap()
}

fn core() -> Core {
    Core::new("edge-1", [], || "uuid".to_owned())
}

/// Returns what a message on a topic publishes, as text.
fn published_by(core: &mut Core, topic: &str, payload: impl ToString) -> Vec<(String, Value)> {
    let mut batch = Batch::default();
    core.message(
        &mut batch,
        &Topic::parse(topic),
        payload.to_string().as_bytes(),
        NOW,
    );
    core.mark_written(&batch);
    published_messages(batch)
}

fn published_messages(batch: Batch) -> Vec<(String, Value)> {
    batch
        .publish
        .into_iter()
        .map(|(topic, body)| (topic.to_string(), serde_json::from_slice(&body).unwrap()))
        .collect()
}

fn member(core: &mut Core, device: &str) -> Vec<(String, Value)> {
    let mut batch = Batch::default();
    core.membership(&mut batch, json!({"event_id": "m", "timestamp": 1, "added_devices": [{"id": device, "name": "d"}], "removed_devices": null}), NOW);
    core.mark_written(&batch);
    published_messages(batch)
}

fn object(core: &mut Core, name: &str, uid: &str, desired: &str) -> Vec<(String, Value)> {
    let object = json!({
        "metadata": {"name": name, "namespace": "default", "uid": uid},
        "spec": {"deviceModelRef": {"name": "m"}, "protocol": {"protocolName": "modbus"}, "properties": [{"name": "temp", "desired": {"value": desired}}]},
    });
    let mut batch = Batch::default();
    core.object(
        &mut batch,
        &id(&format!("default/{name}")),
        Some(&serde_json::from_value(object).unwrap()),
        NOW,
    );
    core.mark_written(&batch);
    published_messages(batch)
}

fn model(core: &mut Core, maximum: &str) {
    let model = json!({"metadata": {"name": "m"}, "spec": {"properties": [{"name": "temp", "type": "INT", "maximum": maximum}]}});
    core.model(
        &mut Batch::default(),
        &id("default/m"),
        Some(&serde_json::from_value(model).unwrap()),
        NOW,
    );
}

#[test]
fn a_twin_from_its_device_to_its_delta() {
    let mut core = core();
    let story = [
        ("membership", member(&mut core, "default/d")),
        (
            "update",
            published_by(
                &mut core,
                "$hw/events/device/default/d/twin/update",
                r#"{"event_id":"x1","timestamp":1,"twin":{"temp":{"expected":{"value":"20"},"actual":{"value":"12"},"metadata":{"type":"int"}}}}"#,
            ),
        ),
        (
            "get",
            published_by(
                &mut core,
                "$hw/events/device/default/d/twin/get",
                r#"{"event_id":"x2","timestamp":1}"#,
            ),
        ),
        (
            "state",
            published_by(
                &mut core,
                "$hw/events/device/default/d/state/update",
                r#"{"event_id":"x4","timestamp":1,"state":"Online"}"#,
            ),
        ),
        (
            "members",
            published_by(
                &mut core,
                "$hw/events/node/edge-1/membership/get",
                r#"{"event_id":"x3","timestamp":1}"#,
            ),
        ),
        (
            "another node's",
            published_by(
                &mut core,
                "$hw/events/node/edge-2/membership/get",
                r#"{"event_id":"x3","timestamp":1}"#,
            ),
        ),
        (
            "an answer",
            published_by(
                &mut core,
                "$hw/events/device/default/d/twin/update/result",
                "{}",
            ),
        ),
    ];
    insta::assert_json_snapshot!("story", story);
}

#[test]
fn invalid_requests_are_answered_and_change_nothing() {
    let mut core = core();
    member(&mut core, "default/d");
    let large = format!("{{\"event_id\":\"{}\"}}", "x".repeat(MAX_PAYLOAD));
    let mut answers = Vec::new();
    for (topic, payload) in [
        ("default/d/twin/update", "no json"),
        ("default/d/twin/update", "[1]"),
        ("default/d/twin/update", "{\"event_id\":\"x\"}"),
        (
            "default/d/twin/update",
            "{\"event_id\":\"x\",\"twin\":{\"a\":{\"actual\":{\"value\":20}}}}",
        ),
        (
            "default/d/twin/update",
            "{\"event_id\":\"x\",\"twin\":{\"a b\":{}}}",
        ),
        (
            "default/nobody/twin/update",
            "{\"event_id\":\"x\",\"twin\":{}}",
        ),
        (
            "default/nodev/twin/get",
            "{\"event_id\":\"x5\",\"timestamp\":1}",
        ),
        ("nobody/twin/get", "{\"event_id\":\"x5\"}"),
        ("default/d/twin/get", ""),
        (
            "default/d/state/update",
            "{\"event_id\":\"x\",\"state\":\"tired\"}",
        ),
        (
            "default/nobody/state/update",
            "{\"event_id\":\"x\",\"state\":\"ok\"}",
        ),
        ("default/d/twin/update", &large),
    ] {
        let mut batch = Batch::default();
        core.message(
            &mut batch,
            &Topic::parse(&format!("$hw/events/device/{topic}")),
            payload.as_bytes(),
            NOW,
        );
        assert_eq!(batch.writes(&core).count(), 0, "{topic}");
        assert_eq!(batch.counts.len(), 1);
        answers.push((batch.counts[0].as_str(), published_messages(batch)));
    }
    insta::assert_json_snapshot!("refused", answers);
}

#[test]
fn devices_are_known_without_their_namespace() {
    let mut core = core();
    member(&mut core, "ns/d");
    let get = |core: &mut Core| published_by(core, "$hw/events/device/d/twin/get", "{}").remove(0);
    let (topic, answer) = get(&mut core);
    assert_eq!(
        (topic.as_str(), answer.get("code")),
        ("$hw/events/device/d/twin/get/result", None)
    );
    member(&mut core, "other/d");
    assert_eq!(get(&mut core).1["code"], 404, "two are called so");
    member(&mut core, "default/d");
    assert_eq!(get(&mut core).1.get("code"), None, "one of them stands out");
    // a mapper that addresses the device so gets its answers so
    object(&mut core, "d", "u", "20");
    let told: Vec<_> = object(&mut core, "d", "u", "21")
        .into_iter()
        .map(|(topic, _)| topic)
        .collect();
    assert!(
        told.contains(&"$hw/events/device/d/twin/update/delta".to_owned()),
        "{told:?}"
    );
    assert!(
        told.contains(&"$hw/events/device/default/d/twin/update/delta".to_owned()),
        "{told:?}"
    );
}

#[test]
fn an_object_creates_a_device_with_desired_values() {
    let mut core = core();
    model(&mut core, "100");
    let told = object(&mut core, "d", "u1", "21");
    let topics: Vec<_> = told
        .iter()
        .map(|(topic, _)| topic.rsplit_once('/').unwrap().1)
        .collect();
    assert_eq!(topics, ["updated", "document", "delta"]);
    assert_eq!(told[2].1["delta"], json!({"temp": "21"}));
    assert_eq!(
        told[2].1["twin"]["temp"]["metadata"]["type"], "int",
        "the type is the model's"
    );
    assert!(
        core.next_due(&BTreeSet::new()).is_none(),
        "the cloud knows its own wish"
    );
    assert_eq!(object(&mut core, "d", "u1", "21"), [], "nothing is new");
    let listed = core.catalogue().devices[&id("default/d")].clone();
    assert_eq!(
        (&*listed.uid, listed.protocol.as_deref(), listed.model),
        ("u1", Some("modbus"), Some(id("default/m")))
    );
    object(&mut core, "d", "u1", "22");
    assert!(core.catalogue().devices[&id("default/d")].revision > listed.revision);
}

#[test]
fn values_outside_the_model_are_refused() {
    let mut core = core();
    model(&mut core, "30");
    object(&mut core, "d", "u1", "21");
    let mut update = |twin: &str| {
        let payload = format!("{{\"event_id\":\"x\",\"twin\":{twin}}}");
        published_by(
            &mut core,
            "$hw/events/device/default/d/twin/update",
            payload,
        )
        .remove(0)
        .1
    };
    assert_eq!(update(r#"{"temp":{"actual":{"value":"31"}}}"#)["code"], 400);
    assert_eq!(
        update(r#"{"temp":{"actual":{"value":"warm"}}}"#)["code"],
        400
    );
    assert_eq!(
        update(r#"{"other":{"actual":{"value":"1"}}}"#)["reason"],
        "other is no property of the device and its model default/m"
    );
    assert_eq!(
        update(r#"{"temp":null}"#)["reason"],
        "temp is declared by the device and cannot be deleted"
    );
    assert_eq!(
        update(r#"{"temp":{"actual":{"value":"30"}}}"#).get("code"),
        None
    );
    // a changed model changes which values are accepted
    model(&mut core, "20");
    let payload = r#"{"twin":{"temp":{"actual":{"value":"30"}}}}"#;
    assert_eq!(
        published_by(
            &mut core,
            "$hw/events/device/default/d/twin/update",
            payload
        )
        .remove(0)
        .1["code"],
        400
    );
}

#[test]
fn devices_go() {
    let mut core = core();
    object(&mut core, "d", "u1", "21");
    member(&mut core, "default/e");
    let mut batch = Batch::default();
    core.object(&mut batch, &id("default/d"), None, NOW);
    let removed = json!({"event_id": "", "timestamp": 2, "removed_devices": [{"id": "default/e"}, {"id": "default/never"}]});
    core.membership(&mut batch, removed, NOW);
    assert_eq!(
        batch
            .writes(&core)
            .map(|(id, device)| (id.as_str(), device.is_some()))
            .collect::<Vec<_>>(),
        [("default/d", false), ("default/e", false)]
    );
    let told = published_messages(batch);
    assert_eq!(
        told.iter()
            .map(|(_, body)| body["removed_devices"][0]["id"].clone())
            .collect::<Vec<_>>(),
        ["default/d", "default/e"]
    );
    assert!(core.catalogue().devices.is_empty());
    assert!(core.names.is_empty() && core.due.is_empty());
}

#[test]
fn a_device_is_removed_with_its_object() {
    let mut core = core();
    member(&mut core, "default/d");
    object(&mut core, "d", "u1", "21");
    let mut batch = Batch::default();
    core.membership(
        &mut batch,
        json!({"removed_devices": [{"id": "default/d"}]}),
        NOW,
    );
    assert_eq!(published_messages(batch), []);
    let mut batch = Batch::default();
    core.object(&mut batch, &id("default/d"), None, NOW);
    assert_eq!(
        published_messages(batch)[0].1["removed_devices"][0]["id"],
        "default/d"
    );
}

#[test]
fn another_device_under_the_same_name_starts_empty() {
    let mut core = core();
    object(&mut core, "d", "u1", "21");
    published_by(
        &mut core,
        "$hw/events/device/default/d/twin/update",
        r#"{"twin":{"temp":{"actual":{"value":"9"}}}}"#,
    );
    object(&mut core, "d", "u2", "21");
    let device = core.device(&id("default/d")).unwrap();
    assert_eq!(
        (device.uid.as_str(), &device.twins["temp"].actual.value),
        ("u2", &None)
    );
}

#[test]
fn the_full_list_removes_devices_that_it_does_not_name() {
    let mut core = core();
    for device in ["default/a", "default/b"] {
        member(&mut core, device);
    }
    object(&mut core, "c", "u", "1");
    let mut batch = Batch::default();
    core.membership_detail(&mut batch, json!("{\"event_id\":\"\",\"timestamp\":1,\"devices\":[{\"id\":\"default/b\"},{\"id\":\"default/new\"}]}"), NOW);
    assert_eq!(
        core.devices
            .keys()
            .map(DeviceId::as_str)
            .collect::<Vec<_>>(),
        ["default/b", "default/c", "default/new"]
    );
    core.membership_detail(&mut batch, json!({"devices": 7}), NOW);
    assert_eq!(
        core.devices.len(),
        3,
        "what cannot be read takes nothing away"
    );
}

#[test]
fn a_stored_device_stays_until_the_objects_were_read() {
    let mut core = core();
    object(&mut core, "d", "u1", "21");
    let d = id("default/d");
    let stored = core.device(&d).unwrap().clone();
    let mut again = Core::new("edge-1", [(d.clone(), stored)], || "uuid".to_owned());
    let mut batch = Batch::default();
    again.membership_detail(&mut batch, json!({"devices": []}), NOW);
    again.membership(
        &mut batch,
        json!({"removed_devices": [{"id": "default/d"}]}),
        NOW,
    );
    assert!(again.device(&d).is_some());
    again.apply_object_list(&mut batch, &BTreeSet::new(), &BTreeSet::new(), NOW);
    assert!(again.device(&d).is_none(), "its object has gone");
}

#[test]
fn objects_that_were_deleted_unnoticed_are_removed() {
    let mut core = core();
    object(&mut core, "a", "u1", "1");
    object(&mut core, "b", "u2", "1");
    member(&mut core, "default/c");
    model(&mut core, "30");
    let mut batch = Batch::default();
    core.apply_object_list(
        &mut batch,
        &BTreeSet::new(),
        &BTreeSet::from([id("default/b")]),
        NOW,
    );
    assert!(core.catalogue().models.is_empty() && batch.catalogue);
    assert_eq!(
        core.devices
            .keys()
            .map(DeviceId::as_str)
            .collect::<Vec<_>>(),
        ["default/b", "default/c"]
    );
}

#[test]
fn a_twin_of_the_cloud_with_versions() {
    let mut core = core();
    member(&mut core, "default/d");
    let mut batch = Batch::default();
    let update = |cloud: i64| json!({"event_id": "c", "timestamp": 1, "twin": {"t": {"expected": {"value": format!("v{cloud}")}, "metadata": {"type": "string"}, "expected_version": {"cloud": cloud, "edge": 0}}}});
    core.apply_cloud_twin(&mut batch, "default/d", update(2), NOW);
    core.apply_cloud_twin(&mut batch, "default/d", update(1), NOW);
    core.apply_cloud_twin(&mut batch, "default/never", update(1), NOW);
    let said = published_messages(batch);
    let (topic, told) = &said[0];
    assert_eq!(topic, "$hw/events/device/default/d/twin/cloud_updated");
    assert_eq!(
        told["twin"],
        json!({"t": {"expected": {"value": "v2"}, "metadata": {"type": "string"}}})
    );
    assert_eq!(said.last().unwrap().1["delta"], json!({"t": "v2"}));
    let due = core.due(&id("default/d"), &[], NOW).unwrap();
    let PendingReport::Twin(update, _) = due else {
        panic!("{due:?}")
    };
    let sent_back = update.twin.unwrap()["t"].clone().unwrap();
    assert_eq!(
        sent_back.expected_version,
        Some(twin::Version { cloud: 2, edge: 0 }),
        "the older one is answered with what is"
    );
}

#[test]
fn changed_attributes_are_published() {
    let mut core = core();
    member(&mut core, "default/d");
    let mut with = |attributes: Value| {
        let mut batch = Batch::default();
        core.membership(
            &mut batch,
            json!({"added_devices": [{"id": "default/d", "attributes": attributes}]}),
            NOW,
        );
        published_messages(batch)
    };
    let told = with(json!({"place": {"value": "roof"}}));
    assert_eq!(told[0].0, "$hw/events/device/default/d/updated");
    assert_eq!(told[0].1["attributes"], json!({"place": {"value": "roof"}}));
    assert_eq!(with(json!({"place": {"value": "roof"}})), []);
    assert_eq!(
        with(json!({"place": null}))[0].1["attributes"],
        json!({"place": null})
    );
}

#[test]
fn values_that_have_become_others_go_into_the_history() {
    let mut core = core();
    member(&mut core, "default/d");
    let mut past = Vec::new();
    for (number, value) in ["1", "1", "2", "3", "3", "4"].into_iter().enumerate() {
        let mut batch = Batch::default();
        let payload = format!("{{\"twin\":{{\"t\":{{\"actual\":{{\"value\":\"{value}\"}}}}}}}}");
        let now = NOW + 600 * number as i64;
        core.message(
            &mut batch,
            &Topic::parse("$hw/events/device/default/d/twin/update"),
            payload.as_bytes(),
            now,
        );
        past.extend(
            batch
                .past
                .into_iter()
                .map(|past| (past.value.unwrap(), past.at - NOW)),
        );
    }
    // 3 came too soon after 2, and stayed; so did 4
    assert_eq!(
        past,
        [
            ("1".to_owned(), 0),
            ("2".to_owned(), 1200),
            ("3".to_owned(), 2400)
        ]
    );
}

#[test]
fn desired_values_that_are_not_reached_are_repeated_at_growing_intervals() {
    let mut core = core();
    object(&mut core, "d", "1", "20");
    let delta = "$hw/events/device/default/d/twin/update/delta";
    let mut told = Vec::new();
    for second in 0..300 {
        let mut batch = Batch::default();
        core.remind(&mut batch, NOW + second * 1000);
        assert_eq!(batch.writes(&core).count(), 0);
        let said = published_messages(batch);
        assert!(
            said.iter()
                .all(|(topic, body)| topic == delta && body["delta"] == json!({"temp": "20"}))
        );
        told.extend(said.iter().map(|_| second));
    }
    assert_eq!(told, [10, 30, 70, 130, 190, 250]);
    // a new desired value is repeated soon again, one that is reached no more
    object(&mut core, "d", "1", "21");
    let mut batch = Batch::default();
    core.remind(&mut batch, NOW + Reminder::FIRST_DELAY);
    assert_eq!(published_messages(batch).len(), 1);
    published_by(
        &mut core,
        "$hw/events/device/default/d/twin/update",
        r#"{"twin":{"temp":{"actual":{"value":"21"}}}}"#,
    );
    let mut batch = Batch::default();
    core.remind(&mut batch, NOW + 1_000_000);
    assert_eq!(published_messages(batch), []);
    // after a restart the node sends it at once
    let (id, device) = (
        id("default/d"),
        core.device(&id("default/d")).unwrap().clone(),
    );
    let mut wants = device.clone();
    wants.twins.get_mut("temp").unwrap().expected.value = Some("22".into());
    let mut again = Core::new("edge-1", [(id, wants)], || "uuid".to_owned());
    let mut batch = Batch::default();
    again.remind(&mut batch, NOW);
    assert_eq!(published_messages(batch).len(), 1);
}

#[test]
fn device_details_are_answered_and_credentials_are_refused() {
    let mut core = core();
    object(&mut core, "d", "u", "20");
    let question = r#"{"event_id":"x3","timestamp":1}"#;
    let told = published_by(
        &mut core,
        "$hw/events/node/edge-1/membership/detail",
        question,
    );
    let (topic, detail) = &told[0];
    assert_eq!(
        (told.len(), topic.as_str()),
        (1, "$hw/events/node/edge-1/membership/detail/result")
    );
    assert_eq!(
        (&detail["event_id"], &detail["devices"][0]["id"]),
        (&json!("x3"), &json!("default/d"))
    );
    assert_eq!(
        detail["devices"][0]["twin"]["temp"]["expected"]["value"],
        "20"
    );
    let told = published_by(&mut core, "$hw/events/node/edge-1/authInfo/get", question);
    let (topic, refused) = &told[0];
    assert_eq!(topic, "$hw/events/node/edge-1/authInfo/get/result");
    assert_eq!(
        (&refused["event_id"], &refused["code"]),
        (&json!("x3"), &json!(404))
    );
    for ignored in [
        "$hw/events/node/edge-2/membership/detail",
        "$hw/events/node/edge-1/membership/detail/result",
        "$hw/events/node/edge-2/authInfo/get",
        "$hw/events/device/default/d/twin/cloud_updated",
    ] {
        assert_eq!(published_by(&mut core, ignored, question), [], "{ignored}");
    }
}
