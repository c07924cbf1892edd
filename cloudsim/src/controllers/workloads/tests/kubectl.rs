//! kubectl itself, against a cloud with running controllers.

use std::{collections::BTreeMap, path::Path, process::Command};

use futures::StreamExt;
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment},
    core::v1::{Node, Pod, ReplicationController},
};
use kube::{
    Api, ResourceExt,
    api::PostParams,
    runtime::{WatchStreamExt, wait::await_condition, watcher},
};
use serde_json::json;
use testkit::eventually;
use tokio_util::sync::CancellationToken;

use super::world::{NODES, kubelet};
use crate::{Cloud, Options};

/// Runs kubectl until it succeeds; returns its output.
async fn kubectl(kubeconfig: &Path, line: &str) -> String {
    let mut command = Command::new(testkit::kubectl());
    command
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(line.split(' '))
        .env("HOME", kubeconfig.with_file_name("home"));
    let output = clock::spawn_blocking(move || command.output())
        .await
        .unwrap()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "kubectl {line}: {text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

/// Repeats a command until its output contains all of this.
async fn until(kubeconfig: &Path, line: &str, wanted: &[&str]) -> String {
    eventually(
        &format!("kubectl {line} prints all of {wanted:?}"),
        async || {
            let text = kubectl(kubeconfig, line).await;
            if wanted.iter().all(|wanted| text.contains(wanted)) {
                Ok(text)
            } else {
                Err(text)
            }
        },
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::too_many_lines, reason = "one table or one story")]
async fn a_deployment_is_rolled_out_and_back_and_told_of() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("kubeconfig");
    let cloud = Cloud::start(Options {
        kubeconfig: Some(config.clone().into()),
        ..Options::default().any_ports()
    })
    .await
    .unwrap();
    let client = cloud.client();
    for name in NODES {
        let conditions = json!([{"type": "Ready", "status": "True"}]);
        let node = json!({"metadata": {"name": name}, "status": {"conditions": conditions}});
        Api::<Node>::all(client.clone())
            .create(
                &PostParams::default(),
                &serde_json::from_value(node).unwrap(),
            )
            .await
            .unwrap();
    }
    let stop = CancellationToken::new();
    tokio::spawn(kubelet(client.clone(), stop.clone()));
    const STATUS: &str = "rollout status deployment/web --timeout=60s";

    kubectl(&config, "create deployment web --image=one --replicas=2").await;
    assert!(
        kubectl(&config, STATUS)
            .await
            .contains("successfully rolled out")
    );
    kubectl(&config, "set image deployment/web one=two").await;
    kubectl(&config, STATUS).await;
    let history = kubectl(&config, "rollout history deployment/web").await;
    assert!(
        history.contains("\n1 ") && history.contains("\n2 "),
        "{history}"
    );
    assert!(
        kubectl(&config, "rollout history deployment/web --revision=1")
            .await
            .contains("one")
    );
    kubectl(&config, "rollout undo deployment/web").await;
    kubectl(&config, STATUS).await;
    let image = "get deployment web -o jsonpath={.spec.template.spec.containers[0].image}";
    assert_eq!(kubectl(&config, image).await, "one");
    let history = kubectl(&config, "rollout history deployment/web").await;
    assert!(
        !history.contains("\n1 ") && history.contains("\n3 "),
        "{history}"
    );
    kubectl(&config, "rollout restart deployment/web").await;
    kubectl(&config, STATUS).await;
    kubectl(&config, "rollout pause deployment/web").await;
    kubectl(&config, "set image deployment/web one=three").await;
    let observed = |deployment: Option<&Deployment>| {
        deployment.is_some_and(|deployment| {
            let status = deployment.status.clone().unwrap_or_default();
            status.observed_generation == deployment.metadata.generation
                && status.updated_replicas.is_none()
        })
    };
    await_condition(
        Api::<Deployment>::default_namespaced(client.clone()),
        "web",
        observed,
    )
    .await
    .unwrap();
    kubectl(&config, "rollout resume deployment/web").await;
    kubectl(&config, STATUS).await;

    let told = [
        "ScalingReplicaSet",
        "Scaled up replica set web-",
        "from 0 to 2",
        "deployment-controller",
    ];
    until(&config, "describe deployment web", &told).await;
    until(
        &config,
        "events --for deployment/web",
        &["ScalingReplicaSet"],
    )
    .await;
    until(
        &config,
        "get events",
        &["SuccessfulCreate", "Created pod: web-", "RegisteredNode"],
    )
    .await;
    until(
        &config,
        "get events.events.k8s.io",
        &["SuccessfulCreate", "Created pod: web-"],
    )
    .await;
    let controller = json!({"metadata": {"name": "rc"}, "spec": {"replicas": 1, "template": super::template("rc", "one")}});
    let controller: ReplicationController = serde_json::from_value(controller).unwrap();
    let controllers = Api::<ReplicationController>::default_namespaced(client.clone());
    controllers
        .create(&PostParams::default(), &controller)
        .await
        .unwrap();
    assert!(
        kubectl(&config, "scale rc rc --current-replicas=1 --replicas=3")
            .await
            .contains("scaled")
    );
    until(
        &config,
        "get rc rc",
        &["DESIRED   CURRENT   READY", "rc     3         3         3"],
    )
    .await;
    until(&config, "get all", &["replicationcontroller/rc"]).await;
    kubectl(&config, "delete rc rc").await;
    until(&config, "get pods -l app=rc --ignore-not-found", &[]).await;
    stop.cancel();
    cloud.stop().await.expect("no part of it panicked");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_is_told_where_it_goes_and_why_it_does_not() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("kubeconfig");
    let cloud = Cloud::start(Options {
        kubeconfig: Some(config.clone().into()),
        ..Options::default().any_ports()
    })
    .await
    .unwrap();
    kubectl(&config, "run p --image=one").await;
    let why = [
        "FailedScheduling",
        "default-scheduler",
        "no nodes available to schedule pods",
    ];
    until(&config, "describe pod p", &why).await;
    let labels = json!({"node-role.kubernetes.io/edge": ""});
    let conditions = json!([{"type": "Ready", "status": "True"}]);
    let node = json!({"metadata": {"name": "edge-1", "labels": labels}, "status": {"conditions": conditions}});
    Api::<Node>::all(cloud.client())
        .create(
            &PostParams::default(),
            &serde_json::from_value(node).unwrap(),
        )
        .await
        .unwrap();
    until(
        &config,
        "describe pod p",
        &["Scheduled", "Successfully assigned default/p to edge-1"],
    )
    .await;
    let taint = "node.kubernetes.io/not-ready:NoExecute";
    let patch = r#"patch node edge-1 --subresource=status -p {"status":{"conditions":[{"type":"Ready","status":"False"}]}}"#;
    kubectl(&config, patch).await;
    until(
        &config,
        "describe node edge-1",
        &[
            taint,
            "NodeNotReady",
            "Node edge-1 status is now: NodeNotReady",
        ],
    )
    .await;
    kubectl(&config, &patch.replace("False", "True")).await;
    until(
        &config,
        "describe node edge-1",
        &["Taints:             <none>"],
    )
    .await;
    kubectl(&config, "cordon edge-1").await;
    until(
        &config,
        "describe node edge-1",
        &["node.kubernetes.io/unschedulable:NoSchedule"],
    )
    .await;
    let kubernetes = kubectl(&config, "get service kubernetes").await;
    assert!(kubernetes.contains("10.96.0.1"), "{kubernetes}");
    cloud.stop().await.expect("no part of it panicked");
}

