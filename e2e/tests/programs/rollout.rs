//! A rollout that cannot get on: the new pod wants a port that the old one has until the new one is ready.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use anyhow::ensure;
use e2e::{Cloud, Watch, at};

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
    spec:
      containers:
      - name: main
        image: nginx
        ports:
        - {containerPort: 80, hostPort: 8080}
";

/// How long nothing may come of it: time for several rounds of every back-off between a controller, the scheduler and a node.
const STUCK_FOR: Duration = Duration::from_secs(20);

#[test]
fn a_rollout_that_cannot_fit_makes_one_pod_and_waits() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let cloud = Cloud::start_with(directory.path(), &["--nodes", "1"])?;
    let kubectl = &cloud.kubectl;
    let watch = Watch::start(kubectl, "pods", directory.path())?;
    kubectl.apply(DEPLOYMENT)?;
    kubectl.run(&["rollout", "status", "deployment/web", "--timeout=90s"])?;
    let first: BTreeSet<String> = watch
        .events()
        .iter()
        .map(|event| event.uid().to_owned())
        .collect();
    ensure!(first.len() == 1, "{first:?}");

    kubectl.run(&["rollout", "restart", "deployment/web"])?;
    let waiting = watch.wait("a pod that fits nowhere", |event| {
        let conditions = event.object["status"]["conditions"].as_array();
        let is_stuck = |condition: &serde_json::Value| condition["reason"] == "Unschedulable";
        !first.contains(event.uid()) && conditions.is_some_and(|all| all.iter().any(is_stuck))
    })?;
    at(Instant::now() + STUCK_FOR);
    let status = kubectl
        .output(&["rollout", "status", "deployment/web", "--timeout=1s"])?
        .failure()?;
    ensure!(status.contains("timed out"), "{status}");

    let events = watch.events();
    let made: BTreeSet<&str> = events.iter().map(|event| event.uid()).collect();
    ensure!(made.len() == 2, "{} pods were made: {made:?}", made.len());
    let is_new = |uid: &str| uid == waiting.uid();
    let gone: Vec<_> = events
        .iter()
        .filter(|event| event.kind == "DELETED")
        .map(|event| event.name())
        .collect();
    ensure!(
        gone.is_empty() && made.iter().any(|uid| is_new(uid)),
        "{gone:?} went"
    );
    // the old one serves on, until somebody decides otherwise
    ensure!(kubectl.json(&["get", "deployment", "web"])?["status"]["readyReplicas"] == 1);
    kubectl.run(&["rollout", "undo", "deployment/web"])?;
    kubectl.run(&["rollout", "status", "deployment/web", "--timeout=90s"])?;
    watch.wait("the end of the pod that fits nowhere", |event| {
        event.kind == "DELETED" && is_new(event.uid())
    })?;
    Ok(())
}
