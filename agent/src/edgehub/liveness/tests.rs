//! Silence, pings, answers and the end of a connection, at given instants.

use super::*;

const DEFAULT: Duration = Duration::from_secs(3);

fn clock() -> impl Fn(u64) -> Instant {
    let start = Instant::now();
    move |milliseconds| start + Duration::from_millis(milliseconds)
}

/// Data that was received once.
fn once(at: Instant) -> LastReceived {
    LastReceived {
        first: at,
        last: at,
    }
}

#[test]
fn silence_is_pinged_and_ends_the_connection_within_three_seconds() {
    let at = clock();
    let mut liveness = Liveness::new(DEFAULT, at(0));
    assert_eq!(
        liveness.check(once(at(0)), at(0)),
        LivenessAction::Wait(at(1500))
    );
    assert_eq!(liveness.check(once(at(0)), at(1500)), LivenessAction::Ping);
    assert_eq!(
        liveness.check(once(at(0)), at(1500)),
        LivenessAction::Wait(at(3000))
    );
    assert_eq!(liveness.check(once(at(0)), at(3000)), LivenessAction::Dead);
}

#[test]
fn any_sign_of_life_starts_over() {
    let at = clock();
    let mut liveness = Liveness::new(DEFAULT, at(0));
    assert_eq!(liveness.check(once(at(0)), at(1600)), LivenessAction::Ping);
    assert_eq!(
        liveness.check(once(at(1700)), at(2000)),
        LivenessAction::Wait(at(3200))
    );
    assert_eq!(
        liveness.check(once(at(1700)), at(3200)),
        LivenessAction::Ping
    );
    assert_eq!(
        liveness.check(once(at(3300)), at(4699)),
        LivenessAction::Wait(at(4800))
    );
}

#[test]
fn an_answer_in_the_same_instant_is_an_answer() {
    let at = clock();
    let mut liveness = Liveness::new(DEFAULT, at(0));
    assert_eq!(liveness.check(once(at(0)), at(1500)), LivenessAction::Ping);
    assert_eq!(
        liveness.check(once(at(1500)), at(1500)),
        LivenessAction::Wait(at(3000))
    );
    assert_eq!(
        liveness.check(once(at(1500)), at(3000)),
        LivenessAction::Ping,
        "it is asked again"
    );
}

#[test]
fn a_slow_link_is_given_more_time() {
    let at = clock();
    let mut liveness = Liveness::new(DEFAULT, at(0));
    assert_eq!(liveness.check(once(at(0)), at(1500)), LivenessAction::Ping);
    // the answer took 1 s: silence of four times as long ends the connection
    assert_eq!(
        liveness.check(once(at(2500)), at(2500)),
        LivenessAction::Wait(at(4000))
    );
    assert_eq!(
        liveness.check(once(at(2500)), at(4000)),
        LivenessAction::Ping
    );
    assert_eq!(
        liveness.check(once(at(2500)), at(5600)),
        LivenessAction::Wait(at(8000))
    );
    assert_eq!(
        liveness.check(once(at(2500)), at(8000)),
        LivenessAction::Dead
    );
}

#[test]
fn a_link_on_which_more_comes_after_an_answer_is_not_slow() {
    let at = clock();
    let mut liveness = Liveness::new(DEFAULT, at(0));
    assert_eq!(liveness.check(once(at(0)), at(1500)), LivenessAction::Ping);
    let heard = LastReceived {
        first: at(1510),
        last: at(2900),
    };
    assert_eq!(
        liveness.check(heard, at(3000)),
        LivenessAction::Wait(at(4400))
    );
    assert_eq!(liveness.check(heard, at(4400)), LivenessAction::Ping);
    assert_eq!(liveness.check(heard, at(5900)), LivenessAction::Dead);
}

#[test]
fn no_link_is_so_slow_that_silence_means_nothing() {
    let at = clock();
    let mut liveness = Liveness::new(Duration::from_secs(12), at(0));
    assert_eq!(liveness.check(once(at(0)), at(1500)), LivenessAction::Ping);
    assert_eq!(
        liveness.check(once(at(11_500)), at(11_500)),
        LivenessAction::Wait(at(13_000))
    );
    assert_eq!(
        liveness.check(once(at(11_500)), at(13_000)),
        LivenessAction::Ping
    );
    assert_eq!(
        liveness.check(once(at(11_500)), at(26_500)),
        LivenessAction::Dead
    );
}

#[test]
fn silence_while_not_reading_does_not_count() {
    let at = clock();
    let mut liveness = Liveness::new(DEFAULT, at(0));
    assert_eq!(liveness.check(once(at(0)), at(1500)), LivenessAction::Ping);
    liveness.resume(at(20_000));
    assert_eq!(
        liveness.check(once(at(0)), at(20_000)),
        LivenessAction::Wait(at(21_500))
    );
}

#[test]
fn a_stalled_program_pings_before_it_closes_the_connection() {
    let at = clock();
    let mut liveness = Liveness::new(DEFAULT, at(0));
    assert_eq!(liveness.check(once(at(0)), at(5000)), LivenessAction::Ping);
    assert_eq!(
        liveness.check(once(at(0)), at(5000)),
        LivenessAction::Wait(at(6500))
    );
    assert_eq!(
        liveness.check(once(at(5100)), at(6500)),
        LivenessAction::Wait(at(6600))
    );
    // stalled after the ping: pinged again, once
    assert_eq!(
        liveness.check(once(at(5100)), at(6600)),
        LivenessAction::Ping
    );
    assert_eq!(
        liveness.check(once(at(5100)), at(9000)),
        LivenessAction::Ping
    );
    assert_eq!(
        liveness.check(once(at(5100)), at(9000)),
        LivenessAction::Wait(at(10_500))
    );
    assert_eq!(
        liveness.check(once(at(5100)), at(20_000)),
        LivenessAction::Dead
    );
}

#[test]
fn doubt_asks_at_once_but_not_all_the_time() {
    let at = clock();
    let mut liveness = Liveness::new(DEFAULT, at(0));
    assert!(liveness.ping_early(at(100)));
    assert!(!liveness.ping_early(at(500)));
    assert!(liveness.ping_early(at(600)));
    assert_eq!(
        liveness.check(once(at(0)), at(700)),
        LivenessAction::Wait(at(3000))
    );
    assert_eq!(
        liveness.check(once(at(800)), at(900)),
        LivenessAction::Wait(at(2300))
    );
}

#[test]
fn connections_that_fall_silent_at_once_teach_patience() {
    let mut silence_limit = SilenceLimit::new();
    let mut after = |silent, lasted| {
        silence_limit.record_end(silent, Duration::from_secs(lasted));
        silence_limit.get().as_secs()
    };
    assert_eq!(
        [
            after(true, 60),
            after(true, 3),
            after(true, 6),
            after(true, 9)
        ],
        [3, 6, 12, 12]
    );
    assert_eq!(
        [after(true, 12), after(true, 3), after(false, 1)],
        [3, 6, 3]
    );
}
