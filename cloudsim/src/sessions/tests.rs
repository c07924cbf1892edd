//! The table of sessions, alone and with those of other replicas.

use tokio_util::sync::CancellationToken;
use wire::instance::{Instance, TAKEN_OVER};

use super::*;

fn session_request(sessions: &Sessions, node: &str, replica: usize) -> SessionRequest {
    SessionRequest {
        node: node.to_owned(),
        sequence: sessions.next_sequence(),
        address: ([127, 0, 0, 1], 1).into(),
        transport: Transport::WebSocket,
        replica,
        instance: None,
        new_certificate: None,
        certificate: None,
    }
}

/// Two agents of one name: the one that started later has the session; the other one is told from where, and does not get it back while
/// that one is connected.
#[test]
fn two_agents_of_one_name_do_not_take_turns() {
    let (sessions, parent) = (Sessions::default(), CancellationToken::new());
    let run = |id: &str| Instance::new(id, "2026-11-26T16:00:00Z");
    let from = |id: &str, port| SessionRequest {
        instance: run(id),
        address: ([10, 0, 0, 7], port).into(),
        ..session_request(&sessions, "edge-1", 0)
    };
    let admit = |id: &str, port: u16| {
        sessions.admit("edge-1", run(id).as_ref(), ([10, 0, 0, 7], port).into())
    };
    admit("a", 1).unwrap();
    let first = sessions.begin(from("a", 1), 9, &parent).unwrap();
    admit("a", 1).unwrap();
    admit("b", 2).unwrap();
    let second = sessions.begin(from("b", 2), 9, &parent).unwrap();
    assert!(first.token.is_cancelled());
    let (code, words) = first.close_reason();
    assert_eq!(u16::from(code), TAKEN_OVER);
    assert!(
        words.contains("10.0.0.7:2, started 2026-11-26T16:00:00Z") && words.len() < 120,
        "{words}"
    );
    for _ in 0..2 {
        let refused = admit("a", 3).unwrap_err();
        assert!(
            refused.contains("10.0.0.7:2, started 2026-11-26T16:00:00Z"),
            "{refused}"
        );
    }
    assert!(!second.token.is_cancelled());
    let listed = sessions.list();
    let rival = listed[0].rival.as_ref().unwrap();
    assert_eq!((rival.address.port(), rival.refused), (3, 2));
    assert_eq!(listed[0].started.as_deref(), Some("2026-11-26T16:00:00Z"));
    // a second agent that has gone is no obstacle
    drop((first, second));
    admit("a", 3).unwrap();
    let again = sessions.begin(from("a", 3), 9, &parent).unwrap();
    assert!(sessions.list()[0].rival.is_none());
    // EdgeCore does not send its run
    sessions
        .admit("edge-1", None, ([10, 0, 0, 7], 4).into())
        .unwrap();
    drop(again);
}

/// Every order in which two sessions of a node can begin and end: the one that was requested last stays.
#[test]
fn the_session_asked_for_last_stays_in_whatever_order_they_begin_and_end() {
    #[derive(Clone, Copy, PartialEq)]
    enum Step {
        Begin(usize),
        End(usize),
    }
    use Step::{Begin, End};
    let orders: [&[Step]; 6] = [
        &[Begin(0), Begin(1), End(0)],
        &[Begin(1), Begin(0), End(0)],
        &[Begin(0), End(0), Begin(1)],
        &[Begin(1), Begin(0)],
        &[Begin(0), Begin(1)],
        &[Begin(1), End(0), Begin(0), End(0)],
    ];
    for (number, order) in orders.into_iter().enumerate() {
        let (sessions, parent) = (Sessions::default(), CancellationToken::new());
        // the two ask one after the other, at different replicas
        let asked = [0, 1].map(|replica| session_request(&sessions, "edge-1", replica));
        let mut running: [Option<Session>; 2] = [None, None];
        for step in order {
            match *step {
                Begin(which) => {
                    running[which] = sessions.begin(asked[which].clone(), 1, &parent).ok()
                }
                End(which) => running[which] = None,
            }
        }
        let newer = running[1]
            .as_ref()
            .expect("the newer one was never refused");
        assert!(!newer.token.is_cancelled(), "order {number}");
        assert!(
            running[0]
                .as_ref()
                .is_none_or(|older| older.token.is_cancelled()),
            "order {number}"
        );
        let listed: Vec<usize> = sessions
            .list()
            .iter()
            .map(|session| session.replica)
            .collect();
        assert_eq!(listed, [2], "order {number}");
    }
}

