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

use crate::{
    case::{apply, leaves_nothing, pod},
    probes::wait_event,
};

/// Seconds: more than a test has patience.
const LONG: u32 = 600;

fn shell(words: &str) -> Value {
    json!(["sh", "-c", words])
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table or one story")]
fn ends_and_phases() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    let ends = |name: &str, policy: &str, words: &str| {
        pod(
            name,
            &json!({"restartPolicy": policy, "containers": [{"command": shell(words)}]}),
        )
    };
    apply(
        &rig,
        &[
            ends("succeeds", "Never", "echo done; exit 0"),
            ends("fails", "Never", "exit 3"),
            ends(
                "killed",
                "Never",
                "kill -9 $$; kill -9 1; trap '' TERM; exit 9",
            ),
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
            pod(
                "bad-image",
                &json!({"containers": [{"image": "Not An Image"}]}),
            ),
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
        ensure!(
            ended["exitCode"] == code && ended["reason"] == reason,
            "{name}: {status}"
        );
        ensure!(status["restartCount"] == 0, "{name}: {status}");
        ensure!(
            ended["startedAt"].is_string() && ended["finishedAt"].is_string(),
            "{name}: {status}"
        );
    }
    for (name, code) in [("again", 4), ("on-failure-badly", 5)] {
        let seen = rig.wait_pod(name, |pod| {
            let status = &pod["status"]["containerStatuses"][0];
            let waits = status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
                && status["restartCount"].as_u64() >= Some(1);
            if waits {
                Ok(())
            } else {
                Err("it is not in a later back-off".to_owned())
            }
        })?;
        let status = &seen["status"]["containerStatuses"][0];
        ensure!(
            status["lastState"]["terminated"]["exitCode"] == code,
            "{name}: {status}"
        );
        ensure!(
            seen["status"]["phase"] == "Running",
            "{name}: {}",
            seen["status"]
        );
    }
    waiting(
        &rig,
        "no-image",
        "ErrImageNeverPull",
        "is not present with pull policy of Never",
    )?;
    waiting(&rig, "bad-image", "InvalidImageName", "Not An Image")?;
    wait_event(
        &rig,
        "bad-image",
        "InspectFailed",
        "couldn't parse image name",
    )?;
    rig.wait_pod("no-program", |pod| {
        let state = &pod["status"]["containerStatuses"][0]["state"];
        let ended = &state["terminated"];
        let told = ended["reason"] == "StartError" && ended["exitCode"] == 128;
        if told {
            Ok(())
        } else {
            Err("no StartError".to_owned())
        }
    })?;
    let ended = rig.wait_pod("succeeds", |_| Ok(()))?;
    let link = format!(
        "succeeds_default_main-{}.log",
        RealRig::container_id(&ended, "main")?
    );
    let linked = fs::read_to_string(rig.logs().with_file_name("containers").join(link))?;
    ensure!(
        linked == log_of(&rig, "succeeds")?,
        "the link for collectors: {linked:?}"
    );
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
    Ok(fs::read_to_string(
        rig.logs().join(format!("default_{name}_{uid}/main/0.log")),
    )?)
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
    let all = until("the last one's word", || {
        match fs::read_to_string(host.join("all")) {
            Ok(text) if text.contains("main\n") => Ok(text),
            other => Err(format!("{other:?}")),
        }
    })?;
    ensure!(
        all == "one\nhelper\ntwo\nmain\n",
        "the order of starts: {all:?}"
    );
    let inits = &seen["status"]["initContainerStatuses"];
    for (index, state) in [(0, "terminated"), (1, "running"), (2, "terminated")] {
        ensure!(
            inits[index]["state"][state].is_object(),
            "init containers: {inits}"
        );
    }
    rig.cloud
        .kubectl
        .run(&["delete", "pod", "ordered", "--wait=false"])?;
    until("the end of the sidecar", || {
        match fs::read_to_string(host.join("all")) {
            Ok(text) if text.contains("helper-ends") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })?;
    let all = fs::read_to_string(host.join("all"))?;
    ensure!(
        all.ends_with("main-ends\nhelper-ends\n"),
        "sidecars end after what they serve: {all:?}"
    );
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
            pod(
                "polite",
                &with(
                    "trap 'echo bye > /w/polite; exit 0' TERM; sleep 2147483647 & wait",
                    LONG,
                ),
            ),
            pod("deaf", &with("trap '' TERM; while :; do sleep 1; done", 2)),
            pod(
                "forced",
                &with("trap '' TERM; while :; do sleep 1; done", LONG),
            ),
        ],
    )?;
    for name in ["polite", "deaf", "forced"] {
        rig.wait_ready(name)?;
    }
    // in less than its whole time
    rig.cloud
        .kubectl
        .run(&["delete", "pod", "polite", "--wait=false"])?;
    rig.cloud.wait_gone("polite")?;
    ensure!(
        fs::read_to_string(host.join("polite"))? == "bye\n",
        "it was not asked to end"
    );
    let asked = Instant::now();
    rig.cloud
        .kubectl
        .run(&["delete", "pod", "deaf", "--wait=false"])?;
    rig.cloud.wait_gone("deaf")?;
    ensure!(
        asked.elapsed() >= Duration::from_secs(2),
        "its grace period was cut short"
    );
    rig.cloud
        .kubectl
        .run(&["delete", "pod", "forced", "--force", "--grace-period=0"])?;
    leaves_nothing(&rig)
}