/// Returns the fewest ready pods of an app since it had `count`, until `stop`.
async fn fewest_ready(client: kube::Client, count: usize, stop: CancellationToken) -> usize {
    let events = watcher::watcher(
        Api::<Pod>::default_namespaced(client),
        watcher::Config::default().labels("app=web"),
    );
    let mut events = Box::pin(events.default_backoff().take_until(stop.cancelled_owned()));
    let (mut pods, mut fewest) = (BTreeMap::new(), usize::MAX);
    while let Some(Ok(event)) = events.next().await {
        match event {
            watcher::Event::Apply(pod) | watcher::Event::InitApply(pod) => {
                drop(pods.insert(pod.name_any(), pod))
            }
            watcher::Event::Delete(pod) => drop(pods.remove(&pod.name_any())),
            watcher::Event::Init | watcher::Event::InitDone => {}
        }
        let is_ready =
            |pod: &&Pod| super::super::pods::is_ready(pod) && super::super::pods::is_active(pod);
        let ready = pods.values().filter(is_ready).count();
        if fewest != usize::MAX || ready == count {
            fewest = fewest.min(ready);
        }
    }
    fewest
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_drained_within_the_budget() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("kubeconfig");
    let cloud = Cloud::start(Options {
        kubeconfig: Some(config.clone().into()),
        ..Options::default().any_ports()
    })
    .await
    .unwrap();
    let client = cloud.client();
    let node = json!({"metadata": {"name": NODES[0]}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let nodes = Api::<Node>::all(client.clone());
    nodes
        .create(
            &PostParams::default(),
            &serde_json::from_value(node).unwrap(),
        )
        .await
        .unwrap();
    let stop = CancellationToken::new();
    tokio::spawn(kubelet(client.clone(), stop.clone()));
    let daemon = serde_json::from_value(super::workload("DaemonSet", "agent", json!({}))).unwrap();
    Api::<DaemonSet>::default_namespaced(client.clone())
        .create(&PostParams::default(), &daemon)
        .await
        .unwrap();
    kubectl(&config, "create deployment web --image=one --replicas=3").await;
    kubectl(&config, "rollout status deployment/web --timeout=60s").await;
    let fewest = tokio::spawn(fewest_ready(client.clone(), 3, stop.clone()));
    kubectl(
        &config,
        "create pdb web --selector=app=web --min-available=2",
    )
    .await;
    kubectl(&config, "run bare --image=one").await;
    let budget = "get pdb web -o jsonpath={.status}";
    let allowed = [
        r#""expectedPods":3"#,
        r#""currentHealthy":3"#,
        r#""desiredHealthy":2"#,
        r#""disruptionsAllowed":1"#,
    ];
    until(
        &config,
        budget,
        &[
            allowed.as_slice(),
            &["SufficientPods", r#""observedGeneration":1"#],
        ]
        .concat(),
    )
    .await;
    until(&config, "get pods", &["bare", "agent-"]).await;
    let before = kubectl(&config, "get pods -l app=web -o name").await;
    let daemons = "get pods -l app=agent -o jsonpath={.items[*].metadata.uid}";
    let (daemon, bare) = (
        kubectl(&config, daemons).await,
        "get pod bare --ignore-not-found -o name",
    );

    let mut careless = Command::new(testkit::kubectl());
    careless
        .arg("--kubeconfig")
        .arg(&config)
        .args(["drain", NODES[0], "--timeout=5s"]);
    let refused = clock::spawn_blocking(move || careless.output())
        .await
        .unwrap()
        .unwrap();
    let refused = String::from_utf8_lossy(&refused.stderr).into_owned();
    for word in [
        "DaemonSet-managed Pods",
        "default/agent-",
        "declare no controller",
        "default/bare",
    ] {
        assert!(refused.contains(word), "{refused}");
    }
    let drained = format!(
        "drain {} --ignore-daemonsets --force --timeout=90s",
        NODES[0]
    );
    assert!(kubectl(&config, &drained).await.contains("drained"));
    assert_eq!(kubectl(&config, bare).await, "");
    assert_eq!(kubectl(&config, daemons).await, daemon);
    kubectl(&config, "rollout status deployment/web --timeout=60s").await;
    let after = kubectl(&config, "get pods -l app=web -o name").await;
    assert!(
        before.lines().all(|name| !after.contains(name)),
        "{before}{after}"
    );
    until(&config, budget, &allowed).await;
    stop.cancel();
    assert_eq!(fewest.await.unwrap(), 2);
    cloud.stop().await.expect("no part of it panicked");
}
