//! Node jobs on real containers: images that a job pulls, and edgecore.yaml that a job changes.

use std::fs;

use anyhow::{Context, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use e2e::{NODE, actions, containerd::RealRig};
use serde_json::{Value, json};

use crate::{
    case::{apply, leaves_nothing, pod},
    registry::{Registry, USER},
};

/// Starts a node that carries out jobs.
fn start(settings: &str) -> anyhow::Result<RealRig> {
    let mut rig = RealRig::start()?;
    rig.restart_with_lines(&[("modules:", settings)])?;
    rig.cloud.wait_node("Ready")?;
    Ok(rig)
}

fn pull(name: &str, images: &[String], more: Value) -> Value {
    let mut template = json!({"images": images, "nodeNames": [NODE], "checkItems": []});
    for (key, value) in more.as_object().into_iter().flatten() {
        template[key] = value.clone();
    }
    json!({"apiVersion": "operations.kubeedge.io/v1alpha2", "kind": "ImagePrePullJob", "metadata": {"name": name},
        "spec": {"imagePrePullTemplate": template}})
}

#[test]
fn a_job_pulls_images_with_the_credentials_of_its_secret() -> anyhow::Result<()> {
    let rig = start("  taskManager: {enable: true}")?;
    let registry = Registry::start(&rig.directory.path().join("containerd"))?;
    let host = &registry.host;
    let image = |repository: &str| format!("{host}/{repository}:1");
    let auths = json!({"auths": {host: {"auth": STANDARD.encode(USER)}}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "registry"},
        "type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": auths.to_string()}});
    // what KubeEdge reads: the credentials without a registry
    let (user, password) = USER.split_once(':').context("no password")?;
    let plain = json!({"username": user, "password": password}).to_string();
    let mut other = secret.clone();
    other["metadata"]["name"] = json!("plain");
    other["stringData"] = json!({".dockerconfigjson": plain});
    apply(&rig, &[secret, other])?;
    let closed = image("closed/image");
    let with = json!({"imageSecrets": "default/registry"});
    apply(
        &rig,
        &[
            pull("good", &[image("open/image"), closed.clone()], with.clone()),
            pull(
                "plain",
                &[closed.replace("image", "third")],
                json!({"imageSecrets": "default/plain"}),
            ),
            pull(
                "none",
                &[closed.clone().replace("image", "other")],
                json!({}),
            ),
            pull(
                "absent",
                std::slice::from_ref(&closed),
                json!({"imageSecrets": "default/nowhere"}),
            ),
            pull(
                "missing",
                &[image("open/image"), image("open/image").replace(":1", ":2")],
                json!({"retryTimes": 1}),
            ),
        ],
    )?;
    let status = rig
        .cloud
        .wait_job("imageprepulljobs", "good", "Completed")?;
    rig.cloud
        .wait_job("imageprepulljobs", "plain", "Completed")?;
    let node = &status["nodeStatus"][0];
    ensure!(
        node["imageStatus"]
            .as_array()
            .is_some_and(|all| all.len() == 2 && all.iter().all(|one| one["status"] == "True")),
        "{node}"
    );
    let images = rig.containerd.images()?;
    for name in [image("open/image"), closed] {
        ensure!(
            images.contains_key(&name),
            "{name} is not there: {images:?}"
        );
    }
    for (name, text) in [
        ("none", "could not be pulled"),
        ("absent", "the Secret default/nowhere cannot be read"),
        ("missing", "could not be pulled"),
    ] {
        let status = rig.cloud.wait_job("imageprepulljobs", name, "Failure")?;
        let reason = status["nodeStatus"][0]["reason"]
            .as_str()
            .unwrap_or_default();
        ensure!(reason.contains(text), "{name}: {status}");
    }
    let status = rig
        .cloud
        .wait_job("imageprepulljobs", "missing", "Failure")?;
    let of_images = &status["nodeStatus"][0]["imageStatus"];
    ensure!(
        of_images[0]["status"] == "True" && of_images[1]["status"] == "False",
        "{of_images}"
    );
    ensure!(
        of_images[1]["reason"]
            .as_str()
            .is_some_and(|reason| !reason.is_empty()),
        "{of_images}"
    );
    leaves_nothing(&rig)
}

#[test]
fn a_job_changes_edgecore_yaml_or_restores_it() -> anyhow::Result<()> {
    let rig = start("  taskManager: {enable: true, allowConnectionUpdates: true}")?;
    apply(&rig, &[pod("web", &json!({}))])?;
    let before = rig.wait_ready("web")?;
    let update = |name: &str, fields: Value| {
        json!({"apiVersion": "operations.kubeedge.io/v1alpha2", "kind": "ConfigUpdateJob", "metadata": {"name": name},
            "spec": {"nodeNames": [NODE], "timeoutSeconds": 30, "updateFields": fields}})
    };
    let text = || fs::read_to_string(&rig.node.config);

    apply(
        &rig,
        &[update("good", json!({"modules.edgeHub.heartbeat": "20"}))],
    )?;
    let status = rig
        .cloud
        .wait_job("configupdatejobs", "good", "Completed")?;
    ensure!(
        actions(&status) == ["Check", "BackUp", "Update"],
        "{status}"
    );
    let changed = text()?;
    ensure!(changed.contains("heartbeat: 20"), "{changed}");

    // what is invalid changes nothing
    apply(
        &rig,
        &[update("bad", json!({"modules.edgeHub.heartbeat": "often"}))],
    )?;
    let status = rig.cloud.wait_job("configupdatejobs", "bad", "Failure")?;
    let reason = status["nodeStatus"][0]["reason"]
        .as_str()
        .unwrap_or_default();
    ensure!(
        reason == "Check: modules.edgeHub.heartbeat: must be a number, not \"often\"",
        "{reason}"
    );
    ensure!(text()? == changed);

    // nobody is at this address: the file is restored, and the node comes back
    apply(
        &rig,
        &[update(
            "dead",
            json!({"modules.edgeHub.websocket.server": "127.0.0.1:1"}),
        )],
    )?;
    let status = rig.cloud.wait_job("configupdatejobs", "dead", "Failure")?;
    let reason = status["nodeStatus"][0]["reason"]
        .as_str()
        .unwrap_or_default();
    ensure!(
        reason
            == "Update: the node has not reached the cloud within 15 s with the new configuration",
        "{status}"
    );
    ensure!(text()? == changed);

    // with this port the agent does not start at all
    let busy = rig.cloud.ports.ws.to_string();
    apply(
        &rig,
        &[update(
            "busy",
            json!({"modules.edged.tailoredKubeletConfig.readOnlyPort": busy}),
        )],
    )?;
    let status = rig.cloud.wait_job("configupdatejobs", "busy", "Failure")?;
    let reason = status["nodeStatus"][0]["reason"]
        .as_str()
        .unwrap_or_default();
    ensure!(
        reason.starts_with("Update: the agent does not start with the new configuration"),
        "{status}"
    );
    ensure!(text()? == changed);

    let after = rig.wait_ready("web")?;
    for field in [
        "/status/containerStatuses/0/containerID",
        "/status/containerStatuses/0/restartCount",
    ] {
        ensure!(before.pointer(field) == after.pointer(field), "{after}");
    }
    leaves_nothing(&rig)
}
