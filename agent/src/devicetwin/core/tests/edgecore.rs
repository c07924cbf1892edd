//! Messages of mappers that were written for EdgeCore, and properties that the device's object excludes from reports.

use super::*;

const UPDATE: &str = "$hw/events/device/default/d/twin/update";

/// Adds a device with a model: a desired value, one that is not reported, and whether its state is.
fn device(core: &mut Core, properties: Value, state_report: Value) {
    let model = json!({"metadata": {"name": "m"}, "spec": {"properties": [
        {"name": "temp", "type": "FLOAT"},
        {"name": "ready", "type": "BOOLEAN"},
        {"name": "note", "type": "STRING"},
        {"name": "spare", "type": "INT"},
    ]}});
    core.model(
        &mut Batch::default(),
        &id("default/m"),
        Some(&serde_json::from_value(model).unwrap()),
        NOW,
    );
    let object = json!({
        "metadata": {"name": "d", "namespace": "default", "uid": "u"},
        "spec": {"deviceModelRef": {"name": "m"}, "properties": properties, "stateReport": state_report},
    });
    let mut batch = Batch::default();
    core.object(
        &mut batch,
        &id("default/d"),
        Some(&serde_json::from_value(object).unwrap()),
        NOW,
    );
    core.mark_written(&batch);
}

fn update(core: &mut Core, twin: &Value) -> Value {
    let payload = json!({"event_id": "x", "timestamp": 1, "twin": twin});
    published_by(core, UPDATE, payload)
        .into_iter()
        .find(|(topic, _)| topic.ends_with("/result"))
        .unwrap()
        .1
}

/// Returns the next report to the cloud: properties by name, or the state.
fn due(core: &mut Core) -> Option<Value> {
    let id = core.next_due(&BTreeSet::new())?;
    match core.due(&id, &[], NOW)? {
        PendingReport::Twin(update, told) => {
            core.confirm_report(
                &mut Batch::default(),
                &id,
                &PendingReport::Twin(update.clone(), told),
            );
            serde_json::to_value(update.twin).ok()
        }
        PendingReport::State(state, told) => {
            core.confirm_report(
                &mut Batch::default(),
                &id,
                &PendingReport::State(state.clone(), told),
            );
            serde_json::to_value(state.device).ok()
        }
    }
}

/// The type names that public mappers send, beside those of models and of EdgeCore.
const WORDS: [&str; 8] = [
    "Updated", "updated", "double", "DOUBLE", "enum", "number", "FLOAT", "",
];

#[test]
fn of_a_property_that_the_device_has_the_models_type_counts() {
    for word in WORDS {
        let mut core = core();
        device(&mut core, json!([{"name": "temp"}]), Value::Null);
        let told = update(
            &mut core,
            &json!({"temp": {"actual": {"value": "21.5"}, "metadata": {"type": word}}}),
        );
        assert_eq!(told.get("code"), None, "{word}: {told}");
        let twin = &told["twin"]["temp"];
        assert_eq!(
            (&twin["actual"]["value"], &twin["metadata"]["type"]),
            (&json!("21.5"), &json!("float"))
        );
        let told = due(&mut core).unwrap();
        assert_eq!(told["temp"]["actual"]["value"], "21.5", "{word}");
        // the type name does not make a wrong value right
        let told = update(
            &mut core,
            &json!({"temp": {"actual": {"value": "warm"}, "metadata": {"type": word}}}),
        );
        assert_eq!(told["code"], 400, "{word}");
    }
}

#[test]
fn of_a_property_that_was_there_before_its_own_type_counts() {
    let mut core = core();
    member(&mut core, "default/d");
    let mut update = |word: &str, value: &str| {
        update(
            &mut core,
            &json!({"x": {"actual": {"value": value}, "metadata": {"type": word}}}),
        )
    };
    let told = update("Updated", "1");
    assert_eq!(
        told["reason"],
        "\"Updated\" is no type of x; write int, float, boolean or string, or remove metadata"
    );
    assert_eq!(
        update("double", "1.5")["twin"]["x"]["metadata"]["type"],
        "float"
    );
    for word in WORDS {
        assert_eq!(
            update(word, "2.5")["twin"]["x"]["metadata"]["type"],
            "float",
            "{word}"
        );
        assert_eq!(update(word, "a")["code"], 400, "{word}");
    }
}

#[test]
fn a_property_that_only_the_object_names_accepts_any_type_name() {
    let mut core = core();
    device(&mut core, json!([{"name": "extra"}]), Value::Null);
    let told = update(
        &mut core,
        &json!({"extra": {"actual": {"value": "on"}, "metadata": {"type": "Updated"}}}),
    );
    assert_eq!(told["twin"]["extra"]["actual"]["value"], "on");
    assert_eq!(told["twin"]["extra"]["metadata"]["type"], "string");
}

