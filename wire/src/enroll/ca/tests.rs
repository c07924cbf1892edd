//! Which certificates an authority signs, and what it refuses.

use proptest::prelude::*;
use x509_parser::extensions::GeneralName;

use super::*;
use crate::enroll::{Csr, identity_of, vectors};

const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

fn sign(ca: &Ca, csr: &[u8]) -> Result<Vec<u8>, CertError> {
    ca.sign_edge(csr, &[Usage::ClientAuth], YEAR, now())
}

fn parse(der: &[u8]) -> X509Certificate<'_> {
    let (rest, cert) = X509Certificate::from_der(der).unwrap();
    assert!(rest.is_empty());
    cert
}

/// Checks that the authority signed the certificate and is named as its issuer, and that the certificate is not a CA's.
fn check_leaf(ca: &Ca, cert: &X509Certificate<'_>) {
    let authority = parse(ca.cert_der());
    cert.verify_signature(Some(authority.public_key())).unwrap();
    assert_eq!(cert.issuer().as_raw(), authority.subject().as_raw());
    assert!(!cert.is_ca());
    let usage = cert.key_usage().unwrap().unwrap().value;
    assert!(usage.digital_signature() && usage.key_encipherment() && !usage.key_cert_sign());
}

#[test]
fn the_authority_is_kubeedges() {
    let ca = Ca::generate(now()).unwrap();
    let cert = parse(ca.cert_der());
    cert.verify_signature(None).unwrap();
    assert_eq!(cert.subject().to_string(), "CN=KubeEdge");
    assert!(cert.is_ca());
    assert!(cert.key_usage().unwrap().unwrap().value.key_cert_sign());
    let usage = cert.extended_key_usage().unwrap().unwrap().value;
    assert!(usage.server_auth && usage.client_auth);
    let validity = cert.validity();
    assert_eq!(validity.not_before.timestamp(), 1_800_000_000 - 300);
    assert_eq!(
        validity.not_after.timestamp(),
        1_800_000_000 + 36_400 * 86_400
    );
    assert!(
        matches!(identity_of(ca.cert_der()), Err(CertError::Subject(name)) if name == "CN=KubeEdge")
    );
}

#[test]
fn an_authority_reads_back_and_signs_on() {
    let (made, given) = (
        Ca::generate(now()).unwrap(),
        Ca::from_der(&vectors::ca(), &vectors::ca_key()).unwrap(),
    );
    let again = Ca::from_der(made.cert_der(), made.key_sec1_der()).unwrap();
    assert_eq!(
        (again.cert_der(), again.key_sec1_der()),
        (made.cert_der(), made.key_sec1_der())
    );
    for ca in [again, given] {
        let cert = sign(&ca, &vectors::csr_node()).unwrap();
        check_leaf(&ca, &parse(&cert));
    }
}

#[test]
fn what_is_no_authority_is_refused() {
    let (ca, other) = (Ca::generate(now()).unwrap(), Ca::generate(now()).unwrap());
    let (leaf, key) = ca.sign_admin(now()).unwrap();
    let error = |cert: &[u8], key: &[u8]| Ca::from_der(cert, key).unwrap_err();
    assert!(matches!(
        error(ca.cert_der(), other.key_sec1_der()),
        CertError::Mismatch
    ));
    assert!(matches!(error(&leaf, &key), CertError::NotCa));
    assert!(matches!(error(ca.cert_der(), b"key"), CertError::Key));
    assert!(matches!(
        error(b"cert", ca.key_sec1_der()),
        CertError::Certificate
    ));
}

#[test]
fn a_node_gets_its_certificate() {
    let ca = Ca::generate(now()).unwrap();
    let csr = Csr::for_node("edge-1").unwrap();
    let cert = sign(&ca, csr.der()).unwrap();
    assert_eq!(identity_of(&cert).unwrap(), Identity::Node("edge-1".into()));
    let cert = parse(&cert);
    check_leaf(&ca, &cert);
    assert_eq!(
        cert.subject().to_string(),
        "O=system:nodes, CN=system:node:edge-1"
    );
    assert_eq!(
        cert.validity().not_after.timestamp(),
        1_800_000_000 + 365 * 86_400
    );
    let usage = cert.extended_key_usage().unwrap().unwrap().value;
    assert!(usage.client_auth && !usage.server_auth && !usage.any);
    let key = EcKey::from_sec1_der(&csr.key_sec1_der()).unwrap();
    assert_eq!(
        &*cert.public_key().subject_public_key.data,
        key.public_key()
    );
}

#[test]
fn usages_are_the_callers() {
    let ca = Ca::generate(now()).unwrap();
    let cert = ca
        .sign_edge(
            &vectors::csr_node(),
            &[Usage::ServerAuth, Usage::ClientAuth],
            YEAR,
            now(),
        )
        .unwrap();
    let cert = parse(&cert);
    let usage = cert.extended_key_usage().unwrap().unwrap().value;
    assert!(usage.server_auth && usage.client_auth);
}

