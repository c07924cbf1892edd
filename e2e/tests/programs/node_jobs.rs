//! Node jobs while the link, the agent or the disk fails.

use std::{fs, io::Write, path::Path};

use anyhow::ensure;
use e2e::{Cloud, NODE, Node, Rig, Runtime, SmallDisk, actions, run_with_input, until};
use nix::sys::statvfs::statvfs;
use serde_json::{Value, json};

const JOBS: &str = "imageprepulljobs";

/// Lets the agent carry out jobs.
fn enable(node: &mut Node) -> anyhow::Result<()> {
    node.add_after("modules:", "  taskManager: {enable: true}")?;
    restart(node)
}

fn restart(node: &mut Node) -> anyhow::Result<()> {
    node.process.kill()?;
    node.process.start_again()?;
    node.process.wait_for("edge-agent started")
}

fn create(cloud: &Cloud, name: &str, image: &str, items: &[&str]) -> anyhow::Result<e2e::Output> {
    let job = json!({"apiVersion": "operations.kubeedge.io/v1alpha2", "kind": "ImagePrePullJob", "metadata": {"name": name},
        "spec": {"imagePrePullTemplate": {"images": [image], "nodeNames": [NODE], "checkItems": items}}});
    let mut create = cloud.kubectl.command(&["create", "-f", "-"]);
    run_with_input(&mut create, &job.to_string())
}

fn status(cloud: &Cloud, name: &str) -> anyhow::Result<Value> {
    let path = format!("/apis/operations.kubeedge.io/v1alpha2/{JOBS}/{name}");
    Ok(cloud.api.get(&path)?.unwrap_or_default()["status"].clone())
}

#[test]
fn an_action_runs_once_although_the_link_is_cut_before_its_report() -> anyhow::Result<()> {
    let mut rig = Rig::start()?;
    enable(&mut rig.node)?;
    rig.cloud.wait_node("Ready")?;
    // the node gets its action, and its reports are lost
    rig.cloud.faults(&[
        "set",
        NODE,
        "--drop",
        "1",
        "--kind",
        "job-status",
        "--direction",
        "toCloud",
    ])?;
    create(&rig.cloud, "cut", "slow-100ms.sim/app:1", &["mem"])?.success()?;
    let received = |rig: &Rig| rig.node.process.log().matches("node job received").count();
    until("the node has done the job", || {
        let images = rig.runtime.cri.images()?;
        ensure!(
            images
                .iter()
                .any(|name| name.contains("slow-100ms.sim/app")),
            "{images:?}"
        );
        Ok(())
    })?;
    ensure!(received(&rig) == 1);
    rig.cloud.faults(&["cut", NODE])?;
    rig.cloud.faults(&["restore", NODE])?;
    let ended = rig.cloud.wait_job(JOBS, "cut", "Completed")?;
    ensure!(actions(&ended) == ["Check", "Pull"], "{ended}");
    // it was asked again, and has only repeated its reports
    ensure!(received(&rig) == 2, "{}", rig.node.process.log());
    let pulled = rig
        .runtime
        .process
        .log()
        .matches("slow-100ms.sim/app:1")
        .count();
    ensure!(pulled < 2, "{}", rig.runtime.process.log());
    Ok(())
}

#[test]
fn reports_of_a_node_that_was_offline_arrive_in_order_also_after_a_restart() -> anyhow::Result<()> {
    let mut rig = Rig::start()?;
    enable(&mut rig.node)?;
    rig.cloud.wait_node("Ready")?;
    let pulling = |rig: &Rig, name: &str| {
        until("the node pulls", || {
            let now = status(&rig.cloud, name)?;
            ensure!(actions(&now) == ["Check"], "{now}");
            Ok(())
        })
    };
    // killed while it pulls, the agent pulls again
    create(&rig.cloud, "killed", "slow-3s.sim/app:1", &[])?.success()?;
    pulling(&rig, "killed")?;
    restart(&mut rig.node)?;
    let ended = rig.cloud.wait_job(JOBS, "killed", "Completed")?;
    ensure!(actions(&ended) == ["Check", "Pull"], "{ended}");
    create(&rig.cloud, "away", "slow-2s.sim/app:1", &[])?.success()?;
    pulling(&rig, "away")?;
    rig.cloud.faults(&["cut", NODE])?;
    until("the image is there", || {
        let images = rig.runtime.cri.images()?;
        ensure!(
            images.iter().any(|name| name.contains("slow-2s.sim/app")),
            "{images:?}"
        );
        Ok(())
    })?;
    restart(&mut rig.node)?;
    ensure!(actions(&status(&rig.cloud, "away")?) == ["Check"]);
    rig.cloud.faults(&["restore", NODE])?;
    let ended = rig.cloud.wait_job(JOBS, "away", "Completed")?;
    ensure!(actions(&ended) == ["Check", "Pull"], "{ended}");
    ensure!(
        ended["nodeStatus"][0]["imageStatus"][0]["status"] == "True",
        "{ended}"
    );
    Ok(())
}

/// Fills a disk to more than 85 %; returns the file.
fn fill(place: &Path) -> anyhow::Result<std::path::PathBuf> {
    let path = place.join("full");
    let mut file = fs::File::create(&path)?;
    loop {
        let disk = statvfs(place)?;
        if disk.blocks_free() * 100 < disk.blocks() * 15 {
            return Ok(path);
        }
        file.write_all(&vec![0; 1 << 20])?;
    }
}

#[test]
fn a_node_fails_the_check_of_a_disk_that_is_nearly_full() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let place = directory.path().join("disk");
    let _disk = SmallDisk::mount(&place, "size=256m")?;
    let cloud = Cloud::start(&place)?;
    let _runtime = Runtime::start(&place)?;
    let mut node = Node::start(&place, &cloud, &cloud.token()?)?;
    enable(&mut node)?;
    cloud.wait_node("Ready")?;
    let image = "docker.io/library/app:1";
    for (name, items) in [("none", &[][..]), ("disk", &["disk"])] {
        create(&cloud, name, image, items)?.success()?;
        cloud.wait_job(JOBS, name, "Completed")?;
    }
    let refused = create(&cloud, "gpu", image, &["gpu"])?.failure()?;
    ensure!(
        refused.contains("spec.imagePrePullTemplate.checkItems"),
        "{refused}"
    );
    let full = fill(&place)?;
    create(&cloud, "full", image, &["disk"])?.success()?;
    let status = cloud.wait_job(JOBS, "full", "Failure")?;
    let reason = status["nodeStatus"][0]["reason"]
        .as_str()
        .unwrap_or_default();
    ensure!(
        reason.starts_with("Check: ") && reason.contains("80 %"),
        "{reason}"
    );
    ensure!(actions(&status) == ["Check"], "{status}");
    Ok(fs::remove_file(full)?)
}
