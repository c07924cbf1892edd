//! Pods from files of the node, with and without a cloud.

use std::{fs, path::PathBuf};

use anyhow::{Context, ensure};
use e2e::{
    Cloud, NODE, Node,
    containerd::{Containerd, RealRig},
    until,
};
use serde_json::{Value, json};

use crate::{case::pod, probes::wait_event};

/// The manifest of a static pod called `web`.
fn manifest(colour: &str) -> String {
    let mut web = pod(
        "web",
        &json!({"containers": [{"env": [{"name": "COLOUR", "value": colour}]}]}),
    );
    // what binds it to the node is for the node to say
    web["spec"]["nodeName"].take();
    web.to_string()
}

fn folder(rig: &RealRig) -> PathBuf {
    rig.directory.path().join("node/manifests")
}

/// Waits for a ready mirror that is not the one with `old` UID: its UID and the id of its container.
fn mirror(rig: &RealRig, old: &str) -> anyhow::Result<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mirror = until("a mirror of the static pod", || -> anyhow::Result<Value> {
        let mirror = rig.pod("web-edge-1")?.context("there is none")?;
        let meta = &mirror["metadata"];
        ensure!(
            meta["annotations"]["kubernetes.io/config.mirror"].is_string(),
            "it is no mirror: {meta}"
        );
        ensure!(text(&meta["uid"]) != old, "it is the old one");
        let status = &mirror["status"]["containerStatuses"][0];
        ensure!(
            status["ready"] == true,
            "it is not ready: {}",
            mirror["status"]
        );
        Ok(mirror)
    })?;
    Ok((
        text(&mirror["metadata"]["uid"]),
        RealRig::container_id(&mirror, "main")?,
    ))
}

#[test]
fn static_pods() -> anyhow::Result<()> {
    let mut rig = RealRig::start()?;
    let file = folder(&rig).join("web.yaml");
    fs::create_dir_all(folder(&rig))?;
    fs::write(&file, manifest("blue"))?;
    // the folder is new: the agent looks for it now and then, and at once when it starts
    restart(&mut rig)?;
    let (first, container) = mirror(&rig, "")?;
    ensure!(
        rig.inside("web-edge-1", "echo $COLOUR")?.trim_end() == "blue",
        "the pod has another environment"
    );
    restart(&mut rig)?;
    rig.cloud
        .kubectl
        .run(&["delete", "pod", "web-edge-1", "--wait=false"])?;
    let (second, same) = mirror(&rig, &first)?;
    ensure!(
        same == container,
        "the container was restarted: {same}, not {container}"
    );
    fs::write(&file, manifest("red"))?;
    let (third, other) = mirror(&rig, &second)?;
    ensure!(
        other != container && third != first,
        "the changed file has the old pod"
    );
    ensure!(
        rig.inside("web-edge-1", "echo $COLOUR")?.trim_end() == "red",
        "the new pod is as the old one"
    );
    // what can be read no more ends nothing, and other files count
    for (name, text) in [("web.yaml", "{"), ("bad.json", "{\"kind\": \"Service\"}")] {
        fs::write(folder(&rig).join(name), text)?;
        let told = format!("Static pod manifest {name} is not taken: ");
        wait_event(&rig, NODE, "InvalidStaticPod", &told)?;
    }
    let (_, same) = mirror(&rig, "")?;
    ensure!(
        same == other,
        "a bad file ended the pod: {same}, not {other}"
    );
    fs::remove_file(&file)?;
    until(
        "no mirror and nothing on the machine",
        || -> anyhow::Result<()> {
            ensure!(rig.pod("web-edge-1")?.is_none(), "the mirror is there");
            let traces = rig.containerd.traces()?;
            ensure!(traces.is_empty(), "{traces:#?}");
            Ok(())
        },
    )
}

fn restart(rig: &mut RealRig) -> anyhow::Result<()> {
    rig.node.process.kill()?;
    rig.node.process.start_again()?;
    rig.node.process.wait_for("edge-agent started")?;
    rig.cloud.wait_node("Ready")
}

#[test]
fn a_static_pod_starts_on_a_node_that_has_never_met_a_cloud() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let mut cloud = Cloud::start(directory.path())?;
    let token = cloud.token()?;
    cloud.process.terminate()?;
    let containerd = Containerd::start(directory.path())?;
    let manifests = directory.path().join("node/manifests");
    fs::create_dir_all(&manifests)?;
    fs::write(manifests.join("web.yaml"), manifest("blue"))?;
    let node = Node::start(directory.path(), &cloud, &token)?;
    let running = until("the pod's container", || -> anyhow::Result<String> {
        let all = containerd
            .raw_cri
            .list(None)
            .map_err(|status| anyhow::anyhow!("{status}"))?;
        let running = |one: &&wire::cri::Container| {
            one.state() == wire::cri::ContainerState::ContainerRunning
        };
        let found = all.iter().find(running).context("no container runs")?;
        anyhow::Ok(found.id.clone())
    })?;
    cloud.process.start_again()?;
    cloud.process.wait_for("is ready")?;
    let rig = RealRig {
        node,
        containerd,
        cloud,
        directory,
    };
    let (_, container) = mirror(&rig, "")?;
    ensure!(
        container == running,
        "the container was restarted when the cloud came: {container}, not {running}"
    );
    fs::remove_file(manifests.join("web.yaml"))?;
    until("nothing on the machine", || -> anyhow::Result<()> {
        let traces = rig.containerd.traces()?;
        ensure!(traces.is_empty(), "{traces:#?}");
        Ok(())
    })
}