#[test]
fn wishes_in_a_request_are_not_heard() {
    let ca = Ca::generate(now()).unwrap();
    for csr in vectors::csrs_with_wishes() {
        let cert = sign(&ca, &csr).unwrap();
        let cert = parse(&cert);
        check_leaf(&ca, &cert);
        assert!(cert.subject_alternative_name().unwrap().is_none());
        assert_eq!(
            cert.subject().to_string(),
            "O=system:nodes, CN=system:node:edge-1"
        );
    }
}

#[test]
fn other_requests_are_refused() {
    let ca = Ca::generate(now()).unwrap();
    for csr in vectors::csrs_of_others() {
        assert!(matches!(sign(&ca, &csr), Err(CertError::Subject(_))));
    }
    assert!(
        matches!(sign(&ca, &vectors::csr_bad_name()), Err(CertError::NodeName(name)) if name == "Edge_1")
    );
    let mut forged = vectors::csr_node();
    *forged.last_mut().unwrap() ^= 1;
    assert!(matches!(sign(&ca, &forged), Err(CertError::Request)));
    assert!(matches!(sign(&ca, b"request"), Err(CertError::Request)));
    assert!(matches!(
        sign(&ca, &[0x30; REQUEST_LIMIT + 1]),
        Err(CertError::RequestTooLarge { .. })
    ));
    let forever = ca.sign_edge(
        &vectors::csr_node(),
        &[Usage::ClientAuth],
        Duration::MAX,
        now(),
    );
    assert!(matches!(forever, Err(CertError::Time)));
}

#[test]
fn servers_have_their_names() {
    let ca = Ca::generate(now()).unwrap();
    let (cert, key) = ca
        .sign_server(["localhost", "127.0.0.1", "::1"], now())
        .unwrap();
    let cert = parse(&cert);
    check_leaf(&ca, &cert);
    assert_eq!(
        &*cert.public_key().subject_public_key.data,
        EcKey::from_sec1_der(&key).unwrap().public_key()
    );
    assert_eq!(cert.subject().to_string(), "O=KubeEdge, CN=KubeEdge");
    let names = &cert
        .subject_alternative_name()
        .unwrap()
        .unwrap()
        .value
        .general_names;
    assert_eq!(names.len(), 3);
    assert_eq!(names[0], GeneralName::DNSName("localhost"));
    assert_eq!(names[1], GeneralName::IPAddress(&[127, 0, 0, 1]));
    let usage = cert.extended_key_usage().unwrap().unwrap().value;
    assert!(usage.server_auth && !usage.client_auth);
    for names in [&[][..], &[""], &["a", ""], &["é"]] {
        assert!(
            matches!(
                ca.sign_server(names.to_vec(), now()),
                Err(CertError::ServerName(_))
            ),
            "{names:?}"
        );
    }
}

#[test]
fn administrators_are_known() {
    let ca = Ca::generate(now()).unwrap();
    let (cert, _) = ca.sign_admin(now()).unwrap();
    assert_eq!(
        identity_of(&cert).unwrap(),
        Identity::Admin("kubernetes-admin".into())
    );
    let cert = parse(&cert);
    check_leaf(&ca, &cert);
    assert!(
        cert.extended_key_usage()
            .unwrap()
            .unwrap()
            .value
            .client_auth
    );
}

#[test]
fn no_two_certificates_share_a_serial_number() {
    let ca = Ca::generate(now()).unwrap();
    let serial = || {
        parse(&sign(&ca, &vectors::csr_node()).unwrap())
            .raw_serial()
            .to_vec()
    };
    assert_ne!(serial(), serial());
}

#[test]
fn debug_keeps_the_secret() {
    assert_eq!(format!("{:?}", Ca::generate(now()).unwrap()), "Ca { .. }");
}

proptest! {
    #[test]
    fn damaged_requests_and_certificates_never_panic(at in 0_usize..600, byte: u8, cut in 0_usize..600) {
        let ca = Ca::from_der(&vectors::ca(), &vectors::ca_key()).unwrap();
        for mut der in [vectors::csr_node(), vectors::ca()] {
            let at = at % der.len();
            der[at] = byte;
            der.truncate(cut.max(at));
            let _ = sign(&ca, &der);
            let _ = identity_of(&der);
            let _ = Ca::from_der(&der, ca.key_sec1_der());
        }
    }
}

#[test]
fn an_authority_knows_what_it_has_signed() {
    let (ca, other) = (Ca::generate(now()).unwrap(), Ca::generate(now()).unwrap());
    let (csr, another) = (Csr::for_node("a").unwrap(), Csr::for_node("a").unwrap());
    let [first, again, differs] = [&csr, &csr, &another].map(|csr| sign(&ca, csr.der()).unwrap());
    assert!(ca.has_signed(&first) && !other.has_signed(&first) && !ca.has_signed(b"none"));
    let key = |cert: &[u8]| crate::enroll::key_sha256_of(cert).unwrap();
    assert!(first != again && key(&first) == key(&again) && key(&first) != key(&differs));
}
