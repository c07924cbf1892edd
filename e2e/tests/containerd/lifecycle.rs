//! From the first init container to the last status.

use std::{
    fs,
    time::{Duration, Instant},
};

use anyhow::ensure;
use e2e::{
    containerd::{IMAGE, RealRig},
    until,
};
use serde_json::{Value, json};

use crate::case::{apply, leaves_nothing, pod};

/// Seconds: more than a test has patience.
const LONG: u32 = 600;

fn shell(words: &str) -> Value {
    json!(["sh", "-c", words])
}

#[test]
fn ends_and_phases() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    let ends = |name: &str, policy: &str, words: &str| {
        pod(name, &json!({"restartPolicy": policy, "containers": [{"command": shell(words)}]}))
    };
    apply(
        &rig,
        &[
            ends("succeeds", "Never", "echo done; exit 0"),
            ends("fails", "Never", "exit 3"),
            ends("killed", "Never", "kill -9 $$; kill -9 1; trap '' TERM; exit 9"),
            ends("again", "Always", "exit 4"),
            ends("on-failure-well", "OnFailure", "exit 0"),
            ends("on-failure-badly", "OnFailure", "exit 5"),
            pod(
                "no-program",
                &json!({"restartPolicy": "Never", "containers": [{"command": ["/no/such/program"]}]}),
            ),
            pod(
                "no-image",
                &json!({"containers": [{"image": "docker.io/e2e/none:1", "imagePullPolicy": "Never"}]}),
            ),
            pod("bad-image", &json!({"containers": [{"image": "Not An Image"}]})),
        ],
    )?;
    for (name, phase, code, reason) in [
        ("succeeds", "Succeeded", 0, "Completed"),
        ("fails", "Failed", 3, "Error"),
        ("on-failure-well", "Succeeded", 0, "Completed"),
    ] {
        let seen = rig.wait_phase(name, phase)?;
        let status = &seen["status"]["containerStatuses"][0];
        let ended = &status["state"]["terminated"];
        ensure!(ended["exitCode"] == code && ended["reason"] == reason, "{name}: {status}");
        ensure!(status["restartCount"] == 0, "{name}: {status}");
        ensure!(ended["startedAt"].is_string() && ended["finishedAt"].is_string(), "{name}: {status}");
    }
    for (name, code) in [("again", 4), ("on-failure-badly", 5)] {
        let seen = rig.wait_pod(name, |pod| {
            let status = &pod["status"]["containerStatuses"][0];
            let waits = status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
                && status["restartCount"].as_u64() >= Some(1);
            if waits { Ok(()) } else { Err("it is not in a later back-off".to_owned()) }
        })?;
        let status = &seen["status"]["containerStatuses"][0];
        ensure!(status["lastState"]["terminated"]["exitCode"] == code, "{name}: {status}");
        ensure!(seen["status"]["phase"] == "Running", "{name}: {}", seen["status"]);
    }
    waiting(&rig, "no-image", "ErrImageNeverPull", "is not present with pull policy of Never")?;
    waiting(&rig, "bad-image", "InvalidImageName", "Not An Image")?;
    rig.wait_pod("no-program", |pod| {
        let state = &pod["status"]["containerStatuses"][0]["state"];
        let ended = &state["terminated"];
        let told = ended["reason"] == "StartError" && ended["exitCode"] == 128;
        if told { Ok(()) } else { Err("no StartError".to_owned()) }
    })?;
    ensure!(
        log_of(&rig, "succeeds")?.ends_with("stdout F done\n"),
        "the log: {:?}",
        log_of(&rig, "succeeds")?
    );
    leaves_nothing(&rig)
}

fn waiting(rig: &RealRig, name: &str, reason: &str, text: &str) -> anyhow::Result<()> {
    rig.wait_pod(name, |pod| {
        let waiting = &pod["status"]["containerStatuses"][0]["state"]["waiting"];
        let said = waiting["message"].as_str().unwrap_or_default();
        match waiting["reason"] == reason && said.contains(text) {
            true => Ok(()),
            false => Err(format!("waiting is not {reason} with {text:?}")),
        }
    })?;
    Ok(())
}

