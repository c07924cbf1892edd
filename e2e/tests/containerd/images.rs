//! Images that come from a registry, or do not.

use anyhow::ensure;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use e2e::containerd::RealRig;
use serde_json::{Value, json};

use crate::{
    case::{apply, leaves_nothing, pod},
    probes::wait_event,
    registry::{Registry, USER},
};

fn waits(rig: &RealRig, name: &str, reason: &str) -> anyhow::Result<Value> {
    rig.wait_pod(name, |pod| {
        let waiting = &pod["status"]["containerStatuses"][0]["state"]["waiting"];
        if waiting["reason"] == reason {
            Ok(())
        } else {
            Err(format!("it does not wait for {reason}"))
        }
    })
}

#[test]
fn images_are_pulled_with_the_pods_secrets() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    let registry = Registry::start(&rig.directory.path().join("containerd"))?;
    let secret = |name: &str, key: &str, kind: &str, content: Value| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": kind, "stringData": {key: content.to_string()}});
    let auth = json!({"auth": STANDARD.encode(USER)});
    let wrong = json!({"username": "puller", "password": "mistaken"});
    let host = &registry.host;
    let new = |auth: &Value| json!({"auths": {host: auth}});
    let image = |repository: &str| format!("{host}/{repository}:1");
    let with = |name: &str, image: &str, secrets: &[&str]| {
        let secrets: Vec<_> = secrets.iter().map(|name| json!({"name": name})).collect();
        pod(
            name,
            &json!({"imagePullSecrets": secrets, "containers": [{"image": image}]}),
        )
    };
    apply(
        &rig,
        &[
            secret(
                "good",
                ".dockerconfigjson",
                "kubernetes.io/dockerconfigjson",
                new(&auth),
            ),
            secret(
                "old",
                ".dockercfg",
                "kubernetes.io/dockercfg",
                json!({host: auth}),
            ),
            secret(
                "wrong",
                ".dockerconfigjson",
                "kubernetes.io/dockerconfigjson",
                new(&wrong),
            ),
        ],
    )?;
    apply(
        &rig,
        &[
            with("open", &image("open/image"), &[]),
            with("good", &image("closed/image"), &["nowhere", "good"]),
            with("old", &image("closed/other"), &["old"]),
            // the next one, if the first is out of date
            with("second", &image("closed/second"), &["wrong", "good"]),
            with("wrong", &image("closed/wrong"), &["wrong"]),
            with("none", &image("closed/none"), &[]),
            with("missing", &image("open/image:none").replace(":1", ""), &[]),
            with(
                "digest",
                &format!("{host}/open/digest@{}", registry.digest),
                &[],
            ),
        ],
    )?;
    for name in ["open", "good", "old", "second", "digest"] {
        let seen = rig.wait_ready(name)?;
        let status = &seen["status"]["containerStatuses"][0];
        let id = status["imageID"].as_str().unwrap_or_default();
        ensure!(
            id.ends_with(&format!("@{}", registry.digest)),
            "{name}: an id that is no digest: {status}"
        );
        wait_event(&rig, name, "Pulled", "Successfully pulled image")?;
    }
    for name in ["wrong", "none", "missing"] {
        let seen = waits(&rig, name, "ImagePullBackOff")?;
        let waiting = &seen["status"]["containerStatuses"][0]["state"]["waiting"];
        let said = waiting["message"].as_str().unwrap_or_default();
        ensure!(said.starts_with("Back-off pulling image"), "{name}: {said}");
        ensure!(
            !said.contains("mistaken") && !said.contains("sesame"),
            "a password in: {said}"
        );
        for text in [
            "Failed to pull image",
            "Error: ErrImagePull",
            "Error: ImagePullBackOff",
        ] {
            wait_event(&rig, name, "Failed", text)?;
        }
        wait_event(&rig, name, "BackOff", "Back-off pulling image")?;
    }
    // the Secret is put right: the pod need not be
    apply(
        &rig,
        &[secret(
            "wrong",
            ".dockerconfigjson",
            "kubernetes.io/dockerconfigjson",
            new(&auth),
        )],
    )?;
    rig.wait_ready("wrong")?;
    leaves_nothing(&rig)
}

#[test]
fn pull_policies() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    let registry = Registry::start(&rig.directory.path().join("containerd"))?;
    let image = format!("{}/open/image:1", registry.host);
    let with = |name: &str, policy: &str| {
        pod(
            name,
            &json!({"containers": [{"image": image, "imagePullPolicy": policy}]}),
        )
    };
    apply(&rig, &[with("never", "Never")])?;
    waits(&rig, "never", "ErrImageNeverPull")?;
    wait_event(
        &rig,
        "never",
        "ErrImageNeverPull",
        "is not present with pull policy of Never",
    )?;
    apply(&rig, &[with("first", "IfNotPresent")])?;
    rig.wait_ready("first")?;
    let asked = || {
        registry
            .given
            .lock()
            .map(|all| all.len())
            .unwrap_or_default()
    };
    let before = asked();
    ensure!(before > 0, "nobody asked for the image");
    apply(&rig, &[with("second", "IfNotPresent")])?;
    rig.wait_ready("second")?;
    ensure!(asked() == before, "an image that was there was asked for");
    let told = rig.cloud.events("second", "Pulled")?;
    ensure!(
        told.iter()
            .any(|text| text.contains("already present on machine")),
        "{told:?}"
    );
    apply(&rig, &[with("always", "Always")])?;
    rig.wait_ready("always")?;
    ensure!(asked() > before, "an image was not asked for");
    // it is here now
    rig.wait_ready("never")?;
    leaves_nothing(&rig)
}
