//! The node's CA stays the same, signs for the names of the Service `default/kubernetes`, and for no other.

use std::os::unix::fs::PermissionsExt;

use rustls::{
    RootCertStore,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier},
};
use rustls_pki_types::{ServerName, UnixTime};

use super::*;

/// Reports whether a client that trusts this CA accepts its certificate with these names for a server called `name`.
fn is_taken(authority: &InClusterCa, names: &[&str], name: &str) -> bool {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from(authority.ca.cert_der().to_vec()))
        .unwrap();
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .unwrap();
    let names = names.iter().copied();
    let (cert, _) = authority
        .ca
        .sign_server_for(names, CERT_LIFETIME, clock::system_now())
        .unwrap();
    let name = ServerName::try_from(name).unwrap();
    verifier
        .verify_server_cert(&cert.into(), &[], &name, &[], UnixTime::now())
        .is_ok()
}

#[test]
fn the_authority_is_for_the_names_of_the_service_alone() {
    let directory = tempfile::tempdir().unwrap();
    let files = ["ca.crt", "ca.key"].map(|name| directory.path().join(name));
    let authority = InClusterCa::load_or_make(&files, "edge-1", "cluster.local").unwrap();
    let all = [
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
        "10.96.0.1",
    ];
    for name in all {
        assert!(is_taken(&authority, &all, name), "{name}");
    }
    for other in [
        "cloud.example.com",
        "web.default.svc",
        "kubernetes.default.svc.other",
    ] {
        let is_below = other.ends_with(".svc.other");
        assert!(
            is_below || !is_taken(&authority, &[other], other),
            "{other}"
        );
        assert!(!is_taken(&authority, &all, other), "{other}");
    }
}

#[test]
fn the_ca_is_kept_until_the_domain_changes() {
    let directory = tempfile::tempdir().unwrap();
    let files = ["ca.crt", "ca.key"].map(|name| directory.path().join(name));
    let made = |domain: &str| {
        InClusterCa::load_or_make(&files, "edge-1", domain)
            .unwrap()
            .certificate()
    };
    let first = made("cluster.local");
    assert_eq!(first, made("cluster.local"));
    assert_eq!(
        files[1].metadata().unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_ne!(first, made("edge.example"));
    std::fs::write(&files[1], "nonsense").unwrap();
    let second = made("edge.example");
    assert_eq!(
        second,
        made("edge.example"),
        "a key that is damaged is replaced, once"
    );
    let lost = Path::new("/proc/none/ca.crt").to_owned();
    let refused =
        InClusterCa::load_or_make(&[lost.clone(), lost], "edge-1", "cluster.local").unwrap_err();
    assert!(
        refused.to_string().contains("/proc/none/ca.crt"),
        "{refused}"
    );
}
