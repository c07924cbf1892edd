//! Clouds whose certificate is not good, and certificates of nodes that have just expired.

use std::{fs, time::Duration};

use agent::config::Secret;
use cloudsim::faults::Certificate;
use tests::{Setup, World, condition, eventually, manifests::pod};

use super::{both, stay_away};
use crate::renewal::{DAY, ends, issue_certificate};

#[tokio::test]
async fn no_node_talks_to_a_cloud_whose_certificate_is_not_good() {
    let world = both().await;
    let faults = world.cloud().faults();
    for certificate in Certificate::ALL
        .into_iter()
        .filter(|one| *one != Certificate::Genuine)
    {
        faults.set_certificate(certificate);
        for number in 0..2 {
            world.until_connected(number, false).await;
        }
        let away = stay_away(&world, Duration::from_millis(500)).await;
        assert!(away, "a node took {}", certificate.name());
        assert!(
            world.cloud().sessions().is_empty(),
            "{}",
            certificate.name()
        );
        faults.set_certificate(Certificate::Genuine);
        for number in 0..2 {
            world.until_connected(number, true).await;
        }
    }
    world.run(&pod("web", Some("edge-2"))).await;
}

#[tokio::test]
async fn with_a_rotated_authority_a_node_needs_a_new_token_and_then_goes_on() {
    let mut world = World::new(1).await;
    let web = world.run(&pod("web", Some("edge-1"))).await;
    let ran = world.running(0);
    world
        .cloud()
        .faults()
        .set_certificate(Certificate::RotatedAuthority);
    world.until_connected(0, false).await;
    // the old token is of the old authority, and so is the node's certificate: a person brings both up to date
    let token = world.cloud().token_now().unwrap();
    assert_ne!(token, world.cloud().token());
    let node = &mut world.nodes[0];
    node.stop().await;
    for file in ["ca.crt", "node.crt", "node.key"] {
        fs::remove_file(node.directory().join(file)).unwrap();
    }
    node.configure(|config| config.edge_hub.token = Some(Secret::new(token)));
    node.start().await.unwrap();
    world.until_connected(0, true).await;
    assert_eq!(world.running(0), ran, "the same containers");
    world
        .pod("web")
        .until("running", |pod| {
            tests::runs(pod) && tests::uid(pod) == tests::uid(&web)
        })
        .await;
}

#[tokio::test]
async fn a_certificate_that_expired_within_the_grace_is_renewed_with_itself() {
    let grace = DAY * 30;
    let setup = Setup {
        nodes: 0,
        renewal_grace: grace,
        ..Setup::default()
    };
    let mut world = World::with(setup.clone()).await;
    let mut node = world.prepare("edge-1", &setup).await;
    let directory = node.directory().to_owned();
    issue_certificate(&world, &directory, "edge-1", DAY * 375).await;
    node.configure(|config| config.edge_hub.token = None);
    node.start().await.unwrap();
    world.nodes.push(node);
    world
        .node("edge-1")
        .until("Ready", |node| condition(node, "Ready") == Some("True"))
        .await;
    eventually("the certificate is good again", async || {
        let left = ends(&directory)
            .duration_since(std::time::SystemTime::now())
            .unwrap_or_default();
        if left > DAY * 300 { Ok(()) } else { Err(left) }
    })
    .await;
}

#[tokio::test]
async fn a_certificate_that_expired_before_the_grace_is_not() {
    let setup = Setup {
        nodes: 0,
        renewal_grace: DAY * 30,
        ..Setup::default()
    };
    let mut world = World::with(setup.clone()).await;
    let mut node = world.prepare("edge-1", &setup).await;
    let directory = node.directory().to_owned();
    issue_certificate(&world, &directory, "edge-1", DAY * 400).await;
    let before = ends(&directory);
    node.configure(|config| config.edge_hub.token = None);
    node.start().await.unwrap();
    let mut link = node.link().unwrap();
    world.nodes.push(node);
    // the first renewal is tried at once
    let connected = tokio::time::timeout(Duration::from_millis(1500), link.changed()).await;
    assert!(connected.is_err(), "{:?}", link.borrow());
    assert_eq!(ends(&directory), before);
}
