//! Tests of one device's work, with a clock that the test advances.

use super::*;
use crate::{Kind, Settings};

const SECOND: Duration = Duration::from_secs(1);

fn property(name: &str, desired: Option<&str>) -> Property {
    Property {
        name: name.into(),
        kind: Kind::Float,
        is_read_only: false,
        minimum: String::new(),
        maximum: String::new(),
        unit: String::new(),
        settings: Settings::default(),
        desired: desired.map(str::to_owned),
        collect: SECOND,
        report: 10 * SECOND,
        to_cloud: true,
    }
}

fn device(properties: Vec<Property>) -> Arc<Device> {
    let settings = Settings::default();
    Arc::new(Device {
        namespace: "ns".into(),
        name: "d".into(),
        settings,
        properties,
    })
}

fn reading(value: &str, at: i64, observed: Option<&str>) -> Reading {
    let observed = observed.map(str::to_owned);
    Reading {
        property: "t".into(),
        kind: "float",
        value: value.into(),
        at,
        observed,
    }
}

#[test]
fn a_value_is_read_in_its_cycle_and_reported_in_its_own() {
    let mut work = Work::new(device(vec![property("t", None)]));
    let begun = Instant::now();
    assert_eq!(work.next(begun), Next::Read(0));
    work.read(0, "1".into(), 100, begun);
    let first = vec![reading("1", 100, None)];
    assert_eq!(work.next(begun), Next::Report(first.clone()));
    work.record_reported(&first, true, begun);
    assert_eq!(work.next(begun), Next::Wait(Some(begun + SECOND)));
    for second in 1..10 {
        let now = begun + second * SECOND;
        assert_eq!(work.next(now), Next::Read(0));
        work.read(0, second.to_string(), 100 + i64::from(second), now);
        assert!(
            matches!(work.next(now), Next::Wait(_)),
            "not before its cycle has ended"
        );
    }
    let now = begun + 10 * SECOND;
    work.read(0, "10".into(), 110, now);
    assert_eq!(work.next(now), Next::Report(vec![reading("10", 110, None)]));
}

#[test]
fn a_wanted_value_is_written_once_and_what_came_of_it_reported_at_once() {
    let mut work = Work::new(device(vec![property("t", Some("20"))]));
    let now = Instant::now();
    assert_eq!(work.next(now), Next::Write(0, "20".into()));
    work.wrote(0, "20", false, now);
    assert_eq!(
        work.next(now),
        Next::Read(0),
        "a write that failed holds up nothing"
    );
    work.read(0, "5".into(), 1, now);
    work.record_reported(&[reading("5", 1, None)], true, now);
    assert_eq!(work.next(now), Next::Wait(Some(now + SECOND)));
    let now = now + SECOND;
    assert_eq!(work.next(now), Next::Write(0, "20".into()));
    work.wrote(0, "20", true, now);
    assert_eq!(work.next(now), Next::Read(0));
    work.read(0, "19.9".into(), 2, now);
    assert_eq!(
        work.next(now),
        Next::Report(vec![reading("19.9", 2, Some("20"))])
    );
    // the desired value changes
    work.update(device(vec![property("t", Some("25"))]));
    assert_eq!(work.next(now), Next::Write(0, "25".into()));
    work.wrote(0, "25", true, now);
    assert_eq!(work.next(now), Next::Read(0));
}

#[test]
fn a_report_that_did_not_arrive_is_made_again_with_the_newest_value() {
    let mut work = Work::new(device(vec![property("t", None)]));
    let now = Instant::now();
    work.read(0, "1".into(), 1, now);
    work.record_reported(&[reading("1", 1, None)], false, now);
    let now = now + SECOND;
    work.read(0, "2".into(), 2, now);
    assert_eq!(work.next(now), Next::Report(vec![reading("2", 2, None)]));
    // a value that was read while the report was under way is reported later
    work.read(0, "3".into(), 3, now);
    work.record_reported(&[reading("2", 2, None)], true, now);
    work.read(0, "3".into(), 3, now + 9 * SECOND);
    assert_eq!(
        work.next(now + 10 * SECOND - SECOND / 2),
        Next::Wait(Some(now + 10 * SECOND))
    );
}

#[test]
fn a_device_that_is_slower_than_its_cycles_is_read_in_turn_and_reported() {
    let names = ["a", "b", "c"];
    let mut work = Work::new(device(names.map(|name| property(name, None)).into()));
    let mut now = Instant::now();
    let (mut read, mut reported) = ([0; 3], 0);
    for at in 0..40 {
        match work.next(now) {
            Next::Read(index) => {
                read[index] += 1;
                // all others are due again by then
                now += 2 * SECOND;
                work.read(index, "1".into(), at, now);
            }
            Next::Report(readings) => {
                assert!(
                    read.iter().all(|count| *count > 0),
                    "not before everything was read"
                );
                reported += readings.len();
                work.record_reported(&readings, true, now);
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(reported > names.len(), "{reported}");
    let (least, most) = (read.iter().min().unwrap(), read.iter().max().unwrap());
    assert!(most - least <= 1, "{read:?}");
}

#[test]
fn a_device_that_changes_all_the_time_is_read_and_reported() {
    let wish = |count: i64| {
        let wished = property("a", Some(&count.to_string()));
        device(vec![wished, property("b", None), property("c", None)])
    };
    let mut work = Work::new(wish(0));
    let mut now = Instant::now();
    let (mut read, mut reported) = ([0; 3], 0);
    for at in 0..100 {
        // reading is slower than its cycle
        now += 2 * SECOND;
        match work.next(now) {
            Next::Write(index, value) => work.wrote(index, &value, true, now),
            Next::Read(index) => {
                read[index] += 1;
                work.read(index, "1".into(), at, now);
            }
            Next::Report(readings) => {
                reported += readings.len();
                work.record_reported(&readings, true, now);
            }
            other => panic!("{other:?}"),
        }
        if at % 4 == 3 {
            work.update(wish(at));
        }
    }
    assert!(
        read.iter().all(|count| *count > 5) && reported > 5,
        "{read:?}, {reported}"
    );
}

#[test]
fn only_what_has_changed_is_read_anew() {
    let mut work = Work::new(device(vec![property("a", None), property("b", None)]));
    let now = Instant::now();
    work.read(0, "1".into(), 1, now);
    work.read(1, "1".into(), 1, now);
    let mut shorter = property("b", None);
    shorter.collect = SECOND / 2;
    work.update(device(vec![property("a", None), shorter.clone()]));
    assert_eq!(work.next(now), Next::Read(1));
    work.read(1, "1".into(), 2, now);
    // after a failed write, a new desired value is written at once, and the same one after the pause
    let wish = |value| device(vec![property("a", Some(value)), shorter.clone()]);
    work.update(wish("5"));
    work.wrote(0, "5", false, now);
    work.update(wish("5"));
    assert!(!matches!(work.next(now), Next::Write(..)));
    work.update(wish("6"));
    assert_eq!(work.next(now), Next::Write(0, "6".into()));
}

#[test]
fn what_is_read_only_or_not_for_the_cloud_is_left_alone() {
    let mut own = property("t", Some("20"));
    own.is_read_only = true;
    own.to_cloud = false;
    let mut work = Work::new(device(vec![own]));
    let now = Instant::now();
    assert_eq!(work.next(now), Next::Read(0));
    work.read(0, "1".into(), 1, now);
    assert_eq!(work.next(now), Next::Wait(Some(now + SECOND)));
    assert_eq!(Work::new(device(Vec::new())).next(now), Next::Wait(None));
}
