//! Two players of one recording, each as the other side of the other, in virtual time.

use std::{collections::VecDeque, time::Duration};

use record::Side;
use serde_json::json;
use wire::{Message, Upstream};

use crate::{
    Next, Outcome, Plan, PlayOptions, Player, Script, Sort,
    tests::{script, session},
};

const START: u64 = 1_800_000_000_000_000_000;

fn player(script: &Script, side: Side, speed: Option<f64>) -> Player {
    let options = PlayOptions {
        node: "edge-9".to_owned(),
        speed,
        patience: Duration::from_secs(10),
        started: START,
    };
    Player::new(Plan::new(script, side).unwrap(), options)
}

/// Lets two players talk until both have ended. Returns the outcomes, the messages, and the time that passed.
fn play(mut players: [Player; 2]) -> ([Outcome; 2], Vec<(usize, Message)>, Duration) {
    let mut now = Duration::ZERO;
    let mut inboxes = [VecDeque::new(), VecDeque::new()];
    let mut all = Vec::new();
    // a replay that does not end is found here
    for _ in 0..100_000 {
        let mut wait = Vec::new();
        let mut is_idle = true;
        for which in 0..2 {
            let mut out = Vec::new();
            if let Some(message) = inboxes[which].pop_front() {
                out = players[which].receive(now, message).unwrap();
                is_idle = false;
            } else {
                match players[which].next(now).unwrap() {
                    Next::Send(_, message) => out.push(*message),
                    Next::Wait(until) => wait.push(until),
                    Next::Reconnect => {}
                    Next::Done => continue,
                }
                is_idle &= !wait.is_empty() && out.is_empty();
            }
            for message in out {
                all.push((which, message.clone()));
                inboxes[1 - which].push_back(message);
                is_idle = false;
            }
        }
        if is_idle && inboxes.iter().all(VecDeque::is_empty) {
            match wait.into_iter().min() {
                Some(until) => now = until.max(now + Duration::from_millis(1)),
                None => return (players.map(Player::finish), all, now),
            }
        }
    }
    panic!("the replay does not end");
}

fn replay(edge: &Script, cloud: &Script) -> ([Outcome; 2], Vec<(usize, Message)>, Duration) {
    play([
        player(edge, Side::Edge, None),
        player(cloud, Side::Cloud, None),
    ])
}

#[test]
fn both_sides_of_a_recording_play_it_again() {
    let script = script("edge-1", &session());
    let (outcomes, messages, took) = replay(&script, &script);
    for outcome in outcomes {
        let text = outcome.comparison.to_text(["recording", "replay"]);
        assert!(outcome.comparison.is_same(), "{text}");
        assert!(outcome.unsent.is_empty());
    }
    assert_eq!(messages.len(), 10);
    assert_eq!(took, Duration::ZERO);
    for (_, message) in &messages {
        let text = wire::json::encode(message);
        assert!(!text.contains("edge-1"), "another name: {text}");
        assert!(!text.contains("2026-11-29T12:35"), "another time: {text}");
        assert!(
            !session()
                .iter()
                .any(|(_, old)| old.header.msg_id == message.header.msg_id)
        );
    }
}

#[test]
fn the_recorded_speed_is_kept() {
    let script = script("edge-1", &session());
    let edge = player(&script, Side::Edge, Some(1.0));
    let (outcomes, _, took) = play([edge, player(&script, Side::Cloud, None)]);
    assert!(outcomes.iter().all(|outcome| outcome.comparison.is_same()));
    // between the first message of the edge and the last one that is no answer
    assert_eq!(took, Duration::from_millis(5));
}

#[test]
fn uids_of_the_other_side_are_used() {
    let recorded = session();
    let (old, new) = (
        "0d9a4d3e-9d6a-4c1c-a1fb-0242ac120002",
        "0d9a4d3e-9d6a-4c1c-a1fb-999999999999",
    );
    let text =
        serde_json::to_string(&recorded.iter().map(|(_, one)| one).collect::<Vec<_>>()).unwrap();
    let changed: Vec<Message> =
        serde_json::from_str(&text.replace(old, new).replace("web-x7k2p", "web-99999")).unwrap();
    let changed: Vec<(Side, Message)> = recorded
        .iter()
        .map(|(from, _)| *from)
        .zip(changed)
        .collect();
    let (outcomes, messages, _) = replay(&script("edge-1", &recorded), &script("edge-1", &changed));
    let text = outcomes[0].comparison.to_text(["recording", "replay"]);
    assert!(outcomes[0].comparison.is_same(), "{text}");
    for (which, message) in messages {
        let text = wire::json::encode(&message);
        assert!(
            !text.contains(old) && !text.contains("web-x7k2p"),
            "{which}: {text}"
        );
    }
}