#[test]
fn text_may_be_empty_and_nothing_else_may() {
    let mut core = core();
    device(
        &mut core,
        json!([{"name": "note"}, {"name": "temp"}, {"name": "ready"}]),
        Value::Null,
    );
    let told = update(
        &mut core,
        &json!({"note": {"expected": {"value": ""}, "actual": {"value": ""}}}),
    );
    assert_eq!(told["twin"]["note"]["actual"]["value"], "", "{told}");
    assert_eq!(due(&mut core).unwrap()["note"]["actual"]["value"], "");
    let told = published_by(
        &mut core,
        UPDATE,
        json!({"event_id": "x", "twin": {"note": {"actual": {"value": "full"}}}}),
    );
    assert!(
        told.iter().all(|(topic, _)| !topic.ends_with("/delta")),
        "an empty value wants nothing: {told:?}"
    );
    for (name, why) in [
        (
            "temp",
            "temp is of type float, and \"\" is not a finite number",
        ),
        (
            "ready",
            "ready is of type boolean, and \"\" is neither true nor false",
        ),
    ] {
        let told = update(&mut core, &json!({name: {"actual": {"value": ""}}}));
        assert_eq!((&told["code"], &told["reason"]), (&json!(400), &json!(why)));
    }
    let told = update(
        &mut core,
        &json!({"note": {"actual": {"value": "a\u{7}b"}}}),
    );
    assert_eq!(
        told["reason"],
        "note is text without control characters, and \"a\\u{7}b\" has some"
    );
}

/// As in EdgeCore the property is stored and can be queried; the cloud shows only what the object names.
#[test]
fn undeclared_properties_are_stored_locally() {
    let mut core = core();
    device(&mut core, json!([{"name": "temp"}]), Value::Null);
    let twins = serde_json::from_value(
        json!({"spare": {"actual": {"value": "7"}}, "temp": {"actual": {"value": "1"}}}),
    );
    let mut batch = Batch::default();
    let outcome = core
        .update(&mut batch, &id("default/d"), &twins.unwrap(), NOW)
        .unwrap();
    assert_eq!(outcome.undeclared, ["spare"], "it is warned of");
    let got = published_by(&mut core, "$hw/events/device/default/d/twin/get", "{}")
        .remove(0)
        .1;
    assert_eq!(got["twin"]["spare"]["actual"]["value"], "7");
    // once for each property
    let again = serde_json::from_value(json!({"spare": {"actual": {"value": "8"}}})).unwrap();
    assert_eq!(
        core.update(&mut batch, &id("default/d"), &again, NOW)
            .unwrap()
            .undeclared,
        [""; 0]
    );
}

#[test]
fn local_properties_are_not_reported() {
    let mut core = core();
    let properties =
        |reports: bool| json!([{"name": "temp", "reportToCloud": reports}, {"name": "note"}]);
    device(
        &mut core,
        properties(false),
        json!({"reportToCloud": false}),
    );
    let told = update(
        &mut core,
        &json!({"temp": {"actual": {"value": "21"}}, "note": {"actual": {"value": "a"}}}),
    );
    assert_eq!(
        told["twin"]["temp"]["actual"]["value"], "21",
        "on this node it is known"
    );
    let state = "$hw/events/device/default/d/state/update";
    assert_eq!(
        published_by(&mut core, state, json!({"state": "ok"}))
            .remove(0)
            .1["device"]["state"],
        "ok"
    );
    assert!(
        core.device(&id("default/d"))
            .unwrap()
            .last_online
            .starts_with("20"),
        "ok is online"
    );
    let told = due(&mut core).unwrap();
    assert_eq!(
        (told["note"]["actual"]["value"].as_str(), told.get("temp")),
        (Some("a"), None)
    );
    assert_eq!(due(&mut core), None);
    // after a restart the object has not been read yet
    let stored = serde_json::to_value(core.device(&id("default/d")).unwrap()).unwrap();
    let stored = serde_json::from_value(stored).unwrap();
    let mut again = Core::new("edge-1", [(id("default/d"), stored)], || "uuid".to_owned());
    assert_eq!(due(&mut again), None);
    // the newest value is reported when reports are allowed
    device(&mut core, properties(true), json!({"reportToCloud": true}));
    assert_eq!(due(&mut core).unwrap()["temp"]["actual"]["value"], "21");
    assert_eq!(due(&mut core).unwrap()["state"], "ok");
    assert_eq!(due(&mut core), None);
}

#[test]
fn a_membership_keeps_properties_of_any_type() {
    let mut core = core();
    let twin = json!({
        "a": {"actual": {"value": "1"}, "metadata": {"type": "Updated"}},
        "b": {"actual": {"value": "2"}},
        "c": {"metadata": {"type": "deleted"}},
    });
    let mut batch = Batch::default();
    core.membership(
        &mut batch,
        json!({"added_devices": [{"id": "default/d", "twin": twin}]}),
        NOW,
    );
    let got = published_by(&mut core, "$hw/events/device/default/d/twin/get", "{}")
        .remove(0)
        .1;
    assert_eq!(
        (
            &got["twin"]["a"]["actual"]["value"],
            &got["twin"]["b"]["actual"]["value"]
        ),
        (&json!("1"), &json!("2"))
    );
    assert_eq!(got["twin"].get("c"), None);
}

/// In EdgeCore a message on this topic counts as one of the cloud.
#[test]
fn messages_of_the_cloud_are_not_accepted_over_mqtt() {
    let mut core = core();
    device(&mut core, json!([{"name": "temp"}]), Value::Null);
    for what in ["twin/cloud_updated", "twin/edge_updated", "state/get"] {
        let twin = json!({"temp": {"expected": {"value": "1"}, "metadata": {"type": "float"}, "expected_version": {"cloud": 9, "edge": 9}}});
        let topic = format!("$hw/events/device/default/d/{what}");
        assert_eq!(
            published_by(&mut core, &topic, json!({"event_id": "x", "twin": twin})),
            []
        );
    }
    let got = published_by(&mut core, "$hw/events/device/default/d/twin/get", "{}")
        .remove(0)
        .1;
    assert_eq!(got["twin"], json!({}));
}
