//! Full disks: a cloud deletes and starts on one, and an agent starts on one with all its optional modules.

use std::fs;

use anyhow::{Context, ensure};
use e2e::{Cloud, Node, Runtime, SmallDisk, run_with_input, until};
use serde_json::json;

/// A ConfigMap of 700 kB.
fn config_map(number: usize) -> String {
    let data = json!({"a": "x".repeat(700_000)});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("fill-{number}")}, "data": data}).to_string()
}

fn create(cloud: &Cloud, number: usize) -> anyhow::Result<e2e::Output> {
    run_with_input(
        &mut cloud.kubectl.command(&["create", "-f", "-"]),
        &config_map(number),
    )
}

fn delete(cloud: &Cloud, number: usize) -> anyhow::Result<()> {
    cloud
        .kubectl
        .run(&["delete", "configmap", &format!("fill-{number}")])
        .map(drop)
}

#[test]
fn cloud_whose_disk_is_full_deletes_and_starts() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let disk = SmallDisk::mount(&directory.path().join("cloud"), "size=24m")?;
    let mut cloud = Cloud::start(directory.path())?;
    let mut created = 0;
    let refusal = loop {
        match create(&cloud, created)?.failure() {
            Err(_) => created += 1,
            Ok(refusal) => break refusal,
        }
        ensure!(created < 100, "the disk is never full");
    };
    ensure!(
        refusal.contains("only deletions are possible") && refusal.contains("free some space"),
        "{refusal}"
    );
    ensure!(created > 10, "{created}");
    ensure!(
        cloud
            .process
            .log()
            .contains("disk full: used the reserve of the store"),
        "{}",
        cloud.process.log()
    );
    let ready = cloud
        .kubectl
        .output(&["get", "--raw", "/readyz?verbose"])?
        .failure()?;
    ensure!(ready.contains("[-]store failed"), "{ready}");
    delete(&cloud, 0)?;

    // nothing at all is left on the disk when it starts again
    cloud.process.kill()?;
    let full = disk.fill()?;
    cloud.process.start_again()?;
    cloud.process.wait_for("is ready")?;
    let reading = cloud
        .kubectl
        .json(&["get", "configmap", "fill-1", "-o", "json"])?;
    ensure!(
        reading["data"]["a"]
            .as_str()
            .is_some_and(|text| text.len() == 700_000),
        "it is not whole"
    );
    cloud
        .kubectl
        .output(&["get", "--raw", "/readyz"])?
        .failure()?;
    for number in 1..10 {
        delete(&cloud, number)?;
    }

    fs::remove_file(full)?;
    until("the store is well again", || {
        cloud.kubectl.run(&["get", "--raw", "/readyz"]).map(drop)
    })?;
    create(&cloud, 0)?.success()?;
    Ok(())
}

#[test]
fn agent_with_meta_server_starts_on_a_full_disk() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let disk = SmallDisk::mount(&directory.path().join("node"), "size=48m")?;
    let cloud = Cloud::start(directory.path())?;
    let _runtime = Runtime::start(directory.path())?;
    let mut node = Node::start(directory.path(), &cloud, &cloud.token()?)?;
    cloud.wait_node("Ready")?;
    node.add_after("modules:", "  metaManager: {metaServer: {enable: true}}")?;
    node.process.start_again()?;
    node.process.wait_for("MetaServer listening")?;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "steady"}, "spec": {"nodeName": e2e::NODE,
        "containers": [{"name": "main", "image": "registry.example/app:1"}]}});
    cloud.kubectl.apply(&pod.to_string())?;
    cloud.kubectl.run(&[
        "wait",
        "--for=condition=Ready",
        "pod/steady",
        "--timeout=60s",
    ])?;
    let container = || -> anyhow::Result<String> {
        let pod = cloud
            .kubectl
            .json(&["get", "pod", "steady", "-o", "json"])?;
        let status = &pod["status"]["containerStatuses"][0];
        ensure!(status["restartCount"] == 0, "{status}");
        Ok(status["containerID"]
            .as_str()
            .context("no container")?
            .to_owned())
    };
    let before = container()?;

    node.process.kill()?;
    let full = disk.fill()?;
    let copies = directory.path().join("node/metaserver.db-shm");
    let _ = fs::remove_file(copies);
    let full_again = disk.fill();
    node.process.start_again()?;
    node.process.wait_for("edge-agent started")?;
    cloud.wait_node("Ready")?;
    ensure!(node.process.runs(), "{}", node.process.log());
    ensure!(container()? == before, "the container was restarted");

    fs::remove_file(full)?;
    drop(full_again);
    node.process.wait_for("MetaServer listening")?;
    ensure!(container()? == before, "the container was restarted");
    Ok(())
}
