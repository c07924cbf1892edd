//! A node that starts without its cloud, as after the power came back: nothing runs, nobody answers, and all pods come from the
//! disk, with their ConfigMaps, Secrets, tokens and host paths.
//!
//! `OUTRIGGER_COLD_PODS=20` has more pods. `OUTRIGGER_COLD_KILLS=200` kills the agent so many times before, at random moments of its
//! start; `OUTRIGGER_COLD_SEED` chooses others.

use std::{
    collections::BTreeSet,
    env, fs,
    os::unix::fs::PermissionsExt,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, ensure};
use e2e::{
    RunningContainer, at,
    containerd::{RealRig, Traces},
    until_within,
};
use nix::mount::{MntFlags, umount2};
use serde_json::json;
use testkit::{LONG_TIMEOUT, Random};

use crate::case::{apply, leaves_nothing_of, pod};

/// How many pods the node has where nobody says otherwise …
const PODS: u64 = 8;
/// … and how many where the agent is killed before they run.
const PODS_WITH_KILLS: usize = 5;
/// How often the agent is killed before, where nobody says otherwise.
const KILLS: u64 = 3;
/// How long one start lives at most before it is killed, milliseconds.
const LIFE: u64 = 700;

#[test]
fn pods_start_without_the_cloud() -> anyhow::Result<()> {
    let count = usize::try_from(setting("OUTRIGGER_COLD_PODS", PODS)?)?;
    let (mut rig, host) = ready(count)?;
    let before = rig.containerd.cri.running()?;
    power_off(&mut rig)?;
    let (begun, exec) = (Instant::now(), SystemTime::now());
    rig.node.process.start_again()?;
    let after = all_run(&rig, count)?;
    tell(&rig, exec, begun.elapsed())?;
    ensure!(
        pods(&after) == pods(&before),
        "other pods: {before:?}, {after:?}"
    );
    ensure!(
        after.is_disjoint(&before),
        "containers that were removed run: {after:?}"
    );
    whole(&rig, &after)?;
    finish(rig, host, count, |traces| traces)
}

#[test]
fn pods_start_without_the_cloud_after_kills_at_random_moments() -> anyhow::Result<()> {
    let (mut rig, host) = ready(PODS_WITH_KILLS)?;
    let before = rig.containerd.cri.running()?;
    power_off(&mut rig)?;
    let mut random = Random::new(setting("OUTRIGGER_COLD_SEED", 1)?);
    for _ in 0..setting("OUTRIGGER_COLD_KILLS", KILLS)? {
        rig.node.process.start_again()?;
        at(Instant::now() + Duration::from_millis(random.below(LIFE)));
        rig.node.process.kill()?;
    }
    rig.node.process.start_again()?;
    let after = all_run(&rig, PODS_WITH_KILLS)?;
    ensure!(
        pods(&after) == pods(&before),
        "other pods: {before:?}, {after:?}"
    );
    whole(&rig, &after)?;
    // calls that the kills cut off leave shims behind of which only containerd could know
    finish(rig, host, PODS_WITH_KILLS, Traces::of_tasks)
}

/// A node on which all pods run, and the directory that they mount.
fn ready(count: usize) -> anyhow::Result<(RealRig, tempfile::TempDir)> {
    let (rig, host) = (RealRig::start()?, tempfile::tempdir()?);
    fs::write(host.path().join("file"), "of the host")?;
    let mut objects = vec![
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "config"}, "data": {"key": "configured"}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "secret"}, "stringData": {"key": "hidden"}}),
    ];
    let mount = |name: &str, path: &str| json!({"name": name, "mountPath": path});
    let spec = json!({
        "containers": [{
            "env": [{"name": "FROM_SECRET", "valueFrom": {"secretKeyRef": {"name": "secret", "key": "key"}}}],
            "volumeMounts": [mount("config", "/config"), mount("secret", "/secret"), mount("token", "/token"), mount("host", "/host"), mount("memory", "/memory")],
        }],
        "volumes": [
            {"name": "config", "configMap": {"name": "config"}},
            {"name": "secret", "secret": {"secretName": "secret"}},
            {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}}]}},
            {"name": "host", "hostPath": {"path": host.path(), "type": "Directory"}},
            {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        ],
    });
    let names: Vec<String> = (0..count).map(|number| format!("cold-{number}")).collect();
    objects.extend(names.iter().map(|name| pod(name, &spec)));
    apply(&rig, &objects)?;
    for name in &names {
        rig.wait_ready(name)?;
    }
    Ok((rig, host))
}

