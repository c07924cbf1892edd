//! Control groups of pods: where they are, what they limit, and that they go.

use std::{fs, process::Command};

use anyhow::{Context, ensure};
use e2e::{
    Allowed, ControlGroup, Process,
    containerd::{RealRig, Traces},
    cpu_share, group_root, pod_group,
};
use serde_json::{Value, json};
use wire::cri::ListPodSandboxStatsRequest;

use crate::{
    case::{apply, leaves_nothing, pod},
    resources::{pid_of, unusual},
};

/// What the agent's log says when it was told that something has ended.
const TOLD: &str = "control group removed";

/// A pod whose process has an argument that no other has.
fn idle(name: &str, resources: &Value) -> Value {
    pod(
        name,
        &json!({"containers": [{
            "command": ["sh", "-c", "trap 'exit 0' TERM; sleep 2147483647 & wait", unusual(name)],
            "resources": resources,
        }]}),
    )
}

/// The control group of the process with the pod's unusual argument.
fn group(name: &str) -> anyhow::Result<ControlGroup> {
    ControlGroup::of(&pid_of(&unusual(name))?)
}

#[test]
fn each_pod_is_limited_as_a_whole() -> anyhow::Result<()> {
    let mut rig = RealRig::start()?;
    rig.restart_with(&[("podPidsLimit", "321")])?;
    let same = json!({"limits": {"cpu": "200m", "memory": "32Mi"}, "requests": {"cpu": "200m", "memory": "32Mi"}});
    let partly = json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "100m"}});
    apply(
        &rig,
        &[
            idle("guaranteed", &same),
            idle("burstable", &partly),
            idle("best-effort", &json!({})),
        ],
    )?;
    for (name, class, shares, quota, memory) in [
        ("guaranteed", "", 204, Some(20_000), Some(32 << 20)),
        ("burstable", "burstable", 102, Some(50_000), None),
        ("best-effort", "besteffort", 2, None, None),
    ] {
        let seen = rig.wait_ready(name)?;
        let uid = seen["metadata"]["uid"].as_str().context("no uid")?;
        let own = group(name)?.parent()?;
        let path = own.path().display().to_string();
        let expected = pod_group(&group_root(rig.directory.path()), class, uid);
        ensure!(path.ends_with(&expected), "{name}: {path}, not {expected}");
        let (found, cpu_share) = (own.limits()?, cpu_share(shares));
        let expected = Allowed {
            cpu_share,
            cpu_quota: quota,
            memory,
            processes: Some(321),
        };
        ensure!(found == expected, "{name}: {found:?}, not {expected:?}");
        if !class.is_empty() {
            let of_class = own.parent()?.limits()?.cpu_share;
            ensure!(
                of_class == cpu_share,
                "all of {class}: {of_class}, and of its one pod {cpu_share}"
            );
        }
    }
    // which containerd does only for sandboxes that have a group above them
    let request = ListPodSandboxStatsRequest::default();
    let told = rig
        .containerd
        .raw_cri
        .runtime(async |mut client| client.list_pod_sandbox_stats(request).await)?;
    ensure!(told.stats.len() == 3, "{told:?}");
    leaves_nothing(&rig)
}

#[test]
fn the_kernel_tells_that_a_container_has_ended() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    apply(&rig, &[idle("ends", &json!({}))])?;
    let seen = rig.wait_ready("ends")?;
    let id = RealRig::container_id(&seen, "main")?;
    let watched = format!(
        "control group of a pod uid={} watched=true",
        seen["metadata"]["uid"]
    );
    e2e::until("a watch on the pod's group", || {
        let log = rig.node.process.log();
        ensure!(log.contains(&watched), "{log}");
        Ok(())
    })?;
    ensure!(
        !rig.node.process.log().contains(TOLD),
        "told before anything has ended"
    );
    rig.containerd.raw_cri.stop(&id, 0)?;
    e2e::until("what the kernel says", || {
        let log = rig.node.process.log();
        ensure!(log.contains(TOLD), "{log}");
        Ok(())
    })?;
    rig.wait_pod("ends", |pod| {
        let again = &pod["status"]["containerStatuses"][0];
        if again["restartCount"] == 1 && again["ready"] == true {
            Ok(())
        } else {
            Err("not restarted".to_owned())
        }
    })?;
    leaves_nothing(&rig)
}

