//! Clouds and nodes in virtual time: the same seed gives the same run, also in another process. `OUTRIGGER_SEEDS=100` tries so many seeds.

use std::{
    env,
    process::Command,
    time::{Duration, Instant},
};

use cloudsim::faults::{Conditions, FaultTarget, Period};
use hollow::testing::{
    TestCloud,
    clock::Simulated,
    k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod},
    kube::{Api, api::ListParams, runtime::wait::conditions::is_deployment_completed},
};
use tokio::time::sleep;

/// The seed of a run in a process of its own.
const SEED: &str = "OUTRIGGER_SEED";
/// The number of seeds.
const SEEDS: &str = "OUTRIGGER_SEEDS";
/// What a process with a run of its own prints before the hash of the trace.
const DIGEST: &str = "trace of the run: ";

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      tolerations: [{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 30}]
      containers: [{name: main, image: nginx, envFrom: [{configMapRef: {name: settings}}]}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {colour: red}
";

/// A Deployment runs on two nodes with bad links, one of which loses its power; returns the nodes of the pods at the end.
fn outage(seed: u64) -> Simulated<Vec<String>> {
    let run = TestCloud::virtual_time(seed, async |builder| {
        let mut cloud = builder.nodes(2).start().await.unwrap();
        let conditions = Conditions {
            drop: Some(0.05),
            duplicate: Some(0.1),
            delay: Some(Period::millis(50)),
            jitter: Some(Period::millis(100)),
            ..Conditions::default()
        };
        cloud.faults().add(&FaultTarget::All, conditions).unwrap();
        cloud.apply(WEB).await.unwrap();
        let deployments = Api::<Deployment>::default_namespaced(cloud.client());
        cloud
            .wait(deployments.clone(), "web", is_deployment_completed())
            .await
            .unwrap();
        cloud.node("edge-2").unwrap().kill().await;
        sleep(Duration::from_secs(180)).await;
        let pods = Api::<Pod>::default_namespaced(cloud.client());
        let pods = pods.list(&ListParams::default()).await.unwrap().items;
        let live = pods
            .into_iter()
            .filter(|pod| pod.metadata.deletion_timestamp.is_none());
        let nodes = live.filter_map(|pod| pod.spec?.node_name).collect();
        cloud.stop().await.unwrap();
        nodes
    });
    run.unwrap()
}

#[test]
fn a_lost_node_is_evicted_in_virtual_time() {
    let seed = env::var(SEED).ok().and_then(|seed| seed.parse().ok());
    let begun = Instant::now();
    let run = outage(seed.unwrap_or(1));
    let trace = &run.trace;
    println!("{DIGEST}{:016x} {}", trace.digest, trace.lines);
    println!("{:?} in {:?}", run.elapsed, begun.elapsed());
    if let Ok(path) = env::var("OUTRIGGER_TRACE") {
        let lines: Vec<_> = trace.kept.iter().map(String::as_str).collect();
        std::fs::write(format!("{path}.{}", std::process::id()), lines.join("\n")).unwrap();
    }
    assert_eq!(run.result, ["edge-1"; 3], "{:#?}", trace.kept);
    assert!(run.elapsed >= Duration::from_secs(180), "{:?}", run.elapsed);
}

#[test]
fn a_seed_gives_the_same_trace_in_every_process() {
    let seeds = env::var(SEEDS).ok().and_then(|seeds| seeds.parse().ok());
    let run = |seed: u64| {
        let output = Command::new(env::current_exe().unwrap())
            .args([
                "--exact",
                "virtual_time::a_lost_node_is_evicted_in_virtual_time",
                "--nocapture",
            ])
            .env(SEED, seed.to_string())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().find_map(|line| line.split_once(DIGEST));
        line.map(|(_, digest)| digest.to_owned())
            .unwrap_or_else(|| panic!("seed {seed}: {text}"))
    };
    let mut differing = Vec::new();
    let mut traces = std::collections::BTreeSet::new();
    let seeds = seeds.unwrap_or(2);
    for seed in 1..=seeds {
        let first = run(seed);
        if run(seed) != first {
            differing.push(seed);
        }
        traces.insert(first);
    }
    assert!(
        differing.is_empty(),
        "seeds with several traces: {differing:?}"
    );
    assert_eq!(traces.len() as u64, seeds, "seeds make a difference");
}
