//! `cloudsim why`: what keeps a pod from running is broken and mended, and the command names it each time.

use std::process::Command;

use anyhow::ensure;
use e2e::{CLOUDSIM, NODE, Rig, binary, ensure_says, run, until};

const OBJECTS: &str = "
apiVersion: v1
kind: Pod
metadata: {name: needy}
spec:
  containers: [{name: c, image: busybox, envFrom: [{configMapRef: {name: settings}}]}]
---
apiVersion: v1
kind: Pod
metadata: {name: large}
spec:
  containers: [{name: c, image: busybox, resources: {requests: {cpu: 9000}}}]
---
apiVersion: devices.kubeedge.io/v1beta1
kind: Device
metadata: {name: thermometer}
spec: {nodeName: edge-1, deviceModelRef: {name: missing}}
";

const SETTINGS: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {A: b}
";

#[test]
fn first_missing_step_of_an_object_is_named_until_it_is_mended() -> anyhow::Result<()> {
    let mut rig = Rig::start()?;
    rig.cloud.kubectl.apply(OBJECTS)?;
    let why = |object: &str| -> anyhow::Result<(bool, String)> {
        let mut command = Command::new(binary(CLOUDSIM)?);
        let output = run(command
            .args(["why", object, "--kubeconfig"])
            .arg(&rig.cloud.kubeconfig))?;
        Ok((
            output.code == Some(0),
            format!("{}{}", output.text(), output.stderr),
        ))
    };
    let says = |object: &str, words: &[&str]| {
        until(&format!("{words:?} of {object}"), || {
            let (is_complete, text) = why(object)?;
            ensure!(!is_complete, "{text}");
            ensure_says(&text, words)
        })
    };
    let is_complete = |object: &str| {
        until(&format!("all steps of {object}"), || {
            let (is_complete, text) = why(object)?;
            ensure!(is_complete && !text.contains("MISSING"), "{text}");
            Ok(())
        })
    };
    is_complete(&format!("node/{NODE}"))?;
    says("pod/needy", &["MISSING  objects", "ConfigMap settings"])?;
    says("pod/large", &["MISSING  scheduled", "Insufficient cpu"])?;
    says(
        "device/thermometer",
        &["MISSING  model", "no DeviceModel missing"],
    )?;
    says("pod/neddy", &["no pod neddy", "did you mean needy?"])?;
    says("node/edge-2", &["MISSING  registered", "edge-agent join"])?;
    rig.cloud.kubectl.apply(SETTINGS)?;
    is_complete("pod/needy")?;
    rig.node.process.terminate()?;
    for object in ["pod/needy", "node/edge-1"] {
        says(object, &["edge-1 is not connected", "edge-agent check"])?;
    }
    Ok(())
}
