//! Updates, and both sides under every interleaving and every interruption.

use std::collections::HashSet;

use proptest::prelude::*;
use serde_json::{Value, from_value, json};

use super::{
    super::report::{ReportedTwins, confirm, delta, report},
    *,
};

mod sides;

use sides::{Step, World};

fn twins(json: Value) -> Twins {
    from_value(json).unwrap()
}

fn apply_update(device: &mut Device, json: Value) -> Result<Outcome, String> {
    update(device, PropertyRules::default(), &twins(json), 7).map_err(|refused| refused.reason)
}

#[test]
fn an_update_is_answered_as_edgecore_does() {
    let mut device = Device::default();
    let first = json!({"temp": {"expected": {"value": "20"}, "actual": {"value": "12"}, "metadata": {"type": "int"}}});
    let outcome = apply_update(&mut device, first).unwrap();
    let full = json!({
        "expected": {"value": "20", "metadata": {"timestamp": 7}}, "actual": {"value": "12", "metadata": {"timestamp": 7}},
        "optional": true, "metadata": {"type": "int"},
    });
    assert_eq!(
        serde_json::to_value(&outcome.result).unwrap(),
        json!({"temp": full})
    );
    assert_eq!(
        serde_json::to_value(&outcome.document).unwrap(),
        json!({"temp": {"last": null, "current": full}})
    );
    assert!(outcome.desired);
    let (all, delta_of) = delta(&device).unwrap();
    assert_eq!(
        serde_json::to_value((all, delta_of)).unwrap(),
        json!([{"temp": full}, {"temp": "20"}])
    );
    // the answer has only what was updated, the document everything
    let outcome = apply_update(&mut device, json!({"temp": {"actual": {"value": "20"}}})).unwrap();
    let result = serde_json::to_value(&outcome.result).unwrap();
    assert_eq!(result["temp"].get("expected"), None);
    assert_eq!(
        outcome.document["temp"]
            .last
            .as_ref()
            .unwrap()
            .actual
            .as_ref()
            .unwrap()
            .value
            .as_deref(),
        Some("12")
    );
    assert!(
        !outcome.desired && delta(&device).is_none(),
        "it is as it is wanted"
    );
    let side = &device.twins["temp"];
    assert_eq!(
        (side.expected.version, side.actual.version),
        (Version { cloud: 0, edge: 1 }, Version { cloud: 0, edge: 2 })
    );
}

#[test]
fn numbers_are_compared_as_numbers() {
    for (kind, wanted, found, is_so) in [
        ("float", "21", "21.0", true),
        ("int", "21", "021", true),
        ("float", "21", "22", false),
        ("string", "21", "21.0", false),
        ("boolean", "true", "TRUE", true),
    ] {
        let mut device = Device::default();
        let twin = json!({"t": {"expected": {"value": wanted}, "actual": {"value": found}, "metadata": {"type": kind}}});
        apply_update(&mut device, twin).unwrap();
        assert_eq!(delta(&device).is_none(), is_so, "{kind} {wanted} {found}");
    }
}

#[test]
fn one_bad_property_refuses_the_update() {
    let mut device = Device::default();
    apply_update(
        &mut device,
        json!({"n": {"actual": {"value": "1"}, "metadata": {"type": "int"}}}),
    )
    .unwrap();
    apply_update(&mut device, json!({"must": {"optional": false}})).unwrap();
    let before = device.clone();
    for (bad, why) in [
        (
            json!({"a": {"actual": {"value": "1"}}, "b c": {}}),
            "the name of a property",
        ),
        (
            json!({"a": {"actual": {"value": "1"}}, "n": {"actual": {"value": "x"}}}),
            "n is of type int",
        ),
        (json!({"a": {"actual": {}}}), "the actual of a has no value"),
        (
            json!({"a": {"metadata": {"type": "Updated"}}}),
            "\"Updated\" is no type of a",
        ),
        (json!({"a": null}), "a cannot be deleted: no such property"),
        (
            json!({"must": null}),
            "must cannot be deleted: it is not optional",
        ),
    ] {
        let said = apply_update(&mut device, bad).unwrap_err();
        assert!(said.contains(why), "{said}");
    }
    assert_eq!(device, before);
    let many: Twins = (0..=MAX_PROPERTIES)
        .map(|number| (number.to_string(), Some(Twin::default())))
        .collect();
    assert!(
        update(&mut device, PropertyRules::default(), &many, 7)
            .unwrap_err()
            .reason
            .contains("at most 1024")
    );
}

