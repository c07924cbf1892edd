//! Tests of [`super`].

use kubeapi::store::MemoryStore;
use wire::enroll::{Ca, Csr, Usage};

use super::*;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A certificate for `node` that was signed so long ago, for a year.
fn certificate(ca: &Ca, node: &str, ago: Duration) -> Vec<u8> {
    let (csr, usages) = (Csr::for_node(node).unwrap(), Usage::parse_header(None).unwrap());
    ca.sign_edge(csr.der(), &usages, DAY * 365, SystemTime::now() - ago).unwrap()
}

fn ca() -> Ca {
    Ca::generate(SystemTime::now()).unwrap()
}

#[tokio::test]
async fn a_name_is_held_from_the_first_connection_until_it_is_reset() {
    let (all, ca) = (NodeCertificates::new(MemoryStore::new()), ca());
    let authority = ca.cert_der();
    let name = async || all.name("edge-1", authority, Duration::ZERO).await.unwrap();
    assert_eq!(name().await, Name::Unknown);
    let first = certificate(&ca, "edge-1", Duration::ZERO);
    all.begun("edge-1", (&first, authority), Duration::ZERO, None).await.unwrap();
    assert_eq!(name().await, Name::Free, "its answer may have been lost");
    let second = certificate(&ca, "edge-1", Duration::ZERO);
    all.begun("edge-1", (&second, authority), Duration::ZERO, Some("t")).await.unwrap();
    assert!(all.is_repeated("edge-1", "t").await.unwrap());
    assert!(!all.admit("edge-1", &first, authority).await.unwrap(), "it was replaced before it was used");
    assert!(all.admit("edge-1", &second, authority).await.unwrap());
    assert_eq!(name().await, Name::Held);
    let late = certificate(&ca, "edge-1", Duration::ZERO);
    assert!(!all.begun("edge-1", (&late, authority), Duration::ZERO, None).await.unwrap(), "it came first");
    assert!(!all.admit("edge-1", &late, authority).await.unwrap());
    assert!(!all.is_repeated("edge-1", "t").await.unwrap());
    let third = certificate(&ca, "edge-1", Duration::ZERO);
    all.renewed("edge-1", &third, authority).await.unwrap();
    for known in [&second, &third] {
        assert!(all.admit("edge-1", known, authority).await.unwrap());
    }
    all.registered("edge-1", "uid").await.unwrap();
    assert_eq!(all.all_registered().await.unwrap(), [("edge-1".to_owned(), "uid".to_owned())]);
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
    // it came before there were records
    assert!(all.admit("edge-1", &old, ca.cert_der()).await.unwrap());
    for (authority, grace, expected) in
        [(&ca, Duration::ZERO, Name::Free), (&ca, DAY * 30, Name::Held), (&other, DAY * 30, Name::Free)]
    {
        assert_eq!(all.name("edge-1", authority.cert_der(), grace).await.unwrap(), expected);
    }
    // of a name on record nothing else is taken
    let strange = certificate(&ca, "edge-1", Duration::ZERO);
    assert!(!all.admit("edge-1", &strange, ca.cert_der()).await.unwrap());
}

#[tokio::test]
async fn what_is_remembered_is_bounded() {
    let (all, ca) = (NodeCertificates::new(MemoryStore::new()), ca());
    let first = certificate(&ca, "edge-1", Duration::ZERO);
    all.begun("edge-1", (&first, ca.cert_der()), Duration::ZERO, None).await.unwrap();
    for _ in 0..MAX_CERTIFICATES {
        all.renewed("edge-1", &certificate(&ca, "edge-1", Duration::ZERO), ca.cert_der()).await.unwrap();
    }
    assert_eq!(all.read("edge-1").await.unwrap().unwrap().0.certificates.len(), MAX_CERTIFICATES);
    assert!(!all.admit("edge-1", &first, ca.cert_der()).await.unwrap());
}