/// Whether the pod's condition is so, for this reason.
fn condition(pod: &Value, kind: &str, is: &str, reason: Option<&str>) -> Result<Value, String> {
    let all = pod["status"]["conditions"].as_array();
    let one = all
        .into_iter()
        .flatten()
        .find(|one| one["type"] == kind)
        .cloned()
        .unwrap_or_default();
    let right = one["status"] == is && one["reason"].as_str() == reason;
    if right {
        Ok(one)
    } else {
        Err(format!("{kind} is not {is} for {reason:?}: {one}"))
    }
}

/// Waits until the pod's conditions are so: each with its value, and its reason if it has one.
fn conditions(
    rig: &RealRig,
    name: &str,
    all: &[(&str, &str, Option<&str>)],
) -> anyhow::Result<Value> {
    rig.wait_pod(name, |pod| {
        all.iter()
            .try_for_each(|(kind, is, reason)| condition(pod, kind, is, *reason).map(drop))
    })
}

#[test]
fn conditions_say_how_far_a_pod_is() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    let host = rig.directory.path().join("notes");
    fs::create_dir(&host)?;
    let waits = json!({"name": "first", "image": IMAGE, "command": shell("until [ -e /n/go ]; do usleep 50000; done"),
        "volumeMounts": [{"name": "notes", "mountPath": "/n"}]});
    let class = json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "none"}, "handler": "none"});
    apply(
        &rig,
        &[
            class,
            pod(
                "waits",
                &json!({"volumes": [{"name": "notes", "hostPath": {"path": host}}], "initContainers": [waits]}),
            ),
            pod(
                "done",
                &json!({"restartPolicy": "Never", "containers": [{"command": shell("exit 0")}]}),
            ),
            pod(
                "failed",
                &json!({"restartPolicy": "Never", "containers": [{"command": shell("exit 1")}]}),
            ),
            pod("nowhere", &json!({"runtimeClassName": "none"})),
            pod(
                "gated",
                &json!({"readinessGates": [{"conditionType": "e2e/open"}]}),
            ),
        ],
    )?;
    let (begun, not_ready) = (
        ("PodReadyToStartContainers", "True", None),
        Some("ContainersNotReady"),
    );
    let seen = conditions(
        &rig,
        "waits",
        &[
            ("PodScheduled", "True", None),
            begun,
            ("Initialized", "False", Some("ContainersNotInitialized")),
            ("ContainersReady", "False", not_ready),
            ("Ready", "False", not_ready),
        ],
    )?;
    for (kind, text) in [
        ("Initialized", "incomplete status: [first]"),
        ("Ready", "unready status: [main]"),
    ] {
        let told = seen["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten();
        let message = told
            .filter(|one| one["type"] == kind)
            .map(|one| one["message"].clone())
            .next();
        ensure!(
            message == Some(format!("containers with {text}").into()),
            "{kind}: {message:?}"
        );
    }
    ensure!(seen["status"]["phase"] == "Pending", "{}", seen["status"]);
    fs::write(host.join("go"), "")?;
    let all = [
        "PodScheduled",
        "PodReadyToStartContainers",
        "Initialized",
        "ContainersReady",
        "Ready",
    ];
    conditions(&rig, "waits", &all.map(|kind| (kind, "True", None)))?;
    let over = Some("PodCompleted");
    conditions(
        &rig,
        "done",
        &[
            ("PodScheduled", "True", None),
            ("Initialized", "True", over),
            ("ContainersReady", "False", over),
            ("Ready", "False", over),
        ],
    )?;
    let over = Some("PodFailed");
    conditions(
        &rig,
        "failed",
        &[
            ("Initialized", "True", None),
            ("ContainersReady", "False", over),
            ("Ready", "False", over),
        ],
    )?;
    // the runtime has no such handler, so there is no sandbox
    let none = [
        ("PodReadyToStartContainers", "False", None),
        ("Initialized", "True", None),
        ("Ready", "False", not_ready),
    ];
    conditions(&rig, "nowhere", &none)?;
    gates_hold_a_pod_back(&rig)?;
    leaves_nothing(&rig)
}

