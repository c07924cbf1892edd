//! How endpoints are chosen, with chance and time given.

use std::{collections::BTreeSet, net::SocketAddr};

use super::*;

fn endpoints(numbers: impl IntoIterator<Item = u8>) -> Vec<EndpointAddress> {
    numbers
        .into_iter()
        .map(|number| SocketAddr::from(([10, 88, 0, number], 80)).into())
        .collect()
}

fn client(number: u8) -> IpAddr {
    [10, 88, 1, number].into()
}

const AFFINE: Policy = Policy {
    balancing: Strategy::Random,
    affinity: Some(Duration::from_secs(100)),
};

#[test]
fn random_takes_each_alike() {
    let (mut balancer, three, now) = (Balancer::default(), endpoints([1, 2, 3]), Instant::now());
    let mut chosen = |chance| balancer.choose(&three, Policy::default(), client(1), now, chance);
    let firsts: Vec<_> = (0..6).map(|chance| chosen(chance)[0].clone()).collect();
    assert_eq!(
        firsts,
        endpoints([1, 2, 3, 1, 2, 3]),
        "row 1: each by the same share of chances"
    );
    assert_eq!(
        chosen(1),
        endpoints([2, 3, 1]),
        "the others are tried after it"
    );
    assert_eq!(
        balancer.choose(&[], Policy::default(), client(1), now, 7),
        [],
        "row 2"
    );
}

#[test]
fn not_more_are_tried_than_is_useful() {
    let many = endpoints(0..50);
    let chosen = Balancer::default().choose(&many, Policy::default(), client(1), Instant::now(), 0);
    assert_eq!(chosen, endpoints([0, 1, 2, 3]));
}

#[test]
fn round_robin_takes_one_after_the_other() {
    let (mut balancer, now) = (Balancer::default(), Instant::now());
    let policy = Policy {
        balancing: Strategy::RoundRobin,
        affinity: None,
    };
    let mut firsts = |numbers: &[u8], times: usize| {
        let all = endpoints(numbers.iter().copied());
        (0..times)
            .map(|_| balancer.choose(&all, policy, client(1), now, 9)[0].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(firsts(&[1, 2, 3], 4), endpoints([1, 2, 3, 1]));
    assert_eq!(
        firsts(&[1, 2], 3),
        endpoints([1, 2, 1]),
        "one has gone, and it goes on"
    );
}

#[test]
fn consistent_hash_moves_no_clients_but_those_of_what_has_gone() {
    let (mut balancer, now) = (Balancer::default(), Instant::now());
    let policy = Policy {
        balancing: Strategy::ConsistentHash,
        affinity: None,
    };
    let five = endpoints(1..=5);
    let mut of = |all: &[EndpointAddress], number| {
        balancer.choose(all, policy, client(number), now, usize::from(number))[0].clone()
    };
    let before: Vec<_> = (0..=255).map(|number| of(&five, number)).collect();
    assert_eq!(
        before,
        (0..=255)
            .map(|number| of(&five, number))
            .collect::<Vec<_>>(),
        "always the same"
    );
    assert_eq!(
        before.iter().collect::<BTreeSet<_>>().len(),
        5,
        "all are used"
    );
    let four = endpoints(1..=4);
    for number in 0..=255 {
        let (then, now) = (before[usize::from(number)].clone(), of(&four, number));
        assert!(then == now || then == five[4], "{number}: {then} {now}");
    }
}

#[test]
fn a_client_keeps_its_endpoint() {
    let (mut balancer, three, begun) = (Balancer::default(), endpoints([1, 2, 3]), Instant::now());
    let at = |seconds: u64| begun + Duration::from_secs(seconds);
    balancer.record_reached(AFFINE, client(1), three[1].clone(), begun);
    let first = |balancer: &mut Balancer, number, seconds, all: &[EndpointAddress]| {
        balancer.choose(all, AFFINE, client(number), at(seconds), 0)[0].clone()
    };
    assert_eq!(first(&mut balancer, 1, 99, &three), three[1], "row 49");
    assert_eq!(
        first(&mut balancer, 2, 0, &three),
        three[0],
        "row 49: another client"
    );
    assert_eq!(
        first(&mut balancer, 1, 100, &three),
        three[0],
        "row 50: it has expired"
    );
    balancer.record_reached(AFFINE, client(1), three[1].clone(), at(50));
    assert_eq!(
        first(&mut balancer, 1, 149, &three),
        three[1],
        "row 49: each connection begins its time anew"
    );
    let two = endpoints([1, 3]);
    assert_eq!(
        first(&mut balancer, 1, 60, &two),
        three[0],
        "row 51: its endpoint takes none any more"
    );
    balancer.record_reached(AFFINE, client(1), three[2].clone(), at(60));
    assert_eq!(
        first(&mut balancer, 1, 61, &three),
        three[2],
        "row 51: it stays with the new one"
    );
}

#[test]
fn clients_that_are_kept_are_bounded() {
    let (mut balancer, one, begun) = (
        Balancer::default(),
        endpoints([1])[0].clone(),
        Instant::now(),
    );
    let client = |number: usize| IpAddr::from(u32::try_from(number).unwrap().to_be_bytes());
    for number in 0..=MAX_AFFINE_CLIENTS {
        balancer.record_reached(
            AFFINE,
            client(number),
            one.clone(),
            begun + Duration::from_millis(number as u64),
        );
    }
    assert_eq!(balancer.clients.len(), MAX_AFFINE_CLIENTS);
    assert!(
        !balancer.clients.contains_key(&client(0)),
        "who came longest ago has made room"
    );
    balancer.record_reached(Policy::default(), client(1), one, begun);
    assert!(
        balancer.clients.is_empty(),
        "the Service keeps none any more"
    );
}

#[test]
fn what_was_not_reached_is_tried_last_for_a_while() {
    let (mut balancer, three, begun) = (Balancer::default(), endpoints([1, 2, 3]), Instant::now());
    balancer.record_unreachable(three[0].clone(), begun);
    let mut chosen = |seconds| {
        let now = begun + Duration::from_secs(seconds);
        balancer.choose(&three, Policy::default(), client(1), now, 0)
    };
    assert_eq!(chosen(4), endpoints([2, 3, 1]));
    assert_eq!(chosen(5), endpoints([1, 2, 3]));
}
