//! Silence, questions, answers and death, at given instants.

use super::*;

const USUAL: Duration = Duration::from_secs(3);

fn clock() -> impl Fn(u64) -> Instant {
    let start = Instant::now();
    move |milliseconds| start + Duration::from_millis(milliseconds)
}

/// Nothing but one sign of life.
fn once(at: Instant) -> Heard {
    Heard { first: at, last: at }
}

#[test]
fn silence_is_asked_about_and_ends_the_connection_within_three_seconds() {
    let at = clock();
    let mut liveness = Liveness::new(USUAL, at(0));
    assert_eq!(liveness.check(once(at(0)), at(0)), Pulse::Wait(at(1500)));
    assert_eq!(liveness.check(once(at(0)), at(1500)), Pulse::Ask);
    assert_eq!(liveness.check(once(at(0)), at(1500)), Pulse::Wait(at(3000)));
    assert_eq!(liveness.check(once(at(0)), at(3000)), Pulse::Dead);
}

#[test]
fn any_sign_of_life_starts_over() {
    let at = clock();
    let mut liveness = Liveness::new(USUAL, at(0));
    assert_eq!(liveness.check(once(at(0)), at(1600)), Pulse::Ask);
    assert_eq!(liveness.check(once(at(1700)), at(2000)), Pulse::Wait(at(3200)));
    assert_eq!(liveness.check(once(at(1700)), at(3200)), Pulse::Ask);
    assert_eq!(liveness.check(once(at(3300)), at(4699)), Pulse::Wait(at(4800)));
}

#[test]
fn an_answer_in_the_same_instant_is_an_answer() {
    let at = clock();
    let mut liveness = Liveness::new(USUAL, at(0));
    assert_eq!(liveness.check(once(at(0)), at(1500)), Pulse::Ask);
    assert_eq!(liveness.check(once(at(1500)), at(1500)), Pulse::Wait(at(3000)));
    assert_eq!(liveness.check(once(at(1500)), at(3000)), Pulse::Ask, "it is asked again");
}

#[test]
fn a_slow_link_is_given_more_time() {
    let at = clock();
    let mut liveness = Liveness::new(USUAL, at(0));
    assert_eq!(liveness.check(once(at(0)), at(1500)), Pulse::Ask);
    // the answer took 1 s: four times as long is silence that means something
    assert_eq!(liveness.check(once(at(2500)), at(2500)), Pulse::Wait(at(4000)));
    assert_eq!(liveness.check(once(at(2500)), at(4000)), Pulse::Ask);
    assert_eq!(liveness.check(once(at(2500)), at(5600)), Pulse::Wait(at(8000)));
    assert_eq!(liveness.check(once(at(2500)), at(8000)), Pulse::Dead);
}

#[test]
fn a_link_on_which_more_comes_after_an_answer_is_not_slow() {
    let at = clock();
    let mut liveness = Liveness::new(USUAL, at(0));
    assert_eq!(liveness.check(once(at(0)), at(1500)), Pulse::Ask);
    let heard = Heard { first: at(1510), last: at(2900) };
    assert_eq!(liveness.check(heard, at(3000)), Pulse::Wait(at(4400)));
    assert_eq!(liveness.check(heard, at(4400)), Pulse::Ask);
    assert_eq!(liveness.check(heard, at(5900)), Pulse::Dead);
}

#[test]
fn no_link_is_so_slow_that_silence_means_nothing() {
    let at = clock();
    let mut liveness = Liveness::new(Duration::from_secs(12), at(0));
    assert_eq!(liveness.check(once(at(0)), at(1500)), Pulse::Ask);
    assert_eq!(liveness.check(once(at(11_500)), at(11_500)), Pulse::Wait(at(13_000)));
    assert_eq!(liveness.check(once(at(11_500)), at(13_000)), Pulse::Ask);
    assert_eq!(liveness.check(once(at(11_500)), at(26_500)), Pulse::Dead);
}

#[test]
fn who_did_not_listen_heard_nothing() {
    let at = clock();
    let mut liveness = Liveness::new(USUAL, at(0));
    assert_eq!(liveness.check(once(at(0)), at(1500)), Pulse::Ask);
    liveness.listened(at(20_000));
    assert_eq!(liveness.check(once(at(0)), at(20_000)), Pulse::Wait(at(21_500)));
}

#[test]
fn who_was_held_up_asks_before_it_judges() {
    let at = clock();
    let mut liveness = Liveness::new(USUAL, at(0));
    assert_eq!(liveness.check(once(at(0)), at(5000)), Pulse::Ask);
    assert_eq!(liveness.check(once(at(0)), at(5000)), Pulse::Wait(at(6500)));
    assert_eq!(liveness.check(once(at(5100)), at(6500)), Pulse::Wait(at(6600)));
    // held up after the question: asked again, once
    assert_eq!(liveness.check(once(at(5100)), at(6600)), Pulse::Ask);
    assert_eq!(liveness.check(once(at(5100)), at(9000)), Pulse::Ask);
    assert_eq!(liveness.check(once(at(5100)), at(9000)), Pulse::Wait(at(10_500)));
    assert_eq!(liveness.check(once(at(5100)), at(20_000)), Pulse::Dead);
}

#[test]
fn doubt_asks_at_once_but_not_all_the_time() {
    let at = clock();
    let mut liveness = Liveness::new(USUAL, at(0));
    assert!(liveness.doubt(at(100)));
    assert!(!liveness.doubt(at(500)));
    assert!(liveness.doubt(at(600)));
    assert_eq!(liveness.check(once(at(0)), at(700)), Pulse::Wait(at(3000)));
    assert_eq!(liveness.check(once(at(800)), at(900)), Pulse::Wait(at(2300)));
}

#[test]
fn connections_that_fall_silent_at_once_teach_patience() {
    let mut patience = Patience::new();
    let mut after = |silent, lasted| {
        patience.ended(silent, Duration::from_secs(lasted));
        patience.get().as_secs()
    };
    assert_eq!([after(true, 60), after(true, 3), after(true, 6), after(true, 9)], [3, 6, 12, 12]);
    assert_eq!([after(true, 12), after(true, 3), after(false, 1)], [3, 6, 3]);
}
