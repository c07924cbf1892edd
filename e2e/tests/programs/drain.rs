//! `kubectl drain`: what it asks before it begins, and whom it waits for.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use e2e::{Cloud, Watch, until};
use serde_json::Value;

/// A Deployment that one pod must always be ready of, a pod of a DaemonSet on each node, and a pod that is nobody's.
const WORKLOADS: &str = "
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec:
  minAvailable: 1
  selector: {matchLabels: {app: web}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
      annotations: {sim.outrigger.dev/main.start-delay: 1s}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {name: main, image: nginx}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata:
      labels: {app: agent}
    spec:
      containers:
      - {name: main, image: nginx}
---
apiVersion: v1
kind: Pod
metadata: {name: bare}
spec:
  nodeName: edge-1
  containers:
  - {name: main, image: nginx}
";

fn app(pod: &Value) -> &str {
    pod["metadata"]["labels"]["app"].as_str().unwrap_or("bare")
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let is_ready =
        |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
    conditions.is_some_and(|all| all.iter().any(is_ready))
        && pod["metadata"]["deletionTimestamp"].is_null()
}

/// The nodes of the ready pods, by app.
fn places(cloud: &Cloud) -> anyhow::Result<BTreeMap<String, Vec<String>>> {
    let mut places = BTreeMap::<String, Vec<String>>::new();
    for pod in cloud
        .api
        .list("/api/v1/namespaces/default/pods")?
        .iter()
        .filter(|pod| is_ready(pod))
    {
        let node = pod["spec"]["nodeName"]
            .as_str()
            .context("a ready pod without a node")?;
        places
            .entry(app(pod).to_owned())
            .or_default()
            .push(node.to_owned());
    }
    places.values_mut().for_each(|nodes| nodes.sort());
    Ok(places)
}

fn until_places(cloud: &Cloud, wanted: &[(&str, &[&str])]) -> anyhow::Result<()> {
    let owned = |nodes: &[&str]| nodes.iter().map(|&node| node.to_owned()).collect();
    let wanted = wanted
        .iter()
        .map(|(app, nodes)| ((*app).to_owned(), owned(nodes)))
        .collect();
    until("the pods in their places", || {
        let found = places(cloud)?;
        ensure!(found == wanted, "{found:?}, not {wanted:?}");
        Ok(())
    })
}

#[test]
fn a_drain_respects_a_budget_daemon_sets_and_pods_of_nobody() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let cloud = Cloud::start_with(directory.path(), &["--nodes", "2"])?;
    let kubectl = &cloud.kubectl;
    for node in ["edge-1", "edge-2"] {
        until("both nodes", || {
            cloud
                .api
                .get(&format!("/api/v1/nodes/{node}"))?
                .context("it has not registered")
        })?;
        kubectl.run(&[
            "wait",
            "--for=condition=Ready",
            &format!("node/{node}"),
            "--timeout=60s",
        ])?;
    }
    // both pods of the Deployment on the node that is to be drained
    kubectl.run(&["cordon", "edge-2"])?;
    kubectl.apply(WORKLOADS)?;
    until_places(
        &cloud,
        &[
            ("web", &["edge-1", "edge-1"]),
            ("agent", &["edge-1", "edge-2"]),
            ("bare", &["edge-1"]),
        ],
    )?;
    kubectl.run(&["uncordon", "edge-2"])?;

    let refused = kubectl.output(&["drain", "edge-1"])?.failure()?;
    ensure!(
        refused.contains("DaemonSet-managed Pods") && refused.contains("--ignore-daemonsets"),
        "{refused}"
    );
    ensure!(
        refused.contains("default/bare") && refused.contains("--force"),
        "{refused}"
    );
    let refused = kubectl
        .output(&["drain", "edge-1", "--ignore-daemonsets"])?
        .failure()?;
    ensure!(
        refused.contains("default/bare") && refused.contains("--force"),
        "{refused}"
    );
    // nothing was evicted
    until_places(
        &cloud,
        &[
            ("web", &["edge-1", "edge-1"]),
            ("agent", &["edge-1", "edge-2"]),
            ("bare", &["edge-1"]),
        ],
    )?;

    let watch = Watch::start(kubectl, "pods", directory.path())?;
    let drained = kubectl.output(&[
        "drain",
        "edge-1",
        "--ignore-daemonsets",
        "--force",
        "--timeout=90s",
    ])?;
    let said = format!("{}{}", drained.text(), drained.stderr);
    drained.success()?;
    // the budget allows one at a time: the other one is asked for again until its replacement is ready
    ensure!(
        said.contains("Cannot evict pod as it would violate the pod's disruption budget"),
        "{said}"
    );
    ensure!(said.contains("node/edge-1 drained"), "{said}");
    until_places(
        &cloud,
        &[
            ("web", &["edge-2", "edge-2"]),
            ("agent", &["edge-1", "edge-2"]),
        ],
    )?;
    ensure!(kubectl.json(&["get", "node", "edge-1"])?["spec"]["unschedulable"] == true);

    // at no time was there less than the budget demands
    let mut pods = BTreeMap::<String, Value>::new();
    let mut seen = 0;
    for event in watch.events() {
        let uid = event.uid().to_owned();
        if event.kind == "DELETED" {
            pods.remove(&uid);
        } else {
            pods.insert(uid, event.object);
        }
        let ready = pods
            .values()
            .filter(|pod| app(pod) == "web" && is_ready(pod))
            .count();
        seen = ready.max(seen);
        // the list at the beginning comes one by one
        ensure!(
            seen == 0 || ready > 0,
            "no pod of the Deployment was ready: {pods:#?}"
        );
    }
    ensure!(seen == 2, "the watch has not seen both pods");
    kubectl.run(&["uncordon", "edge-1"]).map(drop)
}