#[test]
fn what_the_other_side_does_differently_is_named() {
    let recorded = session();
    let whole = script("edge-1", &recorded);
    let mut other = recorded.clone();
    other[7].1.content["spec"]["containers"][0]["image"] = json!("nginx:2");
    let ([edge, _], _, _) = replay(&whole, &script("edge-1", &other));
    let first = &edge.comparison.differences[0];
    assert_eq!(
        (first.sort, first.kind, first.first),
        (Sort::Content, "pod", Some(8))
    );
    assert_eq!(first.changes[0].path, ".content.spec.containers[0].image");
    assert_eq!(edge.comparison.count(), 1);
    // an answer that says something else
    let mut other = recorded.clone();
    other[2].1.content = json!({"Object": null, "Err": {"ErrStatus": {"code": 403}}});
    let ([edge, _], _, _) = replay(&whole, &script("edge-1", &other));
    let first = &edge.comparison.differences[0];
    assert_eq!((first.kind, first.answers), ("node-response", Some(2)));
}

#[test]
fn what_depends_on_a_missing_message_is_not_sent() {
    let recorded = session();
    // the cloud has no such pod
    let less: Vec<_> = recorded[..3].to_vec();
    let ([edge, _], _, took) = replay(&script("edge-1", &recorded), &script("edge-1", &less));
    assert_eq!(edge.unsent, [6, 7], "status and event");
    let missing: Vec<_> = edge
        .comparison
        .differences
        .iter()
        .map(|one| (one.sort, one.first))
        .collect();
    assert_eq!(
        missing,
        [
            (Sort::Missing, Some(4)),
            (Sort::Missing, Some(8)),
            (Sort::Missing, Some(10))
        ]
    );
    assert_eq!(
        took,
        Duration::from_secs(20),
        "one wait for the pod, one for the rest"
    );
}

#[test]
fn a_side_that_never_answers_does_not_hang_a_replay() {
    let mut many = Vec::new();
    for number in 0..500 {
        let object = wire::Downstream::Object {
            origin: wire::Source::EdgeController,
            change: wire::Change::Insert,
            path: format!("default/pod/p{number}").into(),
            object: json!({"metadata": {"name": format!("p{number}"), "uid": Message::new_id()}}),
        };
        let object = object.into_message(1);
        let patch = object.content["metadata"].clone();
        let patch = json!({"metadata": patch, "status": {}});
        many.push((Side::Cloud, object));
        many.push((
            Side::Edge,
            Upstream::pod_patch("default", &format!("p{number}"), patch.to_string())
                .into_message(2),
        ));
    }
    let mut edge = player(&script("edge-1", &many), Side::Edge, None);
    let mut now = Duration::ZERO;
    let mut waits = 0;
    loop {
        match edge.next(now).unwrap() {
            Next::Wait(until) => (now, waits) = (until, waits + 1),
            Next::Done => break,
            other => panic!("{other:?}"),
        }
    }
    assert!(
        waits <= 22 && now < Duration::from_secs(220),
        "{waits} waits, {now:?}"
    );
    assert_eq!(edge.finish().unsent.len(), 500);
}

#[test]
fn a_repeated_question_gets_the_same_answer_and_unknown_objects_are_acknowledged() {
    let script = script("edge-1", &session());
    let mut cloud = player(&script, Side::Cloud, None);
    let mut question = session()[1].1.clone();
    question.route.resource = "null/node/edge-9".into();
    let again = Message::new(question.route.clone(), question.content.clone(), 1);
    let first = cloud.receive(Duration::ZERO, question.clone()).unwrap();
    let second = cloud.receive(Duration::ZERO, again.clone()).unwrap();
    assert_eq!(first[0].header.parent_msg_id, question.header.msg_id);
    assert_eq!(second[0].header.parent_msg_id, again.header.msg_id);
    assert_eq!(first[0].content, second[0].content);
    let mut edge = player(&script, Side::Edge, None);
    let mut unknown = session()[3].1.clone();
    unknown.route.resource = "default/pod/other".into();
    let replies = edge.receive(Duration::ZERO, unknown.clone()).unwrap();
    assert_eq!(replies[0].header.parent_msg_id, unknown.header.msg_id);
}
