//! Clouds and nodes in virtual time: the same seed gives the same run, also in another process. `OUTRIGGER_SEEDS=100` tries
//! so many seeds.

use std::{
    collections::BTreeSet,
    env,
    process::{Command, Stdio},
    time::Duration,
};

use cloudsim::faults::{Conditions, FaultTarget, Period};
use hollow::testing::{
    Builder, TestCloud,
    clock::Simulated,
    k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod},
    kube::{Api, api::ListParams, runtime::wait::conditions::is_deployment_completed},
    mapper::thermometer::Virtual,
};
use tokio::time::sleep;

/// Set in the processes that run all seeds.
const PROCESS: &str = "OUTRIGGER_PROCESS";
/// The number of seeds, unless the variable has another one.
const SEEDS: (&str, u64) = ("OUTRIGGER_SEEDS", 10);
/// What such a process prints before the seed and the hash of its trace.
const DIGEST: &str = "trace of seed ";

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

/// Starts three nodes with bad links and a Deployment, and waits until its pods are ready.
async fn deploy(builder: Builder) -> TestCloud {
    let cloud = builder.nodes(3).start().await.unwrap();
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
        .wait(deployments, "web", is_deployment_completed())
        .await
        .unwrap();
    cloud
}

/// A Deployment runs on three nodes with bad links.
fn deployment(seed: u64) -> Simulated<()> {
    let run = TestCloud::virtual_time(seed, async |builder| {
        Box::pin(deploy(builder)).await.stop().await
    });
    let Simulated {
        result,
        trace,
        elapsed,
    } = run.unwrap();
    result.unwrap();
    Simulated {
        result: (),
        trace,
        elapsed,
    }
}

/// Two of these nodes lose their power; returns the nodes of the pods at the end.
fn outage(seed: u64) -> Simulated<Vec<String>> {
    let run = TestCloud::virtual_time(seed, async |builder| {
        let mut cloud = Box::pin(deploy(builder)).await;
        cloud.node("edge-2").unwrap().kill().await;
        cloud.node("edge-3").unwrap().kill().await;
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
    let run = outage(1);
    assert_eq!(run.result, ["edge-1"; 3], "{:#?}", run.trace.kept);
    assert!(run.elapsed >= Duration::from_secs(180), "{:?}", run.elapsed);
    assert_eq!(outage(1), run);
}

#[test]
fn mappers_are_told_that_they_cannot_reach_a_node() {
    let run = TestCloud::virtual_time(1, async |builder| {
        let cloud = Box::pin(builder.start()).await.unwrap();
        let refused = cloud.run_mapper("edge-1", "virtual", Virtual).unwrap_err();
        cloud.stop().await.unwrap();
        refused.to_string()
    });
    let why = run.unwrap().result;
    assert!(
        why.starts_with("node edge-1 has no socket for mappers"),
        "{why}"
    );
}

#[test]
fn seeds_give_the_same_traces_in_every_process() {
    let given = env::var(SEEDS.0).ok().map(|seeds| seeds.parse().unwrap());
    let seeds = given.unwrap_or(SEEDS.1);
    if env::var_os(PROCESS).is_some() {
        for seed in 1..=seeds {
            let trace = deployment(seed).trace;
            println!(
                "{DIGEST}{seed}: {:016x} of {} lines",
                trace.digest, trace.lines
            );
        }
        return;
    }
    let start = || {
        let name = "virtual_time::seeds_give_the_same_traces_in_every_process";
        let mut process = Command::new(env::current_exe().unwrap());
        process
            .args(["--exact", name, "--nocapture"])
            .env(PROCESS, "1")
            .stdout(Stdio::piped());
        process.spawn().unwrap()
    };
    let processes = [start(), start()];
    let [first, second] = processes.map(|process| {
        let output = process.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let traces = text.lines().filter_map(|line| line.split_once(DIGEST));
        let traces: Vec<_> = traces.map(|(_, trace)| trace.to_owned()).collect();
        assert_eq!(traces.len() as u64, seeds, "{text}");
        traces
    });
    assert_eq!(first, second);
    let digests = first.iter().filter_map(|trace| trace.split_once(": "));
    let different: BTreeSet<_> = digests.map(|(_, digest)| digest).collect();
    assert_eq!(different.len() as u64, seeds, "seeds make a difference");
}