/// The agent and the cloud end where they stand, and nothing that ran or was in memory is left.
fn power_off(rig: &mut RealRig) -> anyhow::Result<()> {
    rig.node.process.kill()?;
    rig.cloud.process.kill()?;
    for sandbox in rig.containerd.raw_cri.sandboxes(None)? {
        rig.containerd.raw_cri.stop_sandbox(&sandbox.id)?;
        rig.containerd.raw_cri.remove_sandbox(&sandbox.id)?;
    }
    for pod in fs::read_dir(&rig.node.pods)? {
        let volumes = pod?.path().join("volumes");
        for volume in ["empty-dir/memory", "secret/secret", "projected/token"] {
            let volume = volumes.join(format!("kubernetes.io~{volume}"));
            umount2(&volume, MntFlags::empty()).with_context(|| volume.display().to_string())?;
            ensure!(
                fs::read_dir(&volume)?.next().is_none(),
                "{} is on disk",
                volume.display()
            );
        }
    }
    // nobody else on the machine reads what pods have
    let mode = fs::metadata(&rig.node.pods)?.permissions().mode() & 0o777;
    ensure!(mode == 0o750, "{mode:o}");
    Ok(())
}

fn all_run(rig: &RealRig, count: usize) -> anyhow::Result<BTreeSet<RunningContainer>> {
    until_within(LONG_TIMEOUT, "all pods run", || {
        let running = rig.containerd.cri.running()?;
        ensure!(running.len() == count, "{} containers run", running.len());
        ensure!(
            pods(&running).len() == count,
            "a pod runs twice: {running:?}"
        );
        Ok(running)
    })
}

fn pods(containers: &BTreeSet<RunningContainer>) -> BTreeSet<String> {
    containers
        .iter()
        .map(|container| container.pod_uid.clone())
        .collect()
}

/// What each of them sees.
fn whole(rig: &RealRig, containers: &BTreeSet<RunningContainer>) -> anyhow::Result<()> {
    let words = "cat /config/key; echo; cat /secret/key; echo; cat /host/file; echo; echo $FROM_SECRET; wc -c < /token/token; df -k /memory | tail -n 1";
    for container in containers {
        let seen = rig
            .containerd
            .cri
            .exec(&container.id, &["sh", "-c", words])?;
        let lines: Vec<&str> = seen.lines().collect();
        ensure!(lines.len() == 6, "{seen:?}");
        ensure!(
            lines[..4] == ["configured", "hidden", "of the host", "hidden"],
            "{seen:?}"
        );
        ensure!(
            lines[4].trim().parse::<usize>()? > 100,
            "no token: {seen:?}"
        );
        let disk: Vec<&str> = lines[5].split_whitespace().collect();
        ensure!(disk[..2] == ["tmpfs", "1024"], "no memory: {seen:?}");
    }
    Ok(())
}

/// From the start of the program until the runtime had what it asked for first, and until all run.
// printed on purpose: the figures
#[allow(clippy::print_stderr)]
fn tell(rig: &RealRig, exec: SystemTime, all: Duration) -> anyhow::Result<()> {
    let exec = i64::try_from(exec.duration_since(UNIX_EPOCH)?.as_nanos())?;
    let first = |times: Vec<i64>| times.into_iter().min().context("nothing was made");
    let after = |time: i64| Duration::from_nanos(u64::try_from(time - exec).unwrap_or_default());
    let raw_cri = &rig.containerd.raw_cri;
    let sandbox = first(
        raw_cri
            .sandboxes(None)?
            .iter()
            .map(|sandbox| sandbox.created_at)
            .collect(),
    )?;
    let container = first(
        raw_cri
            .list(None)?
            .iter()
            .map(|container| container.created_at)
            .collect(),
    )?;
    eprintln!(
        "--- cold start: first sandbox {:?} and first container {:?} after exec; all ran after {all:?}",
        after(sandbox),
        after(container)
    );
    Ok(())
}

/// The cloud comes back: it has the same pods, and they go when it says so, with that `part` of what they take of the machine.
fn finish(
    mut rig: RealRig,
    host: tempfile::TempDir,
    count: usize,
    part: fn(Traces) -> Traces,
) -> anyhow::Result<()> {
    let before = rig.containerd.cri.running()?;
    rig.cloud.process.start_again()?;
    rig.cloud.process.wait_for("is ready")?;
    for number in 0..count {
        let name = format!("cold-{number}");
        rig.wait_pod(&name, |pod| {
            let id = RealRig::container_id(pod, "main").map_err(|error| error.to_string())?;
            let is_new = before.iter().any(|container| container.id == id);
            let is_ready = pod["status"]["containerStatuses"][0]["ready"] == true;
            if is_new && is_ready {
                Ok(())
            } else {
                Err("not told from its new container".to_owned())
            }
        })?;
    }
    ensure!(
        rig.containerd.cri.running()? == before,
        "the cloud's return changed what runs"
    );
    leaves_nothing_of(&rig, LONG_TIMEOUT, part)?;
    drop(rig);
    Ok(host.close()?)
}

fn setting(name: &str, default: u64) -> anyhow::Result<u64> {
    match env::var(name) {
        Ok(text) => text
            .parse()
            .with_context(|| format!("{name} is {text:?}, not a number")),
        Err(_) => Ok(default),
    }
}
