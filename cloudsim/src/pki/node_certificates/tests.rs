//! Tests of [`super`].

use objectstore::{Expect, MemoryStore, Write};
use wire::enroll::{Ca, Csr, Usage};

use super::*;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A certificate for `node` that was signed at this age, for a year.
fn certificate(ca: &Ca, node: &str, ago: Duration) -> Vec<u8> {
    let (csr, usages) = (
        Csr::for_node(node).unwrap(),
        Usage::parse_header(None).unwrap(),
    );
    ca.sign_edge(csr.der(), &usages, DAY * 365, clock::system_now() - ago)
        .unwrap()
}

fn ca() -> Ca {
    Ca::generate(clock::system_now()).unwrap()
}

#[tokio::test]
async fn a_name_is_held_from_the_first_connection_until_it_is_reset() {
    let (all, ca) = (NodeCertificates::new(MemoryStore::new()), ca());
    let authority = ca.cert_der();
    let name = async || all.name("edge-1", authority, Duration::ZERO).await.unwrap();
    assert_eq!(name().await, Name::Unknown);
    let first = certificate(&ca, "edge-1", Duration::ZERO);
    all.record_issued("edge-1", &first, authority, Duration::ZERO, None)
        .await
        .unwrap();
    assert_eq!(name().await, Name::Free, "its answer may have been lost");
    let second = certificate(&ca, "edge-1", Duration::ZERO);
    all.record_issued("edge-1", &second, authority, Duration::ZERO, Some("t"))
        .await
        .unwrap();
    assert!(all.is_repeated("edge-1", "t", &second).await.unwrap());
    assert!(
        !all.is_repeated("edge-1", "t", &first).await.unwrap(),
        "another key is another machine's"
    );
    assert!(
        !all.admit("edge-1", &first, authority).await.unwrap(),
        "it was replaced before it was used"
    );
    assert!(all.admit("edge-1", &second, authority).await.unwrap());
    assert_eq!(name().await, Name::Held);
    let late = certificate(&ca, "edge-1", Duration::ZERO);
    assert!(
        !all.record_issued("edge-1", &late, authority, Duration::ZERO, None)
            .await
            .unwrap(),
        "it came first"
    );
    assert!(!all.admit("edge-1", &late, authority).await.unwrap());
    assert!(!all.is_repeated("edge-1", "t", &second).await.unwrap());
    let third = certificate(&ca, "edge-1", Duration::ZERO);
    assert!(
        !all.record_renewed("edge-1", &late, (&third, authority))
            .await
            .unwrap(),
        "it does not count itself"
    );
    assert!(
        all.record_renewed("edge-1", &second, (&third, authority))
            .await
            .unwrap()
    );
    for known in [&second, &third] {
        assert!(all.admit("edge-1", known, authority).await.unwrap());
    }
    all.set_uid("edge-1", "uid").await.unwrap();
    assert_eq!(
        all.all_registered().await.unwrap(),
        [("edge-1".to_owned(), "uid".to_owned())]
    );
    assert!(all.reset("edge-1").await.unwrap());
    assert_eq!(name().await, Name::Free);
    for taken_back in [&first, &second, &third] {
        assert!(!all.admit("edge-1", taken_back, authority).await.unwrap());
    }
    assert!(!all.reset("edge-1").await.unwrap() && all.all_registered().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_certificate_that_has_expired_holds_no_name_and_another_authoritys_neither() {
    let (all, ca, other) = (NodeCertificates::new(MemoryStore::new()), ca(), ca());
    let old = certificate(&ca, "edge-1", DAY * 370);
    // it was issued before there were records
    assert!(all.admit("edge-1", &old, ca.cert_der()).await.unwrap());
    for (authority, grace, expected) in [
        (&ca, Duration::ZERO, Name::Free),
        (&ca, DAY * 30, Name::Held),
        (&other, DAY * 30, Name::Free),
    ] {
        assert_eq!(
            all.name("edge-1", authority.cert_der(), grace)
                .await
                .unwrap(),
            expected
        );
    }
    // other certificates of a recorded name are refused
    let strange = certificate(&ca, "edge-1", Duration::ZERO);
    assert!(!all.admit("edge-1", &strange, ca.cert_der()).await.unwrap());
}

#[tokio::test]
async fn what_is_remembered_is_bounded() {
    let (all, ca) = (NodeCertificates::new(MemoryStore::new()), ca());
    let first = certificate(&ca, "edge-1", Duration::ZERO);
    all.record_issued("edge-1", &first, ca.cert_der(), Duration::ZERO, None)
        .await
        .unwrap();
    let mut newest = first.clone();
    for _ in 0..record::MAX_CERTIFICATES {
        let next = certificate(&ca, "edge-1", Duration::ZERO);
        assert!(
            all.record_renewed("edge-1", &newest, (&next, ca.cert_der()))
                .await
                .unwrap()
        );
        newest = next;
    }
    let record = all.read("edge-1").await.unwrap().0.unwrap();
    assert_eq!(record.certificates.len(), record::MAX_CERTIFICATES);
    assert!(!all.admit("edge-1", &first, ca.cert_der()).await.unwrap());
}

#[tokio::test]
async fn a_renewal_after_the_name_was_reset_is_worth_nothing() {
    let (all, ca) = (NodeCertificates::new(MemoryStore::new()), ca());
    let (old, new) = (
        certificate(&ca, "edge-1", Duration::ZERO),
        certificate(&ca, "edge-1", Duration::ZERO),
    );
    assert!(all.admit("edge-1", &old, ca.cert_der()).await.unwrap());
    // between showing the old one and recording the new one
    all.reset("edge-1").await.unwrap();
    assert!(
        !all.record_renewed("edge-1", &old, (&new, ca.cert_der()))
            .await
            .unwrap()
    );
    assert!(!all.admit("edge-1", &new, ca.cert_der()).await.unwrap());
    assert_eq!(
        all.name("edge-1", ca.cert_der(), Duration::ZERO)
            .await
            .unwrap(),
        Name::Free
    );
}

#[tokio::test]
async fn a_name_whose_record_was_lost_is_closed_until_it_is_reset() {
    let (store, ca) = (MemoryStore::new(), ca());
    let all = NodeCertificates::new(store.clone());
    let put = async |name: &str| {
        let value = Some(object(name, &Record::lost(true)));
        store
            .commit(vec![Write {
                key: key(name),
                expect: Expect::Anything,
                value,
            }])
            .await
            .unwrap();
    };
    let shown = certificate(&ca, "edge-1", Duration::ZERO);
    let is_closed = async |name: &str| {
        let refused = !all.admit(name, &shown, ca.cert_der()).await.unwrap()
            && !all.counts(name, &shown).await.unwrap()
            && !all
                .record_renewed(name, &shown, (&shown, ca.cert_der()))
                .await
                .unwrap();
        let held = !all
            .record_issued(name, &shown, ca.cert_der(), Duration::ZERO, None)
            .await
            .unwrap();
        let lost = all.name(name, ca.cert_der(), Duration::ZERO).await.unwrap() == Name::Lost;
        assert!(
            refused == held && held == lost,
            "{name}: {refused} {held} {lost}"
        );
        lost
    };
    put("edge-1").await;
    assert!(is_closed("edge-1").await);
    // the others are unchanged, until it is not known which are lost
    assert!(all.admit("edge-2", &shown, ca.cert_der()).await.unwrap());
    put(UNKNOWN).await;
    assert!(
        all.admit("edge-2", &shown, ca.cert_der()).await.unwrap(),
        "it is known"
    );
    for name in ["edge-1", "edge-3", "edge-4"] {
        assert!(is_closed(name).await, "{name}");
    }
    // one by one
    for name in ["edge-1", "edge-3"] {
        assert!(all.reset(name).await.unwrap());
        assert_eq!(
            all.name(name, ca.cert_der(), Duration::ZERO).await.unwrap(),
            Name::Free
        );
        assert!(!all.admit(name, &shown, ca.cert_der()).await.unwrap());
    }
    // its Node is deleted while nobody watches
    put("edge-5").await;
    all.set_uid("edge-5", "uid").await.unwrap();
    assert!(is_closed("edge-5").await);
    assert_eq!(
        all.all_registered().await.unwrap(),
        [("edge-5".to_owned(), "uid".to_owned())]
    );
    // all at once
    assert_eq!(all.reset_lost().await.unwrap(), [UNKNOWN, "edge-5"]);
    assert!(all.lost_names().await.unwrap().is_empty());
    for name in ["edge-4", "edge-5"] {
        assert!(
            !all.admit(name, &shown, ca.cert_der()).await.unwrap(),
            "it may have been taken back"
        );
        assert_eq!(
            all.name(name, ca.cert_der(), Duration::ZERO).await.unwrap(),
            Name::Free
        );
    }
}
