//! Certificates that are expired, of another node, of another cloud, or without their key.

use std::fs;

use tempfile::TempDir;
use wire::enroll::{Ca, Csr, Usage, pem_certificate, pem_ec_private_key};

use super::*;
use crate::check::tests::node_config;

const DAY: Duration = Duration::from_hours(24);

/// Writes the files of a node whose certificate is valid for `days` from now on.
fn enroll(directory: &TempDir, ca: &Ca, node: &str, days: u32, now: SystemTime) -> Config {
    let config = node_config(directory, "");
    let csr = Csr::for_node(node).unwrap();
    let certificate = ca
        .sign_edge(csr.der(), &[Usage::ClientAuth], DAY * days, now)
        .unwrap();
    let tls = &config.edge_hub.tls;
    for (path, text) in [
        (&tls.ca, pem_certificate(ca.cert_der())),
        (&tls.cert, pem_certificate(&certificate)),
        (&tls.key, pem_ec_private_key(&csr.key_sec1_der())),
    ] {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    config
}

#[test]
fn each_fault_of_a_certificate_is_named_with_its_remedy() {
    let now = clock::system_now();
    let (ca, other) = (Ca::generate(now).unwrap(), Ca::generate(now).unwrap());
    type Break = fn(&Config, &Ca);
    let nothing: Break = |_, _| {};
    let faults: [(&str, i64, Break, &str); 9] = [
        ("edge-1", 0, nothing, "ok"),
        ("edge-1", 24, nothing, "warning: expires on"),
        ("edge-1", 31, nothing, "error: expired on"),
        ("edge-1", -2, nothing, "error: is not valid before"),
        ("edge-2", 0, nothing, "error: is of node edge-2"),
        (
            "edge-1",
            0,
            |config, other| {
                fs::write(&config.edge_hub.tls.ca, pem_certificate(other.cert_der())).unwrap()
            },
            "error: has not issued",
        ),
        (
            "edge-1",
            0,
            |config, _| {
                let key = Csr::for_node("edge-1").unwrap().key_sec1_der();
                fs::write(&config.edge_hub.tls.key, pem_ec_private_key(&key)).unwrap();
            },
            "error: certificate and key must belong together",
        ),
        (
            "edge-1",
            0,
            |config, _| fs::write(&config.edge_hub.tls.cert, "damaged").unwrap(),
            "error: is not a PEM file",
        ),
        (
            "edge-1",
            0,
            |config, _| {
                let ca = fs::read_to_string(&config.edge_hub.tls.ca).unwrap();
                fs::write(&config.edge_hub.tls.ca, &ca[..ca.len() / 2]).unwrap();
            },
            "error: it is truncated",
        ),
    ];
    for (node, after, fault, expected) in faults {
        let directory = tempfile::tempdir().unwrap();
        let config = enroll(&directory, &ca, node, 30, now);
        fault(&config, &other);
        let time = match u32::try_from(after) {
            Ok(days) => now + DAY * days,
            Err(_) => now - DAY * 2,
        };
        let found = judge(&config, time).result;
        let (grade, part) = expected.split_once(": ").unwrap_or((expected, ""));
        let is_expected = match &found {
            CheckResult::Passed(_) => grade == "ok",
            CheckResult::Warning { .. } => grade == "warning",
            CheckResult::Failed { .. } => grade == "error",
            _ => false,
        };
        let (what, cure) = found.texts();
        assert!(is_expected && what.contains(part), "{expected}: {found:?}");
        assert_eq!(cure.is_some(), grade != "ok", "{found:?}");
    }
}

#[test]
fn node_without_certificate_needs_a_token() {
    let directory = tempfile::tempdir().unwrap();
    let mut config = node_config(&directory, "");
    let found = judge(&config, clock::system_now()).result;
    assert!(
        found
            .texts()
            .1
            .is_some_and(|cure| cure.contains("edge-agent join")),
        "{found:?}"
    );
    config.edge_hub.token = Some(crate::config::Secret::new("t"));
    let found = judge(&config, clock::system_now()).result;
    assert!(matches!(found, CheckResult::Remark(_)), "{found:?}");
}