fn gates_hold_a_pod_back(rig: &RealRig) -> anyhow::Result<()> {
    let closed = ("Ready", "False", Some("ReadinessGatesNotReady"));
    let said = |text: &str| {
        rig.wait_pod("gated", |pod| {
            let ready = condition(pod, closed.0, closed.1, closed.2)?;
            condition(pod, "ContainersReady", "True", None)?;
            let told = ready["message"].as_str().unwrap_or_default();
            if told.starts_with(text) {
                Ok(())
            } else {
                Err(format!("it does not say {text:?}"))
            }
        })
    };
    said("corresponding condition of pod readiness gate \"e2e/open\" does not exist.")?;
    let set = |is: &str| {
        let patch =
            json!({"status": {"conditions": [{"type": "e2e/open", "status": is}]}}).to_string();
        rig.cloud.kubectl.run(&[
            "patch",
            "pod",
            "gated",
            "--subresource=status",
            "-p",
            &patch,
        ])
    };
    set("False")?;
    said("the status of pod readiness gate \"e2e/open\" is not \"True\", but False")?;
    set("True")?;
    conditions(
        rig,
        "gated",
        &[("Ready", "True", None), ("e2e/open", "True", None)],
    )?;
    set("False")?;
    conditions(rig, "gated", &[closed, ("e2e/open", "False", None)]).map(drop)
}

#[test]
fn each_restart_in_a_row_waits_twice_as_long() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    apply(
        &rig,
        &[pod(
            "again",
            &json!({"containers": [{"command": shell("exit 4")}]}),
        )],
    )?;
    for (restarts, wait) in [(1, "10s"), (2, "20s")] {
        let seen = rig.wait_pod("again", |pod| {
            let status = &pod["status"]["containerStatuses"][0];
            let waits = status["state"]["waiting"]["reason"] == "CrashLoopBackOff";
            if waits && status["restartCount"] == restarts {
                Ok(())
            } else {
                Err("not yet".to_owned())
            }
        })?;
        let uid = seen["metadata"]["uid"].as_str().unwrap_or_default();
        let told = &seen["status"]["containerStatuses"][0]["state"]["waiting"]["message"];
        let expected =
            format!("back-off {wait} restarting failed container=main pod=again_default({uid})");
        ensure!(*told == expected.as_str(), "{told}, not {expected}");
        wait_event(
            &rig,
            "again",
            "BackOff",
            "Back-off restarting failed container main in pod again_default",
        )?;
    }
    leaves_nothing(&rig)
}