fn log_of(rig: &RealRig, name: &str) -> anyhow::Result<String> {
    let seen = rig.wait_pod(name, |_| Ok(()))?;
    let uid = seen["metadata"]["uid"].as_str().unwrap_or_default();
    Ok(fs::read_to_string(rig.logs().join(format!("default_{name}_{uid}/main/0.log")))?)
}

#[test]
fn the_order_of_containers() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    let notes = |name: &str, words: &str| json!({"name": name, "image": IMAGE, "command": shell(words), "volumeMounts": [{"name": "notes", "mountPath": "/n"}]});
    let mut sidecar = notes(
        "helper",
        "echo helper >> /n/all; trap 'echo helper-ends >> /n/all; exit 0' TERM; sleep 2147483647 & wait",
    );
    sidecar["restartPolicy"] = "Always".into();
    // the next one waits until it has started, and that it runs does not mean that it has written already
    sidecar["startupProbe"] = json!({"exec": {"command": ["grep", "-q", "helper", "/n/all"]}, "periodSeconds": 1, "failureThreshold": 100});
    let host = rig.directory.path().join("notes");
    fs::create_dir(&host)?;
    apply(
        &rig,
        &[pod(
            "ordered",
            &json!({
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 60,
                "volumes": [{"name": "notes", "hostPath": {"path": host}}],
                "initContainers": [notes("one", "echo one >> /n/all"), sidecar, notes("two", "echo two >> /n/all")],
                "containers": [notes("main", "echo main >> /n/all; trap 'echo main-ends >> /n/all; exit 0' TERM; sleep 2147483647 & wait")],
            }),
        )],
    )?;
    let seen = rig.wait_ready("ordered")?;
    let all = until("the last one's word", || match fs::read_to_string(host.join("all")) {
        Ok(text) if text.contains("main\n") => Ok(text),
        other => Err(format!("{other:?}")),
    })?;
    ensure!(all == "one\nhelper\ntwo\nmain\n", "the order of starts: {all:?}");
    let inits = &seen["status"]["initContainerStatuses"];
    for (index, state) in [(0, "terminated"), (1, "running"), (2, "terminated")] {
        ensure!(inits[index]["state"][state].is_object(), "init containers: {inits}");
    }
    rig.cloud.kubectl.run(&["delete", "pod", "ordered", "--wait=false"])?;
    until("the end of the sidecar", || match fs::read_to_string(host.join("all")) {
        Ok(text) if text.contains("helper-ends") => Ok(()),
        other => Err(format!("{other:?}")),
    })?;
    let all = fs::read_to_string(host.join("all"))?;
    ensure!(all.ends_with("main-ends\nhelper-ends\n"), "sidecars end after what they serve: {all:?}");
    leaves_nothing(&rig)
}

#[test]
fn a_graceful_end() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    let host = rig.directory.path().join("words");
    fs::create_dir(&host)?;
    let volume = json!([{"name": "words", "hostPath": {"path": host}}]);
    let with = |words: &str, grace: u32| {
        json!({
            "terminationGracePeriodSeconds": grace,
            "volumes": volume,
            "containers": [{"command": shell(words), "volumeMounts": [{"name": "words", "mountPath": "/w"}]}],
        })
    };
    apply(
        &rig,
        &[
            pod("polite", &with("trap 'echo bye > /w/polite; exit 0' TERM; sleep 2147483647 & wait", LONG)),
            pod("deaf", &with("trap '' TERM; while :; do sleep 1; done", 2)),
            pod("forced", &with("trap '' TERM; while :; do sleep 1; done", LONG)),
        ],
    )?;
    for name in ["polite", "deaf", "forced"] {
        rig.wait_ready(name)?;
    }
    // in less than its whole time
    rig.cloud.kubectl.run(&["delete", "pod", "polite", "--wait=false"])?;
    rig.cloud.wait_gone("polite")?;
    ensure!(fs::read_to_string(host.join("polite"))? == "bye\n", "it was not asked to end");
    let asked = Instant::now();
    rig.cloud.kubectl.run(&["delete", "pod", "deaf", "--wait=false"])?;
    rig.cloud.wait_gone("deaf")?;
    ensure!(asked.elapsed() >= Duration::from_secs(2), "its grace period was cut short");
    rig.cloud.kubectl.run(&["delete", "pod", "forced", "--force", "--grace-period=0"])?;
    leaves_nothing(&rig)
}
