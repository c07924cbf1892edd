//! A node that runs short of something: who goes, who stays, who may come, and that it ends.

use std::{
    fs,
    io::ErrorKind,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use e2e::{containerd::RealRig, until};
use serde_json::{Value, json};

use crate::{
    case::{apply, leaves_nothing, pod},
    confinement::waits_with,
    probes::wait_event,
};

/// More than any machine has.
const NEVER_ENOUGH: &str = "{memory.available: 1Ei, nodefs.available: 0%, nodefs.inodesFree: 0%, imagefs.available: 0%, imagefs.inodesFree: 0%}";
const ENOUGH: &str = "{memory.available: 0%, nodefs.available: 0%, nodefs.inodesFree: 0%, imagefs.available: 0%, imagefs.inodesFree: 0%}";
const HALF_A_DISK: &str = "{memory.available: 0%, nodefs.available: 50%, nodefs.inodesFree: 0%, imagefs.available: 0%, imagefs.inodesFree: 0%}";

const HALF_THE_INODES: &str = "{memory.available: 0%, nodefs.available: 0%, nodefs.inodesFree: 50%, imagefs.available: 0%, imagefs.inodesFree: 0%}";

fn shell(words: &str) -> Value {
    json!({"containers": [{"command": ["sh", "-c", words]}]})
}

/// A volume on the node's disk.
fn scratch() -> Value {
    json!({"volumes": [{"name": "scratch", "emptyDir": {}}],
        "containers": [{"volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]}]})
}

/// The pod has been evicted or refused; its status.
fn wait_evicted(rig: &RealRig, name: &str) -> anyhow::Result<Value> {
    let seen = rig.wait_phase(name, "Failed")?;
    ensure!(
        seen["status"]["reason"] == "Evicted",
        "{name}: {}",
        seen["status"]
    );
    Ok(seen["status"].clone())
}

fn taints(rig: &RealRig) -> anyhow::Result<String> {
    Ok(rig.cloud.node()?.unwrap_or_default()["spec"]["taints"].to_string())
}

fn wait_taint(rig: &RealRig, key: &str, there: bool) -> anyhow::Result<()> {
    until(&format!("taint {key}: {there}"), || {
        let taints = taints(rig)?;
        ensure!(taints.contains(key) == there, "{taints}");
        Ok(())
    })
}

#[test]
fn memory_pressure_evicts_in_order_refuses_and_ends() -> anyhow::Result<()> {
    let mut rig = RealRig::start()?;
    // a shell's variable is memory that is used
    let hungry = shell(
        "x=$(head -c 40000000 /dev/zero | tr '\\0' x); trap 'exit 0' TERM; sleep 2147483647 & wait",
    );
    let mut modest = pod("modest", &json!({}));
    modest["spec"]["containers"][0]["resources"] = json!({"requests": {"memory": "64Mi"}});
    let mut system = pod("system", &json!({}));
    system["spec"]["priorityClassName"] = json!("system-node-critical");
    // it uses less than the hungry one, and it counts less
    let mut humble = pod("humble", &json!({}));
    humble["spec"]["priorityClassName"] = json!("low");
    let low = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "low"}, "value": -10});
    apply(&rig, &[low])?;
    apply(&rig, &[pod("hungry", &hungry), modest, system, humble])?;
    for name in ["hungry", "modest", "system", "humble"] {
        rig.wait_ready(name)?;
    }
    rig.restart_with(&[
        ("evictionHard", NEVER_ENOUGH),
        ("evictionPressureTransitionPeriod", "1s"),
    ])?;
    rig.cloud.wait_node("MemoryPressure")?;
    let status = wait_evicted(&rig, "hungry")?;
    let message = status["message"].as_str().unwrap_or_default().to_owned();
    let begin = "The node was low on resource: memory. Threshold quantity: 1Ei, available: ";
    ensure!(message.starts_with(begin), "{message}");
    ensure!(message.contains("Container main was using "), "{message}");
    ensure!(
        message.ends_with(", request is 0, has larger consumption of memory. "),
        "{message}"
    );
    let conditions = status["conditions"].as_array().context("no conditions")?;
    let disrupted = conditions
        .iter()
        .find(|one| one["type"] == "DisruptionTarget")
        .context("no DisruptionTarget")?;
    ensure!(
        disrupted["status"] == "True" && disrupted["reason"] == "TerminationByKubelet",
        "{disrupted}"
    );
    ensure!(disrupted["message"] == message.as_str(), "{disrupted}");
    wait_evicted(&rig, "humble")?;
    wait_evicted(&rig, "modest")?;
    // the order in which the agent took them
    let log = rig.node.process.log();
    let at = |name: &str| {
        log.lines()
            .position(|line| line.contains("evicted") && line.contains(name))
    };
    let order = ["humble", "hungry", "modest"].map(at);
    ensure!(order[0].is_some() && order.is_sorted(), "{order:?}");
    wait_taint(&rig, "node.kubernetes.io/memory-pressure", true)?;
    apply(&rig, &[pod("late", &json!({}))])?;
    let status = wait_evicted(&rig, "late")?;
    let refused = "Pod was rejected: The node had condition: [MemoryPressure]. ";
    ensure!(status["message"] == refused, "{status}");
    ensure!(
        rig.pod("system")?.context("gone")?["status"]["phase"] == "Running",
        "it may not be evicted"
    );
    rig.restart_with(&[("evictionHard", ENOUGH)])?;
    rig.cloud.wait_node("MemoryPressure=False")?;
    wait_taint(&rig, "node.kubernetes.io/memory-pressure", false)?;
    apply(&rig, &[pod("welcome", &json!({}))])?;
    rig.wait_ready("welcome")?;
    rig.wait_ready("system")?;
    leaves_nothing(&rig)
}

#[test]
fn a_disk_that_fills_is_emptied_by_evicting_who_filled_it() -> anyhow::Result<()> {
    let mut rig = RealRig::start_on_small_disk("size=256m")?;
    rig.restart_with(&[
        ("evictionHard", HALF_A_DISK),
        ("evictionPressureTransitionPeriod", "1s"),
    ])?;
    let volume = scratch();
    apply(&rig, &[pod("small", &volume), pod("filler", &volume)])?;
    rig.wait_ready("small")?;
    rig.wait_ready("filler")?;
    rig.inside("filler", "head -c 150000000 /dev/zero > /scratch/much")?;
    let status = wait_evicted(&rig, "filler")?;
    let message = status["message"].as_str().unwrap_or_default();
    let begin =
        "The node was low on resource: ephemeral-storage. Threshold quantity: 128Mi, available: ";
    ensure!(message.starts_with(begin), "{message}");
    rig.cloud.wait_node("DiskPressure=False")?;
    wait_taint(&rig, "node.kubernetes.io/disk-pressure", false)?;
    rig.wait_ready("small")?;
    apply(&rig, &[pod("next", &volume)])?;
    rig.wait_ready("next")?;
    let used = nix::sys::statvfs::statvfs(&rig.node.pods)?;
    ensure!(
        used.blocks_available() > used.blocks() / 2,
        "the volume of the evicted pod is still there"
    );
    Ok(())
}

#[test]
fn a_disk_without_inodes_is_relieved_of_who_took_them() -> anyhow::Result<()> {
    let mut rig = RealRig::start_on_small_disk("size=256m,nr_inodes=4096")?;
    rig.restart_with(&[
        ("evictionHard", HALF_THE_INODES),
        ("evictionPressureTransitionPeriod", "1s"),
    ])?;
    let volume = scratch();
    apply(&rig, &[pod("modest", &volume), pod("litterer", &volume)])?;
    rig.wait_ready("modest")?;
    rig.wait_ready("litterer")?;
    // few bytes, much room: only the number counts
    rig.inside(
        "litterer",
        "i=0; while [ $i -lt 2500 ]; do : > /scratch/$i; i=$((i+1)); done",
    )?;
    let status = wait_evicted(&rig, "litterer")?;
    let message = status["message"].as_str().unwrap_or_default();
    let begin = "The node was low on resource: inodes. Threshold quantity: 2Ki, available: ";
    ensure!(message.starts_with(begin), "{message}");
    rig.cloud.wait_node("DiskPressure=False")?;
    wait_taint(&rig, "node.kubernetes.io/disk-pressure", false)?;
    rig.wait_ready("modest")?;
    let free = nix::sys::statvfs::statvfs(&rig.node.pods)?.files_free();
    ensure!(
        free > 2048,
        "{free}: the files of the evicted pod are still there"
    );
    Ok(())
}

#[test]
fn limits_of_local_storage_are_kept() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    let mut limited = pod("limited", &json!({}));
    limited["spec"]["containers"][0]["resources"] = json!({"limits": {"ephemeral-storage": "2Mi"}});
    apply(
        &rig,
        &[
            pod(
                "sized",
                &json!({"volumes": [{"name": "scratch", "emptyDir": {"sizeLimit": "1Mi"}}],
                    "containers": [{"volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]}]}),
            ),
            limited,
        ],
    )?;
    rig.wait_ready("sized")?;
    rig.wait_ready("limited")?;
    rig.inside("sized", "head -c 4000000 /dev/zero > /scratch/much")?;
    rig.inside("limited", "head -c 8000000 /dev/zero > /tmp/much")?;
    let status = wait_evicted(&rig, "sized")?;
    ensure!(
        status["message"] == "Usage of EmptyDir volume \"scratch\" exceeds the limit \"1Mi\". ",
        "{status}"
    );
    let status = wait_evicted(&rig, "limited")?;
    let told = "Pod ephemeral local storage usage exceeds the total limit of containers 2Mi. ";
    ensure!(status["message"] == told, "{status}");
    leaves_nothing(&rig)
}

#[test]
fn a_full_disk_holds_up_what_needs_it_and_nothing_else() -> anyhow::Result<()> {
    let mut rig = RealRig::start_on_small_disk("size=64m")?;
    apply(&rig, &[pod("steady", &json!({}))])?;
    let before = rig.wait_ready("steady")?;
    let full = rig.directory.path().join("node/full");
    fill(&full)?;
    let volume = scratch();
    apply(&rig, &[pod("late", &volume)])?;
    until("the agent's word of the full disk", || {
        let log = rig.node.process.log();
        let told =
            log.contains("No space left on device") || log.contains("database or disk is full");
        ensure!(
            told,
            "{}",
            log.lines().rev().take(5).collect::<Vec<_>>().join("\n")
        );
        Ok(())
    })?;
    ensure!(rig.node.process.runs(), "the agent has ended");
    ensure!(
        rig.inside("steady", "echo well")?.trim() == "well",
        "the other pod is not well"
    );
    fs::remove_file(&full)?;
    rig.wait_ready("late")?;
    let after = rig.wait_ready("steady")?;
    let id = |pod: &Value| RealRig::container_id(pod, "main");
    ensure!(id(&before)? == id(&after)?, "the other pod was restarted");
    Ok(())
}

#[test]
fn a_pod_that_a_full_disk_holds_up_says_so_with_the_cure() -> anyhow::Result<()> {
    let mut rig = RealRig::start_on_small_disk("size=256m,nr_inodes=4096")?;
    rig.restart_with(&[("evictionHard", ENOUGH)])?;
    apply(&rig, &[pod("steady", &json!({}))])?;
    rig.wait_ready("steady")?;
    // no file more: those that are open can still be written, so that the agent stores the pod
    let much = rig.node.pods.with_file_name("much");
    fs::create_dir(&much)?;
    let full = (0..).find_map(|number| fs::write(much.join(number.to_string()), []).err());
    ensure!(
        full.as_ref()
            .is_some_and(|error| error.kind() == ErrorKind::StorageFull),
        "{full:?}"
    );
    let volume = scratch();
    apply(&rig, &[pod("late", &volume)])?;
    let cure = "check free disk space";
    waits_with(&rig, "late", "ContainerCreating", cure)?;
    wait_event(&rig, "late", "FailedMount", cure)?;
    let steady = rig.wait_ready("steady")?;
    ensure!(
        steady["status"]["containerStatuses"][0]["restartCount"] == 0,
        "{steady}"
    );
    fs::remove_dir_all(&much)?;
    rig.wait_ready("late")?;
    Ok(())
}

/// Writes until nothing more fits.
fn fill(path: &std::path::Path) -> anyhow::Result<()> {
    use std::io::Write;
    let mut file = fs::File::create(path)?;
    for size in [1 << 20, 4096, 1] {
        let block = vec![0_u8; size];
        while file.write_all(&block).is_ok() {}
    }
    Ok(())
}

#[test]
fn a_soft_threshold_gives_pods_time_and_process_ids_count() -> anyhow::Result<()> {
    let mut rig = RealRig::start()?;
    let host = rig.directory.path().join("words");
    fs::create_dir(&host)?;
    let polite = json!({
        "terminationGracePeriodSeconds": 600,
        "volumes": [{"name": "words", "hostPath": {"path": host}}],
        "containers": [{
            "command": ["sh", "-c", "trap 'echo bye > /w/polite; exit 0' TERM; sleep 2147483647 & wait"],
            "volumeMounts": [{"name": "words", "mountPath": "/w"}],
        }],
    });
    apply(&rig, &[pod("polite", &polite)])?;
    rig.wait_ready("polite")?;
    let begun = Instant::now();
    rig.restart_with(&[
        ("evictionSoft", "{pid.available: 1Ei}"),
        ("evictionSoftGracePeriod", "{pid.available: 3s}"),
        ("evictionMaxPodGracePeriod", "60"),
        ("evictionPressureTransitionPeriod", "1s"),
    ])?;
    rig.cloud.wait_node("PIDPressure")?;
    wait_taint(&rig, "node.kubernetes.io/pid-pressure", true)?;
    let status = wait_evicted(&rig, "polite")?;
    ensure!(
        begun.elapsed() >= Duration::from_secs(3),
        "not borne for its grace period"
    );
    let message = status["message"].as_str().unwrap_or_default();
    let begin = "The node was low on resource: pids. Threshold quantity: 1Ei, available: ";
    ensure!(message.starts_with(begin), "{message}");
    ensure!(
        fs::read_to_string(host.join("polite"))? == "bye\n",
        "it was not asked to end"
    );
    apply(&rig, &[pod("late", &json!({}))])?;
    let refused = "Pod was rejected: The node had condition: [PIDPressure]. ";
    ensure!(
        wait_evicted(&rig, "late")?["message"] == refused,
        "not refused"
    );
    rig.restart_with(&[("evictionSoft", "{}"), ("evictionSoftGracePeriod", "{}")])?;
    rig.cloud.wait_node("PIDPressure=False")?;
    wait_taint(&rig, "node.kubernetes.io/pid-pressure", false)?;
    leaves_nothing(&rig)
}
