//! Which nodes a fault concerns.

use super::*;

fn delayed_conditions(millis: u64) -> Conditions {
    Conditions {
        delay: Some(Period::millis(millis)),
        ..Conditions::default()
    }
}

fn delay(faults: &Faults, node: &str) -> Option<u128> {
    faults
        .on(node)?
        .conditions()
        .delay
        .map(|delay| delay.get().as_millis())
}

#[test]
fn a_nodes_own_conditions_count_in_place_of_those_of_all() {
    let faults = Faults::new(1);
    let one = FaultTarget::Node("edge-1".to_owned());
    assert_eq!(delay(&faults, "edge-1"), None);
    faults
        .set(&FaultTarget::All, delayed_conditions(5))
        .unwrap();
    faults.set(&one, delayed_conditions(7)).unwrap();
    assert_eq!(
        (delay(&faults, "edge-1"), delay(&faults, "edge-2")),
        (Some(7), Some(5))
    );
    // its own conditions, which have no faults
    faults.set(&one, Conditions::default()).unwrap();
    assert_eq!(
        (delay(&faults, "edge-1"), delay(&faults, "edge-2")),
        (None, Some(5))
    );
    faults.clear(&one);
    assert_eq!(delay(&faults, "edge-1"), Some(5));
    faults.clear_everything();
    let active = faults.active();
    assert_eq!((active.seed, active.faults), (1, Vec::new()));
    assert_eq!(active.past.len(), 3);
}

#[test]
fn what_is_impossible_changes_nothing() {
    let faults = Faults::new(1);
    faults
        .set(&FaultTarget::All, delayed_conditions(5))
        .unwrap();
    let impossible = Conditions {
        drop: Some(7.0),
        ..Conditions::default()
    };
    assert!(faults.set(&FaultTarget::All, impossible).is_err());
    assert_eq!(delay(&faults, "edge-1"), Some(5));
}

#[test]
fn repeated_kinds_are_stored_once() {
    let faults = Faults::new(1);
    let repeated = Conditions {
        kinds: ["pod", "secret", "pod"].map(str::to_owned).to_vec(),
        ..delayed_conditions(5)
    };
    faults.add(&FaultTarget::All, repeated).unwrap();
    let faults = faults.active().faults;
    assert_eq!(faults[0].conditions.kinds, ["pod", "secret"]);
}

#[tokio::test]
async fn nodes_stay_connected_when_all_faults_are_removed() {
    let faults = Faults::new(1);
    let _session = session_link(&faults, "edge-1");
    faults.clear_everything();
    let sender = faults.clone();
    let sending = tokio::spawn(async move { sender.send_hostile("edge-1", Shape::Null).await });
    let mut changes = faults.changes();
    while faults.0.state.lock().hostile["edge-1"].is_empty() {
        changes.changed().await.unwrap();
    }
    sending.abort();
}

#[tokio::test]
async fn a_hostile_message_needs_a_session_and_does_not_outlive_it() {
    let faults = Faults::new(1);
    let nobody = faults.send_hostile("edge-1", Shape::Null).await;
    assert_eq!(
        nobody,
        Err(SendHostileError::NotConnected("edge-1".to_owned()))
    );
    let older = session_link(&faults, "edge-1");
    let sender = faults.clone();
    let sending = tokio::spawn(async move { sender.send_hostile("edge-1", Shape::Null).await });
    let mut changes = faults.changes();
    while faults.0.state.lock().hostile["edge-1"].is_empty() {
        changes.changed().await.unwrap();
    }
    // a newer session begins, and the older one ends
    let newer = session_link(&faults, "edge-1");
    drop(older);
    assert_eq!(
        sending.await.unwrap(),
        Err(SendHostileError::NotWritten("edge-1".to_owned()))
    );
    assert!(
        faults.0.state.lock().hostile.contains_key("edge-1"),
        "the newer one is there"
    );
    drop(newer);
    assert!(faults.0.state.lock().hostile.is_empty());
}

#[tokio::test(start_paused = true)]
async fn faults_act_together_and_each_ends_at_its_time() {
    let faults = Faults::new(1);
    let target = FaultTarget::Node("edge-1".to_owned());
    let read = |value| serde_json::from_value::<Conditions>(value).unwrap();
    faults
        .add(&target, read(serde_json::json!({"delay": "1s"})))
        .unwrap();
    let drop = serde_json::json!({"drop": 0.5, "for": "10s"});
    let drop = faults.add(&target, read(drop)).unwrap();
    let shorter = serde_json::json!({"delay": "2s", "for": "20s"});
    faults.add(&target, read(shorter)).unwrap();
    let expired = serde_json::json!({"certificate": "expired", "for": "5s"});
    let refused = faults.add(&target, read(expired.clone()));
    assert!(matches!(refused, Err(InvalidConditions::OneNode { .. })));
    faults.add(&FaultTarget::All, read(expired)).unwrap();
    let state = |faults: &Faults| {
        let conditions = faults.on("edge-1").unwrap().conditions();
        let delay = conditions.delay.unwrap().get().as_secs();
        (delay, conditions.drop, *faults.certificate().borrow())
    };
    assert_eq!(state(&faults), (2, Some(0.5), Certificate::Expired));
    for (seconds, expected) in [
        (6, (2, Some(0.5), Certificate::Genuine)),
        (5, (2, None, Certificate::Genuine)),
        (10, (1, None, Certificate::Genuine)),
    ] {
        tokio::time::advance(Duration::from_secs(seconds)).await;
        faults.end_expired(Instant::now());
        assert_eq!(state(&faults), expected);
    }
    let active = faults.active();
    assert_eq!((active.faults.len(), active.past.len()), (1, 3));
    assert!(active.past.iter().all(|one| one.until.is_some()));
    assert!(!faults.remove(&target, drop) && faults.remove(&target, active.faults[0].id));
    assert!(faults.on("edge-1").is_none());
}

#[tokio::test]
async fn every_node_can_have_faults_and_no_target_too_many() {
    let faults = Faults::new(1);
    let names: Vec<_> = (0..2_000).map(|number| format!("edge-{number}")).collect();
    names.iter().for_each(|name| faults.cut_link(name));
    let cut = |name: &String| {
        let link = faults.on(name).map(|faults| faults.conditions().link);
        link == Some(Some(Link::Cut))
    };
    assert!(names.iter().all(cut));
    names.iter().for_each(|name| faults.restore(name));
    assert!(faults.active().faults.is_empty());
    for target in [FaultTarget::All, FaultTarget::Node("edge-1".to_owned())] {
        let add = || faults.add(&target, Conditions::link(Link::Cut));
        for _ in 0..conditions::MAX_FAULTS_OF_TARGET {
            add().unwrap();
        }
        let refused = add().unwrap_err().to_string();
        assert!(refused.contains("this target has 256 faults"), "{refused}");
    }
}
