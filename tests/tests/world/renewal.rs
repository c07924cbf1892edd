//! Certificates that near their end, or have passed it.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    time::{Duration, SystemTime},
};

use componentbase::Link;
use rustls::pki_types::{CertificateDer, pem::PemObject};
use tests::{Setup, World, condition, eventually, within};
use wire::enroll::{Csr, Token, Usage, pem_certificate, pem_ec_private_key, validity_of};

use crate::raw::authority;

pub(crate) const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Gives a node a certificate that was issued so long ago, for a year.
pub(crate) async fn issue_certificate(world: &World, directory: &Path, node: &str, ago: Duration) {
    let ca = authority(world).await;
    let csr = Csr::for_node(node).unwrap();
    let usages = Usage::parse_header(None).unwrap();
    let cert = ca
        .sign_edge(csr.der(), &usages, DAY * 365, SystemTime::now() - ago)
        .unwrap();
    fs::write(directory.join("ca.crt"), pem_certificate(ca.cert_der())).unwrap();
    fs::write(directory.join("node.crt"), pem_certificate(&cert)).unwrap();
    fs::write(
        directory.join("node.key"),
        pem_ec_private_key(&csr.key_sec1_der()),
    )
    .unwrap();
}

/// When the certificate of the node's files ends.
pub(crate) fn ends(directory: &Path) -> SystemTime {
    let pem = fs::read(directory.join("node.crt")).unwrap();
    validity_of(&CertificateDer::from_pem_slice(&pem).unwrap())
        .unwrap()
        .1
}

async fn until_renewed(directory: &Path) {
    eventually("the certificate is renewed", async || {
        let left = ends(directory)
            .duration_since(SystemTime::now())
            .unwrap_or_default();
        if left > DAY * 300 { Ok(()) } else { Err(left) }
    })
    .await;
}

#[tokio::test]
async fn a_certificate_near_its_end_is_renewed_without_a_moment_offline() {
    let mut world = World::new(0).await;
    let mut node = world.prepare("edge-1", &Setup::default()).await;
    let directory = node.directory().to_owned();
    issue_certificate(&world, &directory, "edge-1", DAY * 340).await;
    // the old certificate is all that this node has to show
    node.configure(|config| config.edge_hub.token = None);
    node.start().await.unwrap();
    let mut link = node.link().unwrap();
    let mut seen = Vec::new();
    let replaced = async {
        while *link.borrow_and_update() != Link::Up(2) {
            link.changed().await.unwrap();
            seen.push(*link.borrow());
        }
    };
    within("a connection with the new certificate", replaced).await;
    assert!(
        !seen.contains(&Link::Down),
        "the old link stands until there is the new one: {seen:?}"
    );
    until_renewed(&directory).await;
    let mode = fs::metadata(directory.join("node.key"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    world.nodes.push(node);
    world.until_ready().await;
}

#[tokio::test]
async fn without_rotation_a_certificate_stays() {
    let mut world = World::new(0).await;
    let mut node = world.prepare("edge-1", &Setup::default()).await;
    let directory = node.directory().to_owned();
    issue_certificate(&world, &directory, "edge-1", DAY * 340).await;
    let before = ends(&directory);
    node.configure(|config| config.edge_hub.rotate_certificates = false);
    node.start().await.unwrap();
    world.nodes.push(node);
    world.until_ready().await;
    assert_eq!(ends(&directory), before);
    assert_eq!(*world.nodes[0].link().unwrap().borrow(), Link::Up(1));
}

#[tokio::test]
async fn an_expired_certificate_is_replaced_with_a_token_as_soon_as_there_is_one() {
    let mut world = World::new(0).await;
    let mut node = world.prepare("edge-1", &Setup::default()).await;
    let directory = node.directory().to_owned();
    issue_certificate(&world, &directory, "edge-1", DAY * 400).await;
    let token = world.cloud().token().to_owned();
    assert!(Token::parse(&token).is_ok());
    // the agent does not give up: it goes on running its pods, and dialling
    node.configure(|config| config.edge_hub.token = None);
    node.start().await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(1), node.wait_ended()).await;
    assert!(ended.is_err(), "{ended:?}");
    node.configure(|config| config.edge_hub.token = Some(agent::config::Secret::new(token)));
    node.start().await.unwrap();
    until_renewed(&directory).await;
    world.nodes.push(node);
    world.until_ready().await;
    world
        .node("edge-1")
        .until("Ready", |node| condition(node, "Ready") == Some("True"))
        .await;
}