#[test]
fn properties_are_deleted_and_come_again() {
    let mut device = Device::default();
    apply_update(
        &mut device,
        json!({"a": {"expected": {"value": "1"}, "actual": {"value": "1"}}}),
    )
    .unwrap();
    for gone in [
        json!({"a": null}),
        json!({"a": {"metadata": {"type": "deleted"}}}),
    ] {
        let outcome = apply_update(&mut device, gone).unwrap();
        assert_eq!(outcome.result, twins(json!({"a": null})));
        assert_eq!(outcome.document["a"].current, None);
        let (told, _) = report(&device).unwrap();
        let told = told["a"].clone().unwrap();
        assert_eq!(
            (told.metadata.unwrap().kind.as_str(), told.actual),
            ("deleted", None)
        );
        let outcome = apply_update(
            &mut device,
            json!({"a": {"actual": {"value": "2"}, "metadata": {"type": "int"}}}),
        )
        .unwrap();
        assert_eq!(outcome.document["a"].last, None);
        assert_eq!(
            (device.twins["a"].kind, device.twins["a"].deleted),
            (Kind::Int, false)
        );
    }
    assert_eq!(
        device.twins["a"].actual.version.edge, 5,
        "its versions have gone on"
    );
}

fn wish(device: &mut Device, json: Value) -> (Outcome, Vec<String>) {
    let spec = Spec::of("ns", &from_value(json!({"properties": json})).unwrap());
    apply_spec(
        device,
        PropertyRules {
            spec: Some(&spec),
            model: None,
        },
        &spec,
        9,
    )
}

#[test]
fn the_objects_wish_counts_when_it_changes() {
    let mut device = Device::default();
    let spec = |value: &str| json!([{"name": "t", "desired": {"value": value}}, {"name": "u"}, {"name": "v", "desired": {"value": ""}}]);
    let (outcome, _) = wish(&mut device, spec("21"));
    assert!(outcome.desired);
    assert_eq!(
        device.twins.keys().collect::<Vec<_>>(),
        ["t"],
        "nothing is wanted of the others"
    );
    let expected = |device: &Device| {
        (
            device.twins["t"].expected.value.clone(),
            device.twins["t"].expected.version,
        )
    };
    let at = |cloud, edge| Version { cloud, edge };
    assert_eq!(expected(&device), (Some("21".into()), at(1, 0)));
    apply_update(&mut device, json!({"t": {"expected": {"value": "5"}}})).unwrap();
    let (outcome, _) = wish(&mut device, spec("21"));
    assert_eq!(
        (outcome, expected(&device)),
        (Outcome::default(), (Some("5".into()), at(1, 1))),
        "set at the edge since"
    );
    wish(&mut device, spec("22"));
    assert_eq!(expected(&device), (Some("22".into()), at(2, 1)));
    wish(&mut device, json!([{"name": "t"}]));
    assert_eq!(expected(&device), (None, at(3, 1)));
    wish(&mut device, spec("23"));
    apply_update(&mut device, json!({"t": {"expected": {"value": "6"}}})).unwrap();
    wish(&mut device, json!([]));
    assert_eq!(
        expected(&device),
        (Some("6".into()), at(4, 2)),
        "the edge's own wish stays"
    );
}

