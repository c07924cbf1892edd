//! Why a cloud's certificate does not do, and what is said of it.

use std::time::{Duration, SystemTime};

use wire::enroll::Ca;

use super::*;

/// What is said of a certificate that this authority made at `made`, for `names`, to somebody who reaches its owner as `host`.
fn said(ca: &Ca, trusted: &Ca, names: &[&str], host: &str, made: SystemTime) -> EnrollError {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let (cert, _) = ca.sign_server(&names, made).unwrap();
    let cert = CertificateDer::from(cert);
    let host_name = ServerName::try_from(host.to_owned()).unwrap();
    let verified = verifier(trusted.cert_der()).unwrap();
    let verified = verified.verify_server_cert(&cert, &[], &host_name, &[], UnixTime::now());
    unverified(("https://x", host), &cert, verified.unwrap_err())
}

#[test]
fn a_certificate_for_another_name_tells_the_names_that_it_has() {
    let ca = Ca::generate(SystemTime::now()).unwrap();
    let error = said(&ca, &ca, &["127.0.0.1", "localhost"], "192.0.2.10", SystemTime::now());
    let text = error.to_string();
    assert!(matches!(error, EnrollError::OtherName { .. }), "{text}");
    for part in ["192.0.2.10", "127.0.0.1", "localhost", "--name"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("token"), "the token is right: {text}");
}

#[test]
fn a_certificate_of_another_cloud_or_another_time_is_told_as_such() {
    let now = SystemTime::now();
    let (ca, other) = (Ca::generate(now).unwrap(), Ca::generate(now).unwrap());
    let error = said(&other, &ca, &["cloud"], "cloud", now);
    assert!(matches!(error, EnrollError::WrongCloud { .. }), "{error}");
    let error = said(&ca, &ca, &["cloud"], "cloud", now + Duration::from_secs(1_000_000));
    assert!(matches!(error, EnrollError::WrongTime { .. }) && error.to_string().contains("clock"), "{error}");
}