#[test]
fn groups_of_pods_that_went_without_the_agent_are_removed() -> anyhow::Result<()> {
    let mut rig = RealRig::start()?;
    apply(&rig, &[idle("goes", &json!({})), idle("stays", &json!({}))])?;
    let stays = rig.wait_ready("stays")?;
    rig.wait_ready("goes")?;
    rig.node.process.kill()?;
    rig.cloud
        .kubectl
        .run(&["delete", "pod", "goes", "--force", "--grace-period=0"])?;
    rig.node.process.start_again()?;
    let uid = stays["metadata"]["uid"].as_str().context("no uid")?;
    e2e::until("no groups but those of the pod that stays", || {
        let groups = rig.containerd.traces()?.pod_groups;
        let own = pod_group(&group_root(rig.directory.path()), "besteffort", uid);
        ensure!(
            !groups.is_empty() && groups.iter().all(|group| group.ends_with(&own[1..])),
            "{groups:?}"
        );
        Ok(())
    })?;
    leaves_nothing(&rig)
}

#[test]
fn pods_that_were_made_without_groups_run_on() -> anyhow::Result<()> {
    let mut rig = RealRig::start()?;
    rig.restart_with(&[("cgroupsPerQOS", "false")])?;
    apply(&rig, &[idle("old", &json!({}))])?;
    let before = RealRig::container_id(&rig.wait_ready("old")?, "main")?;
    let Traces { pod_groups, .. } = rig.containerd.traces()?;
    ensure!(pod_groups.is_empty(), "{pod_groups:?}");
    rig.restart_with(&[("cgroupsPerQOS", "true")])?;
    apply(&rig, &[idle("new", &json!({}))])?;
    let new = rig.wait_ready("new")?;
    let after = RealRig::container_id(&rig.wait_ready("old")?, "main")?;
    ensure!(before == after, "{before} → {after}");
    let group = group("new")?.parent()?;
    let uid = new["metadata"]["uid"].as_str().context("no uid")?;
    let path = group.path().display().to_string();
    let expected = pod_group(&group_root(rig.directory.path()), "besteffort", uid);
    ensure!(
        path.ends_with(&expected),
        "the new pod has no group: {path}"
    );
    leaves_nothing(&rig)
}

#[test]
fn what_runs_in_a_pods_group_and_is_no_container_is_ended() -> anyhow::Result<()> {
    let mut rig = RealRig::start()?;
    apply(&rig, &[idle("whole", &json!({}))])?;
    let before = RealRig::container_id(&rig.wait_ready("whole")?, "main")?;
    // what a runtime has lost: in a group of its own, with an id that the runtime does not know
    let lost = "0123456789abcdef".repeat(4);
    let mut sleeper = Process::start("sleep", sleeping(), rig.directory.path())?;
    for place in group("whole")?.beside(&lost).places() {
        fs::create_dir(&place)?;
        fs::write(
            place.join("cgroup.procs"),
            sleeper.id().context("it has ended")?.to_string(),
        )?;
    }
    // an agent that starts looks at once, and every minute
    rig.node.process.kill()?;
    rig.node.process.start_again()?;
    e2e::until("its end", || {
        ensure!(!sleeper.runs(), "it runs");
        Ok(())
    })?;
    let after = RealRig::container_id(&rig.wait_ready("whole")?, "main")?;
    ensure!(before == after, "{before} → {after}");
    leaves_nothing(&rig)
}

fn sleeping() -> Command {
    let mut command = Command::new("sleep");
    command.arg("1000000");
    command
}
