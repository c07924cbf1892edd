//! Tables of the specification's rows.

use super::*;
use crate::edgemesh::dns::tests::snapshot;

fn ask(snapshot: &Snapshot, name: &str, kind: &str) -> Answer {
    let zone = Zone::new("cluster.local").unwrap();
    answer(
        snapshot,
        &zone,
        &Name::from_ascii(name).unwrap(),
        kind.parse().unwrap(),
    )
}

/// What is answered, in words: the records, sorted, or what there is instead.
fn words(answer: Answer) -> String {
    let found = match answer {
        Answer::Authoritative(found) => found,
        Answer::Forward => return "elsewhere".into(),
        Answer::NotSynced => return "unready".into(),
    };
    let mut words: Vec<String> = found
        .answers
        .iter()
        .map(|record| format!("{} {}", record.record_type(), record.data))
        .collect();
    if !matches!(found.outcome, Outcome::Alias(_)) {
        words.sort();
    }
    match found.outcome {
        Outcome::Data => {}
        Outcome::NoData => words.push("NODATA".into()),
        Outcome::NoName => words.push("NXDOMAIN".into()),
        Outcome::Alias(name) => words.push(format!("then {name}")),
    }
    words.join("; ")
}

/// A name, the type that is asked for, and what is answered.
const ROWS: &[(&str, &str, &str)] = &[
    // a Service with addresses
    ("web.shop.svc.cluster.local.", "A", "A 10.96.0.10"),
    ("WEB.Shop.SVC.Cluster.LOCAL.", "A", "A 10.96.0.10"),
    ("web.shop.svc.cluster.local.", "AAAA", "NODATA"),
    ("web.shop.svc.cluster.local.", "MX", "NODATA"),
    ("dual.shop.svc.cluster.local.", "A", "A 10.96.0.11"),
    ("dual.shop.svc.cluster.local.", "AAAA", "AAAA fd00:96::11"),
    ("pending.shop.svc.cluster.local.", "A", "NODATA"),
    ("web.other.svc.cluster.local.", "A", "A 10.96.0.20"),
    ("none.shop.svc.cluster.local.", "A", "NXDOMAIN"),
    ("none.shop.svc.cluster.local.", "AAAA", "NXDOMAIN"),
    ("web-0.web.shop.svc.cluster.local.", "A", "NXDOMAIN"),
    // its ports
    (
        "_http._tcp.web.shop.svc.cluster.local.",
        "SRV",
        "SRV 0 100 80 web.shop.svc.cluster.local.",
    ),
    (
        "_HTTP._TCP.web.shop.svc.cluster.local.",
        "SRV",
        "SRV 0 100 80 web.shop.svc.cluster.local.",
    ),
    (
        "_dns._udp.web.shop.svc.cluster.local.",
        "SRV",
        "SRV 0 100 53 web.shop.svc.cluster.local.",
    ),
    ("_dns._tcp.web.shop.svc.cluster.local.", "SRV", "NXDOMAIN"),
    ("_http._sctp.web.shop.svc.cluster.local.", "SRV", "NXDOMAIN"),
    ("_http._tcp.web.shop.svc.cluster.local.", "A", "NODATA"),
    ("_tcp.web.shop.svc.cluster.local.", "SRV", "NODATA"),
    ("_tcp.dual.shop.svc.cluster.local.", "SRV", "NXDOMAIN"),
    (
        "dual.shop.svc.cluster.local.",
        "SRV",
        "SRV 0 100 8080 dual.shop.svc.cluster.local.",
    ),
    // headless
    ("db.shop.svc.cluster.local.", "A", "A 10.1.0.1; A 10.1.0.3"),
    ("db.shop.svc.cluster.local.", "AAAA", "AAAA fd00:1::3"),
    ("db.shop.svc.cluster.local.", "TXT", "NODATA"),
    ("db-0.db.shop.svc.cluster.local.", "A", "A 10.1.0.1"),
    ("DB-0.db.shop.svc.cluster.local.", "A", "A 10.1.0.1"),
    ("db-0.db.shop.svc.cluster.local.", "AAAA", "NODATA"),
    ("db-1.db.shop.svc.cluster.local.", "A", "NXDOMAIN"),
    ("10-1-0-3.db.shop.svc.cluster.local.", "A", "A 10.1.0.3"),
    (
        "fd00-1--3.db.shop.svc.cluster.local.",
        "AAAA",
        "AAAA fd00:1::3",
    ),
    ("10-1-0-1.db.shop.svc.cluster.local.", "A", "NXDOMAIN"),
    ("a.db-0.db.shop.svc.cluster.local.", "A", "NXDOMAIN"),
    (
        "_pg._tcp.db.shop.svc.cluster.local.",
        "SRV",
        "SRV 0 33 5432 10-1-0-3.db.shop.svc.cluster.local.; SRV 0 33 5432 db-0.db.shop.svc.cluster.local.; \
     SRV 0 33 5432 fd00-1--3.db.shop.svc.cluster.local.",
    ),
    ("early.shop.svc.cluster.local.", "A", "A 10.1.0.9"),
    ("e-0.early.shop.svc.cluster.local.", "A", "A 10.1.0.9"),
    ("empty.shop.svc.cluster.local.", "A", "NXDOMAIN"),
    // ExternalName
    (
        "ext.shop.svc.cluster.local.",
        "A",
        "CNAME www.example.com.; then www.example.com.",
    ),
    (
        "ext.shop.svc.cluster.local.",
        "CNAME",
        "CNAME www.example.com.",
    ),
    ("_http._tcp.ext.shop.svc.cluster.local.", "SRV", "NXDOMAIN"),
    (
        "inner.shop.svc.cluster.local.",
        "A",
        "A 10.96.0.10; CNAME web.shop.svc.cluster.local.",
    ),
    (
        "inner.shop.svc.cluster.local.",
        "AAAA",
        "CNAME web.shop.svc.cluster.local.; NODATA",
    ),
    // addresses
    (
        "10.0.96.10.in-addr.arpa.",
        "PTR",
        "PTR web.shop.svc.cluster.local.",
    ),
    (
        "10.0.96.10.IN-ADDR.ARPA.",
        "PTR",
        "PTR web.shop.svc.cluster.local.",
    ),
    ("10.0.96.10.in-addr.arpa.", "A", "NODATA"),
    ("12.0.96.10.in-addr.arpa.", "PTR", "elsewhere"),
    (
        "1.0.1.10.in-addr.arpa.",
        "PTR",
        "PTR db-0.db.shop.svc.cluster.local.",
    ),
    ("2.0.1.10.in-addr.arpa.", "PTR", "elsewhere"),
    ("3.0.1.10.in-addr.arpa.", "A", "NODATA"),
    ("1.10.in-addr.arpa.", "PTR", "elsewhere"),
    (
        "1.1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.9.0.0.0.0.d.f.ip6.arpa.",
        "PTR",
        "PTR dual.shop.svc.cluster.local.",
    ),
    // pods by address
    ("10-0-0-1.shop.pod.cluster.local.", "A", "A 10.0.0.1"),
    ("10-0-0-1.shop.pod.cluster.local.", "AAAA", "NODATA"),
    ("fd00--1.shop.pod.cluster.local.", "AAAA", "AAAA fd00::1"),
    ("10-0-0-256.shop.pod.cluster.local.", "A", "NXDOMAIN"),
    ("some-pod.shop.pod.cluster.local.", "A", "NXDOMAIN"),
    // the domain, and names between it and these
    ("dns-version.cluster.local.", "TXT", "TXT 1.1.0"),
    ("dns-version.cluster.local.", "A", "NODATA"),
    ("cluster.local.", "A", "NODATA"),
    ("svc.cluster.local.", "A", "NODATA"),
    ("pod.cluster.local.", "A", "NODATA"),
    ("shop.svc.cluster.local.", "A", "NODATA"),
    ("*.cluster.local.", "A", "NXDOMAIN"),
    ("*.shop.svc.cluster.local.", "A", "NXDOMAIN"),
    ("nowhere.svc.cluster.local.", "A", "NXDOMAIN"),
    ("sho.svc.cluster.local.", "A", "NXDOMAIN"),
    ("shop.cluster.local.", "A", "NXDOMAIN"),
    ("web.shop.cluster.local.", "A", "NXDOMAIN"),
    // all else
    ("example.com.", "A", "elsewhere"),
    ("web.shop.svc.cluster.local.example.com.", "A", "elsewhere"),
    ("local.", "A", "elsewhere"),
    (".", "NS", "elsewhere"),
];

