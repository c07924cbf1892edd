//! A certificate in files is served without the cloud if it fits the addresses.

use std::{fs, net::Ipv4Addr, path::Path};

use wire::enroll::{Ca, EcKey, pem_certificate, pem_ec_private_key};

use super::{super::access::tests::hub, *};

fn manager(directory: &Path, addresses: Vec<IpAddr>) -> CertificateManager {
    let files = (
        directory.join("metaserver.crt"),
        directory.join("metaserver.key"),
    );
    CertificateManager::new("edge-1", addresses, files, hub())
}

#[tokio::test]
async fn a_stored_certificate_is_used_if_it_fits() {
    let directory = tempfile::tempdir().unwrap();
    let local = IpAddr::from(Ipv4Addr::LOCALHOST);
    let one = manager(directory.path(), vec![local]);
    assert!(one.load().unwrap().is_none(), "there are none");
    let now = clock::system_now();
    let (cert, key) = Ca::generate(now)
        .unwrap()
        .sign_server(["127.0.0.1"], now)
        .unwrap();
    files::save(&one.files, pem_certificate(&cert).as_bytes(), &key).unwrap();
    assert!(one.load().unwrap().is_some());
    let two = manager(
        directory.path(),
        vec![local, "169.254.30.10".parse().unwrap()],
    );
    assert_eq!(two.load().unwrap_err(), "it is not for 169.254.30.10");

    let other = EcKey::generate().unwrap();
    fs::write(&one.files.1, pem_ec_private_key(other.sec1_der())).unwrap();
    assert!(one.load().is_err(), "the key is another's");
    fs::write(&one.files.1, "nonsense").unwrap();
    assert!(one.load().is_err());
    fs::remove_file(&one.files.1).unwrap();
    assert!(one.load().unwrap().is_none());
}
