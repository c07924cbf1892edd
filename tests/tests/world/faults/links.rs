//! Links that are cut, half-open, slow, or there now and then.

use std::time::{Duration, Instant};

use cloudsim::faults::{FaultTarget, Profile};
use serde_json::json;
use tests::manifests::{config_map, pod};

use super::{NODES, both, conditions, set, stay_away};

#[tokio::test]
async fn a_half_open_link_is_noticed_and_nothing_is_lost_by_it() {
    let world = both().await;
    let faults = world.cloud().faults();
    for (number, node) in NODES.iter().enumerate() {
        world.run(&pod(&format!("on-{node}"), Some(node))).await;
        let ran = world.running(number);
        let begun = Instant::now();
        faults.half_open(node);
        world.until_connected(number, false).await;
        let noticed = begun.elapsed();
        // what happens meanwhile at both ends
        let (_, id) = ran.iter().next().unwrap();
        assert!(world.nodes[number].runtime.crash_container(id, 9));
        world
            .apply(&pod(&format!("later-on-{node}"), Some(node)))
            .await;
        faults.restore(node);
        world.until_connected(number, true).await;
        println!("{node}: noticed after {noticed:?}");
        let counted =
            |pod: &serde_json::Value| pod["status"]["containerStatuses"][0]["restartCount"] == 1;
        world
            .pod(&format!("on-{node}"))
            .until("told of its restart", counted)
            .await;
        world
            .pod(&format!("later-on-{node}"))
            .until("running", tests::runs)
            .await;
    }
}

#[tokio::test]
async fn cut_links_stay_cut_until_they_are_restored_and_pods_run_on() {
    let world = both().await;
    for node in NODES {
        world.run(&pod(&format!("on-{node}"), Some(node))).await;
    }
    let ran = [world.running(0), world.running(1)];
    set(world.cloud().faults(), json!({"link": "cut"}));
    for number in 0..2 {
        world.until_connected(number, false).await;
    }
    // many dials fall into this time
    assert!(
        stay_away(&world, Duration::from_secs(1)).await,
        "a cut link lets nobody in"
    );
    assert!(world.cloud().sessions().is_empty());
    world.cloud().faults().clear_everything();
    for (number, ran) in ran.iter().enumerate() {
        world.until_connected(number, true).await;
        assert_eq!(world.running(number), *ran, "the same containers");
    }
}

#[tokio::test]
async fn a_link_that_comes_and_goes_brings_everything_in_the_end() {
    let world = both().await;
    set(
        world.cloud().faults(),
        // on a busy machine, a session may take longer to begin than the link is up
        json!({"schedule": {"up": "400ms", "down": "200ms"}, "for": "8s"}),
    );
    for round in 0..4 {
        for node in NODES {
            world
                .apply(&pod(&format!("p{round}-{node}"), Some(node)))
                .await;
        }
    }
    for round in 0..4 {
        for node in NODES {
            let pod = world
                .pod(&format!("p{round}-{node}"))
                .until("running", tests::runs)
                .await;
            assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0);
        }
    }
    for number in 0..2 {
        assert_eq!(world.running(number).len(), 4, "each once");
    }
}

#[tokio::test]
async fn pods_run_over_every_kind_of_link() {
    let world = both().await;
    for profile in [
        Profile::Satellite,
        Profile::Cellular3G,
        Profile::Cellular4G,
        Profile::Wifi,
    ] {
        let name = profile.name().to_lowercase();
        set(world.cloud().faults(), json!({"profile": profile.name()}));
        for node in NODES {
            world
                .apply(&pod(&format!("{name}-{node}"), Some(node)))
                .await;
        }
        for node in NODES {
            world
                .pod(&format!("{name}-{node}"))
                .until("running", tests::runs)
                .await;
        }
    }
}

#[tokio::test]
async fn a_throttled_link_takes_its_time() {
    let world = both().await;
    let mut manifest = pod("web", Some("edge-1"));
    manifest["spec"]["volumes"] = json!([{"name": "v", "configMap": {"name": "large"}}]);
    manifest["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    world
        .apply(&config_map("large", json!({"key": "first"})))
        .await;
    let web = world.run(&manifest).await;
    let slow = conditions(json!({"throttle": 50_000}));
    world
        .cloud()
        .faults()
        .set(&FaultTarget::Node("edge-1".to_owned()), slow)
        .unwrap();
    let large = "x".repeat(100_000);
    let begun = Instant::now();
    world
        .apply(&config_map("large", json!({"key": large})))
        .await;
    world.until_file(0, &web, "/v/key", &large).await;
    let took = begun.elapsed();
    assert!(
        took >= Duration::from_secs(2),
        "100 kB at 50 kB/s took {took:?}"
    );
}