#[test]
fn a_wish_that_cannot_be_is_left_out() {
    let model: crds::devices::DeviceModelSpec =
        from_value(json!({"properties": [{"name": "t", "type": "INT", "maximum": "10"}, {"name": "u", "accessMode": "ReadOnly"}]})).unwrap();
    let model = crate::devicetwin::rules::Model::of(&model);
    let spec = json!({"properties": [{"name": "t", "desired": {"value": "11"}}, {"name": "u", "desired": {"value": "1"}}]});
    let spec = Spec::of("ns", &from_value(spec).unwrap());
    let mut device = Device::default();
    let (outcome, faults) = apply_spec(
        &mut device,
        PropertyRules {
            spec: Some(&spec),
            model: Some(&model),
        },
        &spec,
        9,
    );
    assert_eq!(
        (outcome, faults.len(), device.twins.len()),
        (Outcome::default(), 2, 0)
    );
}

#[test]
fn readings_have_their_time_and_the_observed_value() {
    let mut device = Device::default();
    wish(
        &mut device,
        json!([{"name": "t", "desired": {"value": "21"}}]),
    );
    assert!(report(&device).is_none(), "the cloud knows its own wish");
    let reading = |value: &str, observed: Option<&str>| {
        [Reading {
            property: "t".into(),
            value: Some(value.into()),
            at: Some(3),
            observed: observed.map(Into::into),
        }]
    };
    read(
        &mut device,
        PropertyRules::default(),
        &reading("20", Some("21")),
        9,
    )
    .unwrap();
    let (told, proof) = report(&device).unwrap();
    assert_eq!(
        serde_json::to_value(&told["t"]).unwrap(),
        json!({
            "expected": {"value": "21", "metadata": {"timestamp": 9}}, "actual": {"value": "20", "metadata": {"timestamp": 3}},
            "optional": true, "metadata": {"type": "string"},
            "expected_version": {"cloud": 1, "edge": 0}, "actual_version": {"cloud": 0, "edge": 1},
        })
    );
    read(
        &mut device,
        PropertyRules::default(),
        &reading("21", None),
        10,
    )
    .unwrap();
    confirm(&mut device, &proof);
    let (told, proof) = report(&device).unwrap();
    let told = told["t"].clone().unwrap();
    assert_eq!(
        (told.expected, told.actual.unwrap().value.as_deref()),
        (None, Some("21")),
        "only what is newer"
    );
    confirm(&mut device, &proof);
    assert!(report(&device).is_none());
    // the acted-on value is not the next desired one
    apply_update(&mut device, json!({"t": {"expected": {"value": "25"}}})).unwrap();
    let told = report(&device).unwrap().0["t"].clone().unwrap();
    assert_eq!(told.expected.unwrap().value.as_deref(), Some("25"));
    assert!(
        read(
            &mut device,
            PropertyRules::default(),
            &reading("a b", None),
            9
        )
        .is_err()
    );
}

/// Every order of three updates on each side and of deliveries, with the connection interrupted anywhere, as often as possible.
///
/// All reachable states are visited once: what follows a state does not depend on how it was reached.
#[test]
fn both_sides_come_to_the_same_whatever_happens() {
    let mut seen = HashSet::new();
    let mut open = vec![World::new(3, 3, None)];
    let (mut steps, mut ends) = (0, 0);
    while let Some(world) = open.pop() {
        if !seen.insert(world.key()) {
            continue;
        }
        let mut is_end = true;
        for step in Step::ALL {
            let mut next = world.clone();
            if next.step(step) {
                steps += 1;
                // an interruption changes nothing that both sides know
                is_end &= matches!(step, Step::Cut);
                open.push(next);
            }
        }
        if is_end {
            ends += 1;
            world.agree();
        }
    }
    assert_eq!(
        (seen.len(), steps, ends),
        (51_426, 153_232, 84),
        "states, steps and ends of all that can happen"
    );
}

proptest! {
    #[test]
    fn both_sides_come_to_the_same_after_any_story(steps in prop::collection::vec(0..Step::ALL.len(), 0..120)) {
        let mut world = World::new(40, 40, Some(40));
        for step in steps {
            world.step(Step::ALL[step]);
        }
        world.settle();
        world.agree();
    }
}
