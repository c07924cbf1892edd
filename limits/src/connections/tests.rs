//! Which connections are accepted when there are very many.

use super::*;

const LIMITS: ConnectionLimits = ConnectionLimits {
    established: 4,
    reserved: 1,
    pending: 3,
    per_address: 5,
};

fn peer(last: u8) -> Option<SocketAddr> {
    Some(SocketAddr::from(([10, 0, 0, last], 1000)))
}

fn loopback() -> Option<SocketAddr> {
    Some(SocketAddr::from(([127, 0, 0, 1], 1000)))
}

fn evictions(slots: &[ConnectionSlot]) -> Vec<bool> {
    slots
        .iter()
        .map(|slot| slot.evicted.is_cancelled())
        .collect()
}

#[test]
fn of_silent_connections_the_oldest_of_whoever_has_most_goes() {
    let limiter = ConnectionLimiter::new(LIMITS);
    let slots: Vec<_> = [3, 1, 1, 2, 1]
        .map(|last| limiter.accept(peer(last)).unwrap())
        .into();
    assert_eq!(
        evictions(&slots),
        [false, true, true, false, false],
        "the first of all is not of the crowd"
    );
    assert_eq!(limiter.0.lock().counts(), (0, 3));
}

#[test]
fn a_crowd_on_one_address_does_not_keep_the_next_one_out() {
    let limiter = ConnectionLimiter::new(LIMITS);
    let crowd: Vec<_> = (0..100)
        .map(|_| limiter.accept(loopback()).unwrap())
        .collect();
    let newcomer = limiter.accept(loopback()).unwrap();
    let request = newcomer.begin(false).unwrap();
    let more: Vec<_> = (0..100)
        .map(|_| limiter.accept(loopback()).unwrap())
        .collect();
    assert!(!newcomer.evicted.is_cancelled() && evictions(&crowd).into_iter().all(|ended| ended));
    drop((request, more, newcomer, crowd));
    assert_eq!(limiter.0.lock().counts(), (0, 0));
}

#[test]
fn of_established_ones_the_longest_idle_goes_and_places_are_kept_for_the_privileged() {
    let limiter = ConnectionLimiter::new(LIMITS);
    let slots: Vec<_> = (0..3)
        .map(|_| limiter.accept(loopback()).unwrap())
        .collect();
    let mut requests: Vec<_> = slots
        .iter()
        .map(|slot| slot.begin(false).unwrap())
        .collect();
    let other = limiter.accept(loopback()).unwrap();
    assert_eq!(
        other.begin(false).unwrap_err(),
        Full::Server,
        "all are at work, and the last place is kept"
    );
    let master = limiter.accept(loopback()).unwrap();
    let at_work = master.begin(true).unwrap();
    assert_eq!(evictions(&slots), [false; 3]);
    let master_too = limiter.accept(loopback()).unwrap();
    assert!(master_too.begin(true).is_err(), "all are at work");
    drop(requests.remove(1));
    drop(requests.remove(0));
    let deadline = |slot: &ConnectionSlot| slot.deadline(Duration::ZERO, Duration::from_secs(60));
    assert_eq!(
        (deadline(&slots[2]), deadline(&slots[0]).is_some()),
        (None, true)
    );
    let _request = other.begin(false).unwrap();
    assert_eq!(
        evictions(&slots),
        [false, true, false],
        "it was idle before the first"
    );
    drop(at_work);
    let last = limiter.accept(loopback()).unwrap();
    let _last = last.begin(false).unwrap();
    assert_eq!(
        (evictions(&slots), master.evicted.is_cancelled()),
        (vec![true, true, false], false)
    );
}

#[test]
fn an_address_has_its_share_and_loopback_has_all() {
    let limiter = ConnectionLimiter::new(ConnectionLimits {
        established: 100,
        reserved: 0,
        pending: 100,
        per_address: 2,
    });
    let slots: Vec<_> = (0..2).map(|_| limiter.accept(peer(1)).unwrap()).collect();
    let _first = slots[0].begin(false).unwrap();
    let third = limiter.accept(peer(1)).unwrap();
    assert_eq!(
        evictions(&slots),
        [false, true],
        "the silent one goes before the one at work"
    );
    let _third = third.begin(false).unwrap();
    assert_eq!(limiter.accept(peer(1)).unwrap_err(), Full::Address);
    assert!(limiter.accept(peer(2)).is_ok(), "another address");
    let many: Vec<_> = (0..50)
        .map(|_| limiter.accept(loopback()).unwrap())
        .collect();
    assert_eq!(evictions(&many), [false; 50]);
    let unix: Vec<_> = (0..10).map(|_| limiter.accept(None).unwrap()).collect();
    assert_eq!(evictions(&unix), [false; 10]);
}