#[test]
fn names_of_the_specification() {
    let snapshot = snapshot();
    let mut wrong = Vec::new();
    for (name, kind, expected) in ROWS {
        let found = words(ask(&snapshot, name, kind));
        if found != *expected {
            wrong.push(format!("{name} {kind}: {found}, not {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn circles_of_external_names_end() {
    let Answer::Authoritative(found) = ask(&snapshot(), "circle-a.shop.svc.cluster.local.", "A")
    else {
        panic!()
    };
    assert_eq!(
        (found.answers.len(), found.outcome),
        (MAX_ALIASES, Outcome::NoName)
    );
}

#[test]
fn names_of_the_cluster_are_not_denied_before_they_are_known() {
    let unsynced = Snapshot {
        synced: false,
        ..snapshot()
    };
    for name in [
        "web.shop.svc.cluster.local.",
        "none.shop.svc.cluster.local.",
        "cluster.local.",
    ] {
        assert_eq!(words(ask(&unsynced, name, "A")), "unready", "{name}");
    }
    assert_eq!(words(ask(&unsynced, "example.com.", "A")), "elsewhere");
}

#[test]
fn addresses_of_services_count_for_longer_than_those_of_endpoints() {
    for (name, kind, ttl) in [
        ("web.shop.svc.cluster.local.", "A", 30),
        ("_http._tcp.web.shop.svc.cluster.local.", "SRV", 30),
        ("ext.shop.svc.cluster.local.", "CNAME", 30),
        ("db.shop.svc.cluster.local.", "A", 5),
        ("_pg._tcp.db.shop.svc.cluster.local.", "SRV", 5),
        ("10-0-0-1.shop.pod.cluster.local.", "A", 5),
        ("cluster.local.", "SOA", 5),
    ] {
        let Answer::Authoritative(found) = ask(&snapshot(), name, kind) else {
            panic!("{name}")
        };
        assert!(!found.answers.is_empty(), "{name}");
        for record in found.answers.iter().chain(&found.additionals) {
            assert_eq!(record.ttl, ttl, "{record}");
        }
    }
}

#[test]
fn ports_come_with_the_addresses_of_their_targets() {
    let Answer::Authoritative(found) =
        ask(&snapshot(), "_pg._tcp.db.shop.svc.cluster.local.", "SRV")
    else {
        panic!()
    };
    let mut addresses: Vec<String> = found
        .additionals
        .iter()
        .map(|record| format!("{} {}", record.name, record.data))
        .collect();
    addresses.sort();
    assert_eq!(
        addresses,
        [
            "10-1-0-3.db.shop.svc.cluster.local. 10.1.0.3",
            "db-0.db.shop.svc.cluster.local. 10.1.0.1",
            "fd00-1--3.db.shop.svc.cluster.local. fd00:1::3",
        ]
    );
}
