//! Snapshots: a cloud and its nodes go on as they were, also in virtual time.

use std::{collections::BTreeMap, time::Duration};

use hollow::{
    snapshot::{Error, Snapshot},
    testing::{
        Builder, TestCloud,
        clock::Simulated,
        k8s_openapi::api::{
            apps::v1::Deployment,
            core::v1::{Node, Pod, Secret},
        },
        kube::{
            Api, ResourceExt,
            api::{ListParams, Patch, PatchParams},
        },
    },
};
use serde_json::json;
use tokio::time::sleep;

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      volumes: [{name: key, secret: {secretName: key}}]
      containers: [{name: main, image: nginx, volumeMounts: [{name: key, mountPath: /key}]}]
---
apiVersion: v1
kind: Secret
metadata: {name: key}
stringData: {key: s3cret}
";

async fn deploy(builder: Builder) -> TestCloud {
    let cloud = builder.nodes(2).start().await.unwrap();
    cloud.apply(WEB).await.unwrap();
    wait_ready(&cloud, 4).await;
    cloud
}

async fn wait_ready(cloud: &TestCloud, pods: i32) {
    let deployments = Api::<Deployment>::default_namespaced(cloud.client());
    let ready = move |deployment: Option<&Deployment>| {
        let status = deployment.and_then(|found| found.status.as_ref());
        status.and_then(|status| status.ready_replicas) == Some(pods)
    };
    cloud.wait(deployments, "web", ready).await.unwrap();
}

/// Returns what identifies pods, nodes, containers and the CA of a cloud.
async fn identities(cloud: &TestCloud) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let pods = Api::<Pod>::default_namespaced(cloud.client());
    for pod in pods.list(&ListParams::default()).await.unwrap() {
        let id = pod
            .status
            .as_ref()
            .unwrap()
            .container_statuses
            .as_ref()
            .unwrap()[0]
            .clone();
        let now = format!(
            "{:?} {:?} restarts {}",
            pod.uid(),
            id.container_id,
            id.restart_count
        );
        all.insert(format!("pod {}", pod.name_any()), now);
    }
    for node in Api::<Node>::all(cloud.client())
        .list(&ListParams::default())
        .await
        .unwrap()
    {
        all.insert(
            format!("node {}", node.name_any()),
            format!("{:?}", node.uid()),
        );
    }
    for secret in Api::<Secret>::all(cloud.client())
        .list(&ListParams::default())
        .await
        .unwrap()
    {
        // the join token is renewed at each start
        if secret.name_any() != "tokensecret" {
            all.insert(
                format!("secret {}", secret.name_any()),
                format!("{:?} {:?}", secret.uid(), secret.data),
            );
        }
    }
    for node in cloud.nodes() {
        let mut running: Vec<_> = node
            .runtime
            .containers()
            .into_iter()
            .map(|one| one.id)
            .collect();
        running.sort_unstable();
        all.insert(format!("containers of {}", node.name), running.join(" "));
    }
    all
}

/// Writes a snapshot as `cloudsim snapshot` does.
fn write(snapshot: Snapshot, file: &std::path::Path) {
    let lines: Vec<_> = snapshot.into_lines().collect();
    std::fs::write(file, lines.concat()).unwrap();
}