#[test]
fn an_older_session_that_comes_late_is_refused() {
    let (sessions, parent) = (Sessions::default(), CancellationToken::new());
    let (older, newer) = (
        session_request(&sessions, "edge-1", 0),
        session_request(&sessions, "edge-1", 0),
    );
    let newer = sessions.begin(newer, 9, &parent).unwrap();
    assert_eq!(
        sessions.begin(older, 9, &parent).map(drop),
        Err(SessionRefusal::Superseded)
    );
    assert!(!newer.token.is_cancelled());
}

#[test]
fn a_full_hub_takes_the_nodes_that_it_has() {
    let (sessions, parent) = (Sessions::default(), CancellationToken::new());
    let first = sessions
        .begin(session_request(&sessions, "edge-1", 0), 1, &parent)
        .unwrap();
    let full = sessions.begin(session_request(&sessions, "edge-2", 0), 1, &parent);
    assert_eq!(full.map(drop), Err(SessionRefusal::TooMany));
    let again = sessions
        .begin(session_request(&sessions, "edge-1", 0), 1, &parent)
        .unwrap();
    assert!(first.token.is_cancelled());
    drop(again);
    assert!(!sessions.has("edge-1"));
    assert!(
        sessions
            .begin(session_request(&sessions, "edge-2", 0), 1, &parent)
            .is_ok()
    );
}

fn run(id: &str) -> Option<Instance> {
    Instance::new(id, "2026-11-26T16:00:00Z")
}

fn admit(sessions: &Sessions, id: &str) -> Result<(), String> {
    sessions.admit("edge-1", run(id).as_ref(), ([10, 0, 0, 7], 1).into())
}

fn begin(sessions: &Sessions, id: &str) -> Session {
    let session_request = SessionRequest {
        node: "edge-1".to_owned(),
        sequence: sessions.next_sequence(),
        address: ([10, 0, 0, 7], 1).into(),
        transport: Transport::WebSocket,
        replica: 0,
        instance: run(id),
        new_certificate: None,
        certificate: None,
    };
    sessions
        .begin(session_request, 9, &CancellationToken::new())
        .unwrap()
}

/// The record of a replica.
fn replica_record(sessions: &Sessions, replica: &str) -> Vec<RemoteSession> {
    let runs = sessions.runs();
    let session = |session: NodeSession| RemoteSession {
        run: runs.get(&session.node).and_then(|run| Instance::parse(run)),
        node: session.node,
        since: session.since,
        replica: replica.to_owned(),
    };
    sessions.list().into_iter().map(session).collect()
}

#[test]
fn two_agents_of_one_name_at_two_replicas_do_not_take_turns() {
    let [one, other, third] = [(); 3].map(|()| Sessions::default());
    admit(&one, "a").unwrap();
    let first = begin(&one, "a");
    other.set_remote(replica_record(&one, "one"));
    third.set_remote(replica_record(&one, "one"));
    admit(&other, "b").unwrap();
    let second = begin(&other, "b");
    one.set_remote(replica_record(&other, "other"));
    other.set_remote(replica_record(&one, "one"));
    third.set_remote([replica_record(&one, "one"), replica_record(&other, "other")].concat());
    assert!(first.token.is_cancelled() && !second.token.is_cancelled());
    let (code, words) = first.close_reason();
    assert_eq!(
        (u16::from(code), words.contains("replica other")),
        (TAKEN_OVER, true),
        "{words}"
    );
    drop(first);
    for (sessions, place) in [
        (&one, "replica other"),
        (&other, "10.0.0.7"),
        (&third, "replica other"),
    ] {
        let refused = admit(sessions, "a").unwrap_err();
        assert!(refused.contains(place), "{refused}");
        admit(sessions, "b").unwrap();
        admit(sessions, "c").unwrap();
    }
    // the other one has gone
    drop(second);
    one.set_remote(replica_record(&other, "other"));
    admit(&one, "a").unwrap();
}

#[test]
fn a_node_that_has_gone_to_another_replica_leaves_its_old_session_there() {
    let [one, other] = [(); 2].map(|()| Sessions::default());
    let (first, second) = (begin(&one, "a"), begin(&other, "a"));
    one.set_remote(replica_record(&other, "other"));
    other.set_remote(replica_record(&one, "one"));
    assert!(first.token.is_cancelled() && !second.token.is_cancelled());
    assert_ne!(u16::from(first.close_reason().0), TAKEN_OVER);
}
