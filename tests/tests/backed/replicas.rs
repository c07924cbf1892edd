//! Several replicas are one cloud: a node's session may come to any of them.

use std::fs;

use cloudsim::{Addresses, Cloud, Options};
use componentbase::Link;
use hollow::fleet::{self, HollowNode};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use serde_json::json;
use tests::{
    Setup, TcpRelay, World, condition, eventually,
    manifests::{config_map, pod},
    within,
};
use wire::enroll::{Csr, Token};

use crate::raw::Caller;

/// Another replica before the same cluster.
async fn another(world: &World, replica: &str) -> Cloud {
    let cluster = Some(world.cluster().options(replica).await);
    let options = Options {
        cluster,
        ..Options::default().any_ports()
    };
    Cloud::start(options).await.expect("another replica")
}

async fn leader(world: &World) -> String {
    let leases = Api::<Lease>::namespaced(world.client(), "kubeedge");
    let lease = leases.get_opt("cloudsim").await.unwrap();
    lease
        .and_then(|lease| lease.spec?.holder_identity)
        .unwrap_or_default()
}

/// A pod that uses a ConfigMap.
async fn run(world: &World, name: &str) -> serde_json::Value {
    let mut manifest = pod(name, Some("edge-1"));
    manifest["spec"]["volumes"] = json!([{"name": "v", "configMap": {"name": "settings"}}]);
    manifest["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    world.run(&manifest).await
}

#[tokio::test]
async fn a_node_whose_replica_is_killed_goes_on_with_another_one() {
    let mut world = World::new(0).await;
    eventually("the first replica leads", async || {
        match leader(&world).await {
            leads if leads == "replica-1" => Ok(()),
            other => Err(other),
        }
    })
    .await;
    let second = another(&world, "replica-2").await;
    // what stands before both, as a Service does: first one, then the other
    let (one, other) = (world.cloud().addresses(), second.addresses());
    let first = TcpRelay::to_first_of(&[one.websocket, other.websocket]).await;
    let addresses = Addresses {
        websocket: first.address(),
        ..other
    };
    let mut node = world
        .prepare_at(addresses, "edge-1", &Setup::default())
        .await;
    node.start().await.unwrap();
    world.nodes.push(node);
    world.until_ready().await;
    world
        .apply(&config_map("settings", json!({"mode": "fast"})))
        .await;
    let running = run(&world, "one").await;
    assert_eq!(
        (world.cloud().sessions().len(), second.sessions().len()),
        (1, 0)
    );
    let ids = world.running(0);

    world.stop_cloud().await;
    eventually("the session is the other replica's", async || {
        let sessions = second.sessions();
        if sessions.len() == 1 {
            Ok(())
        } else {
            Err(sessions)
        }
    })
    .await;
    // what changes now comes through the other one, and what runs is left alone
    world
        .apply(&config_map("settings", json!({"mode": "slow"})))
        .await;
    world.until_file(0, &running, "/v/mode", "slow").await;
    run(&world, "two").await;
    let after = world.running(0);
    assert!(
        ids.iter().all(|(place, id)| after.get(place) == Some(id)),
        "{ids:?} {after:?}"
    );
    assert_eq!(
        condition(&world.node("edge-1").get().await, "Ready"),
        Some("True")
    );
    eventually("the other one leads", async || match leader(&world).await {
        leads if leads == "replica-2" => Ok(()),
        other => Err(other),
    })
    .await;
    second.stop().await.unwrap();
}

#[tokio::test]
async fn what_one_replica_knows_of_names_and_tokens_all_do() {
    let world = World::new(1).await;
    world.until_ready().await;
    let second = another(&world, "replica-2").await;
    let request = cloudsim::pki::TokenRequest {
        uses: Some(1),
        ..Default::default()
    };
    let token = world.cloud().join_token(&request).await.unwrap();
    // a token of the one joins at the other, once
    let setup = Setup {
        token: Some(token),
        ..Setup::default()
    };
    let mut node = world.prepare_at(second.addresses(), "edge-2", &setup).await;
    node.start().await.unwrap();
    world
        .node("edge-2")
        .until("Ready", |node| condition(node, "Ready") == Some("True"))
        .await;
    let caller = Caller::anonymous(&world).await;
    let token = Token::parse(setup.token.as_deref().unwrap()).unwrap();
    let (status, said) = caller
        .enrol(
            &world,
            token.jwt(),
            "edge-3",
            &Csr::for_node("edge-3").unwrap(),
        )
        .await;
    assert_eq!(
        status,
        401,
        "used up at the other replica: {}",
        String::from_utf8_lossy(&said)
    );
    // a name that the one gives back, the other throws out
    assert!(world.cloud().reset_node("edge-2").await.unwrap());
    eventually("the session at the other replica ends", async || {
        let sessions = second.sessions();
        if sessions.is_empty() {
            Ok(())
        } else {
            Err(sessions)
        }
    })
    .await;
    drop(node);
    second.stop().await.unwrap();
}

#[tokio::test]
async fn of_two_agents_of_one_name_at_two_replicas_the_later_one_stays() {
    let world = World::new(0).await;
    let second = another(&world, "replica-2").await;
    let mut node = world.prepare("edge-1", &Setup::default()).await;
    node.start().await.unwrap();
    world
        .node("edge-1")
        .until("Ready", |node| condition(node, "Ready") == Some("True"))
        .await;
    // the same machine again, copied with its certificate
    let copy = world.directory().join("copy");
    fs::create_dir_all(copy.join("edge-1")).unwrap();
    for file in ["ca.crt", "node.crt", "node.key"] {
        fs::copy(node.directory().join(file), copy.join("edge-1").join(file)).unwrap();
    }
    let options = fleet::Options::new(1, copy);
    let mut clone = HollowNode::prepare("edge-1", second.addresses(), "", &options)
        .await
        .unwrap();
    clone.start().await.unwrap();
    eventually(
        "both replicas know of one session, which is the later one's",
        async || {
            let sessions = (world.cloud().sessions().len(), second.sessions().len());
            if sessions == (0, 1) {
                Ok(())
            } else {
                Err(sessions)
            }
        },
    )
    .await;
    let mut link = node.link().unwrap();
    let down = link.wait_for(|link| *link == Link::Down);
    within("the first one is told", down).await.unwrap();
    clone.stop().await;
    eventually("the first one is back", async || {
        match world.cloud().sessions().len() {
            1 => Ok(()),
            other => Err(other),
        }
    })
    .await;
    drop(node);
    second.stop().await.unwrap();
}