#[tokio::test]
async fn a_cloud_goes_on_as_it_was() {
    let cloud = Box::pin(deploy(TestCloud::builder())).await;
    let before = identities(&cloud).await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("snapshot");
    write(cloud.snapshot().unwrap(), &file);
    // what happens afterwards is not in it
    cloud
        .apply("{apiVersion: v1, kind: Secret, metadata: {name: later}}")
        .await
        .unwrap();
    cloud.stop().await.unwrap();

    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    let damaged = directory.path().join("damaged");
    std::fs::write(&damaged, bytes).unwrap();
    assert!(Snapshot::read(&damaged).is_err());

    let snapshot = Snapshot::read(&file).unwrap().unwrap();
    let second = TestCloud::builder()
        .nodes(0)
        .snapshot(snapshot)
        .start()
        .await
        .unwrap();
    assert_eq!(identities(&second).await, before);
    // links, volumes and controllers work
    let scaled = Patch::Merge(json!({"spec": {"replicas": 6}}));
    let deployments = Api::<Deployment>::default_namespaced(second.client());
    deployments
        .patch("web", &PatchParams::default(), &scaled)
        .await
        .unwrap();
    wait_ready(&second, 6).await;
    let after = identities(&second).await;
    let pods =
        |all: &BTreeMap<String, String>| all.keys().filter(|key| key.starts_with("pod ")).count();
    assert_eq!(pods(&after), 6);
    let kept = before
        .iter()
        .filter(|(key, _)| !key.starts_with("containers"));
    for (key, value) in kept {
        assert_eq!(after.get(key), Some(value), "{key}");
    }
    second.stop().await.unwrap();
}

#[test]
fn forks_of_a_snapshot_differ_only_in_their_faults() {
    let taken = TestCloud::virtual_time(1, async |builder| {
        let cloud = Box::pin(deploy(builder)).await;
        sleep(Duration::from_secs(60)).await;
        let snapshot = cloud.snapshot().unwrap();
        cloud.stop().await.unwrap();
        snapshot
    });
    let snapshot = taken.unwrap().result;
    let fork = |cut: Option<&str>| -> Simulated<usize> {
        let run = TestCloud::virtual_time(7, async |builder| {
            let start = Box::pin(builder.nodes(0).snapshot(snapshot.clone()).start());
            let cloud = start.await.unwrap();
            if let Some(node) = cut {
                cloud.faults().cut_link(node);
            }
            sleep(Duration::from_secs(450)).await;
            let pods = Api::<Pod>::default_namespaced(cloud.client());
            let pods = pods.list(&ListParams::default()).await.unwrap().items;
            cloud.stop().await.unwrap();
            let live = pods
                .iter()
                .filter(|pod| pod.metadata.deletion_timestamp.is_none());
            live.filter(|pod| pod.spec.as_ref().unwrap().node_name.as_deref() == Some("edge-2"))
                .count()
        });
        run.unwrap()
    };
    let (calm, again, cut) = (fork(None), fork(None), fork(Some("edge-2")));
    assert_eq!(calm, again);
    assert!(
        calm.result > 0 && cut.result == 0,
        "{} {}",
        calm.result,
        cut.result
    );
    assert_ne!(calm.trace, cut.trace);
}

#[test]
fn what_is_no_usable_snapshot_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("snapshot");
    let head = |version: &str, nodes: usize| json!({"apiVersion": "cloudsim/v1", "kind": "Snapshot", "version": version, "taken": "2030-01-01T00:00:00Z", "nodes": nodes});
    let own = env!("CARGO_PKG_VERSION");
    let cloud = json!({"revision": 1, "objects": []});
    for (text, why) in [
        (
            format!("{}\n{cloud}\n", head("0.0.1", 0)),
            "version 0.0.1 wrote the snapshot",
        ),
        (format!("{}\n", head(own, 0)), "line 2 of the snapshot"),
        (
            format!("{}\n{cloud}\n", head(own, 1)),
            "line 3 of the snapshot",
        ),
        (
            format!("{}\n{cloud}\n", head(own, 0)),
            "line 3 of the snapshot",
        ),
        (
            format!("{}\n{cloud}\n{}\n", head(own, 0), json!({"crc32": 7})),
            "the snapshot ",
        ),
    ] {
        std::fs::write(&file, text).unwrap();
        let error: Error = Snapshot::read(&file).unwrap_err();
        assert!(error.to_string().starts_with(why), "{error}");
    }
    for text in ["", "{}", "apiVersion: v1\nkind: Node"] {
        std::fs::write(&file, text).unwrap();
        assert!(Snapshot::read(&file).unwrap().is_none(), "{text}");
    }
}
