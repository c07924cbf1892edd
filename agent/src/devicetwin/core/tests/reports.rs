//! What is reported to the cloud, and when.

use super::*;

#[test]
fn reports_are_repeated_until_they_are_confirmed() {
    let mut core = core();
    member(&mut core, "default/d");
    let nobody = BTreeSet::new();
    let d = id("default/d");
    published_by(
        &mut core,
        "$hw/events/device/default/d/twin/update",
        r#"{"twin":{"t":{"actual":{"value":"1"}}}}"#,
    );
    published_by(
        &mut core,
        "$hw/events/device/default/d/state/update",
        r#"{"state":"online"}"#,
    );
    assert_eq!(
        core.next_due(&BTreeSet::from([d.clone()])),
        None,
        "it is being told"
    );
    assert_eq!(core.next_due(&nobody), Some(d.clone()));
    let first = core.due(&d, &[], NOW).unwrap();
    // it changes while the report is under way
    published_by(
        &mut core,
        "$hw/events/device/default/d/twin/update",
        r#"{"twin":{"t":{"actual":{"value":"2"}}}}"#,
    );
    core.confirm_report(&mut Batch::default(), &d, &first);
    let second = core.due(&d, &[], NOW).unwrap();
    let PendingReport::Twin(update, _) = &second else {
        panic!("{second:?}")
    };
    assert_eq!(
        update.twin.as_ref().unwrap()["t"]
            .as_ref()
            .unwrap()
            .actual
            .as_ref()
            .unwrap()
            .value
            .as_deref(),
        Some("2")
    );
    core.confirm_report(&mut Batch::default(), &d, &second);
    let third = core.due(&d, &[], NOW).unwrap();
    let expected = json!({"event_id": "uuid", "timestamp": NOW, "device": {"name": "d", "state": "online", "lastOnlineTime": "2026-11-21T03:09:16Z"}});
    let PendingReport::State(state, _) = &third else {
        panic!("{third:?}")
    };
    assert_eq!(serde_json::to_value(state).unwrap(), expected);
    // what was stored before the confirmation is reported again after a restart
    let device = core.device(&d).unwrap().clone();
    let mut again = Core::new("edge-1", [(d.clone(), device)], || "uuid".to_owned());
    assert!(again.due(&d, &[], NOW).is_some());
    core.confirm_report(&mut Batch::default(), &d, &third);
    assert_eq!(core.due(&d, &[], NOW), None);
    assert_eq!(core.next_due(&nobody), None);
}

#[test]
fn only_values_on_disk_are_reported() {
    let mut core = core();
    member(&mut core, "default/d");
    let (d, nobody) = (id("default/d"), BTreeSet::new());
    let reports = |core: &mut Core, value: &str| {
        let mut batch = Batch::default();
        let payload = json!({"twin": {"t": {"actual": {"value": value}}}}).to_string();
        let topic = Topic::parse("$hw/events/device/default/d/twin/update");
        core.message(&mut batch, &topic, payload.as_bytes(), NOW);
        batch
    };
    let value = |due: &PendingReport| match due {
        PendingReport::Twin(update, _) => update.twin.as_ref()?["t"]
            .as_ref()?
            .actual
            .as_ref()?
            .value
            .as_deref()
            .map(str::to_owned),
        PendingReport::State(..) => None,
    };
    let mut first = reports(&mut core, "1");
    assert_eq!(core.next_due(&nobody), None, "nothing is on disk");
    let second = reports(&mut core, "2");
    core.mark_written(&first);
    assert_eq!(core.next_due(&nobody).as_ref(), Some(&d));
    let told = core.due(&d, &[&second], NOW).unwrap();
    assert_eq!(value(&told).as_deref(), Some("1"));
    // confirmed while more is written: not reported again, not even when that is rolled back
    let mut third = reports(&mut core, "3");
    core.confirm_report(&mut third, &d, &told);
    let mut second = second;
    second.confirm(&d, &told);
    assert_eq!(core.due(&d, &[&second, &third], NOW), None);
    assert_eq!(core.next_due(&nobody), None);
    core.roll_back(third);
    core.roll_back(second);
    assert_eq!(core.due(&d, &[], NOW), None);
    assert_eq!(core.next_due(&nobody), None);
    // a later change is reported when it is written
    first = reports(&mut core, "4");
    core.mark_written(&first);
    assert_eq!(core.next_due(&nobody).as_ref(), Some(&d));
    assert_eq!(
        core.due(&d, &[], NOW).as_ref().and_then(value).as_deref(),
        Some("4")
    );
}

#[test]
fn a_confirmation_counts_for_the_reported_device_only() {
    let mut core = core();
    let (d, update) = (
        id("default/d"),
        r#"{"twin":{"temp":{"actual":{"value":"9"}}}}"#,
    );
    for (topic, payload) in [("twin", update), ("state", r#"{"state":"online"}"#)] {
        let topic = format!("$hw/events/device/default/d/{topic}/update");
        object(&mut core, "d", &format!("{topic} 1"), "21");
        published_by(&mut core, &topic, payload);
        let told = core.due(&d, &[], NOW).unwrap();
        object(&mut core, "d", &format!("{topic} 2"), "21");
        published_by(&mut core, &topic, payload);
        core.confirm_report(&mut Batch::default(), &d, &told);
        let again = core.due(&d, &[], NOW).unwrap();
        core.confirm_report(&mut Batch::default(), &d, &again);
        assert_eq!(core.due(&d, &[], NOW), None, "{topic}");
    }
}

#[test]
fn devices_are_reported_in_turn() {
    let mut core = core();
    for name in ["a", "b", "c"] {
        member(&mut core, name);
        published_by(
            &mut core,
            &format!("$hw/events/device/{name}/state/update"),
            r#"{"state":"online"}"#,
        );
    }
    let busy = BTreeSet::from([id("b")]);
    let told: Vec<_> = (0..3).filter_map(|_| core.next_due(&busy)).collect();
    assert_eq!(told, [id("a"), id("c"), id("a")]);
    assert_eq!(core.next_due(&BTreeSet::new()), Some(id("b")));
}

#[test]
fn times_and_versions_at_their_ends() {
    let mut core = core();
    member(&mut core, "default/d");
    let d = id("default/d");
    for at in [i64::MIN, i64::MAX, i64::MIN] {
        let reading = Reading {
            property: "t".into(),
            value: Some(at.to_string()),
            at: Some(at),
            observed: None,
        };
        let (responder, _) = tokio::sync::oneshot::channel();
        let report = Command::Report {
            device: d.clone(),
            readings: vec![reading],
            responder,
        };
        core.command(&mut Batch::default(), report, NOW);
        core.change(&mut Batch::default(), &d, |device, _| {
            device.twins.get_mut("t").unwrap().actual.version.edge = i64::MAX;
        });
    }
    assert_eq!(
        core.device(&d).unwrap().twins["t"].actual.value,
        Some(i64::MIN.to_string())
    );
}

#[test]
fn a_turn_that_was_not_written_is_taken_back() {
    let mut core = core();
    member(&mut core, "default/d");
    let before = core.device(&id("default/d")).unwrap().clone();
    let mut batch = Batch::default();
    core.message(
        &mut batch,
        &Topic::parse("$hw/events/device/default/d/twin/update"),
        br#"{"twin":{"t":{"actual":{"value":"1"}}}}"#,
        NOW,
    );
    core.membership(
        &mut batch,
        json!({"added_devices": [{"id": "default/new"}]}),
        NOW,
    );
    let (responder, mut answer) = tokio::sync::oneshot::channel();
    core.command(
        &mut batch,
        Command::State {
            device: id("default/d"),
            state: "ok".into(),
            responder,
        },
        NOW,
    );
    core.roll_back(batch);
    assert_eq!(core.device(&id("default/d")), Some(&before));
    assert_eq!(core.devices.len(), 1);
    assert_eq!(answer.try_recv().unwrap().unwrap_err().code, INTERNAL);
}
