//! What the node forgets, and what it keeps: containers that have ended, images, logs.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use e2e::{
    containerd::{IMAGE, PAUSE, RawCri, RealRig},
    run, until, until_within,
};
use serde_json::json;
use wire::cri::{Container, ContainerState};

use crate::case::{apply, leaves_nothing, pod};

/// The log directory of the pod's container.
fn logs(rig: &RealRig, name: &str) -> anyhow::Result<PathBuf> {
    let pod = rig.pod(name)?.context("no pod")?;
    let uid = pod["metadata"]["uid"].as_str().context("no uid")?;
    Ok(rig.logs().join(format!("default_{name}_{uid}/main")))
}

fn files(path: &Path) -> anyhow::Result<Vec<String>> {
    let mut all: Vec<_> = fs::read_dir(path)?
        .flatten()
        .map(|file| file.file_name().to_string_lossy().into_owned())
        .collect();
    all.sort();
    Ok(all)
}

#[test]
fn of_containers_that_ended_the_newest_is_kept() -> anyhow::Result<()> {
    let mut rig = RealRig::start()?;
    let raw_cri = &rig.containerd.raw_cri;
    let config = RawCri::sandbox_config("foreign", &rig.directory.path().join("foreign"));
    let sandbox = raw_cri.run_sandbox(config.clone())?;
    let foreign = raw_cri.create(
        &sandbox,
        config,
        RawCri::container_config("foreign", &["true"]),
    )?;
    raw_cri.start(&foreign)?;
    apply(&rig, &[pod("again", &json!({}))])?;
    let mut id = RealRig::container_id(&rig.wait_ready("again")?, "main")?;
    for log in ["1.log", "2.log"] {
        rig.containerd.raw_cri.stop(&id, 0)?;
        let other = rig.wait_pod("again", |pod| {
            let new = RealRig::container_id(pod, "main").map_err(|error| error.to_string())?;
            let ready = pod["status"]["containerStatuses"][0]["ready"] == true;
            if ready && new != id {
                Ok(())
            } else {
                Err("not restarted".to_owned())
            }
        })?;
        id = RealRig::container_id(&other, "main")?;
        let there = files(&logs(&rig, "again")?)?;
        ensure!(
            there.iter().any(|file| file == log),
            "{log} is not among {there:?}"
        );
    }
    // the first look comes with the start
    rig.node.process.start_again()?;
    until("one that ended, one that runs", || {
        let listed = rig.containerd.raw_cri.list(None)?;
        let ours = listed
            .iter()
            .filter(|one| one.labels.contains_key("io.kubernetes.pod.uid"));
        let mut states: Vec<_> = ours
            .map(|one| {
                (
                    one.metadata.as_ref().map_or(0, |metadata| metadata.attempt),
                    one.state(),
                )
            })
            .collect();
        states.sort_by_key(|(attempt, _)| *attempt);
        let wanted = [
            (1, ContainerState::ContainerExited),
            (2, ContainerState::ContainerRunning),
        ];
        ensure!(states == wanted, "{states:?}");
        Ok(())
    })?;
    until("logs of those that are left", || {
        let left = files(&logs(&rig, "again")?)?;
        ensure!(left == ["1.log", "2.log"], "{left:?}");
        Ok(())
    })?;
    let seen = rig.wait_ready("again")?;
    ensure!(
        seen["status"]["containerStatuses"][0]["restartCount"] == 2,
        "{}",
        seen["status"]
    );
    let kept = rig.containerd.raw_cri.status(&foreign)?;
    ensure!(
        kept.state() == ContainerState::ContainerExited,
        "a container of somebody else: {kept:?}"
    );
    rig.containerd.raw_cri.stop_sandbox(&sandbox)?;
    rig.containerd.raw_cri.remove_sandbox(&sandbox)?;
    leaves_nothing(&rig)
}

/// Containers of the node's pods that have ended: their pods' names and which of their restarts they are.
fn ended_containers(rig: &RealRig) -> anyhow::Result<BTreeSet<(String, u32)>> {
    let mut listed = rig.containerd.raw_cri.list(None)?;
    listed.retain(|one| one.state() == ContainerState::ContainerExited);
    let words = |one: &Container| {
        let attempt = one.metadata.as_ref().map_or(0, |metadata| metadata.attempt);
        Some((one.labels.get("io.kubernetes.pod.name")?.clone(), attempt))
    };
    Ok(listed.iter().filter_map(words).collect())
}

/// Ends the pod's container when it was restarted so often, and waits until the runtime says that it has ended.
fn end(rig: &RealRig, name: &str, restarts: u32) -> anyhow::Result<()> {
    let pod = rig.wait_pod(name, |pod| {
        let status = &pod["status"]["containerStatuses"][0];
        let is_it = status["restartCount"] == restarts && status["ready"] == true;
        if is_it {
            Ok(())
        } else {
            Err(status.to_string())
        }
    })?;
    let id = RealRig::container_id(&pod, "main")?;
    rig.containerd.raw_cri.stop(&id, 0)?;
    until("the end of the container", || {
        let state = rig.containerd.raw_cri.status(&id)?.state();
        ensure!(state == ContainerState::ContainerExited, "{state:?}");
        Ok(())
    })
}

/// The `minimumGCAge` of the test: longer than the agent takes to start and to collect garbage for the first time.
const YOUNG: Duration = Duration::from_secs(20);

#[test]
fn of_all_that_ended_the_newest_and_the_young_are_kept() -> anyhow::Result<()> {
    let mut rig = RealRig::start()?;
    let age = YOUNG.as_secs();
    let kept = format!(
        "    maxContainerCount: 1\n    maxPerPodContainerCount: -1\n    minimumGCAge: {age}s"
    );
    rig.restart_with_lines(&[("  edged:", &kept)])?;
    apply(&rig, &[pod("first", &json!({})), pod("second", &json!({}))])?;
    // One after the other: of two that end at the same time, either may be made anew first.
    for (name, restarts) in [("first", 0), ("first", 1), ("second", 0), ("second", 1)] {
        end(&rig, name, restarts)?;
    }
    let (last, begun) = (("second".to_owned(), 1), Instant::now());
    ensure!(
        ended_containers(&rig)?.contains(&last),
        "{:?}",
        ended_containers(&rig)?
    );
    until_within(YOUNG * 2, "their age", || {
        ensure!(begun.elapsed() > YOUNG, "{:?}", begun.elapsed());
        Ok(())
    })?;
    apply(&rig, &[pod("third", &json!({}))])?;
    end(&rig, "third", 0)?;
    // the first look comes with the start
    rig.node.process.start_again()?;
    until("the newest of the old, and the young", || {
        let left = ended_containers(&rig)?;
        ensure!(
            left == [last.clone(), ("third".to_owned(), 0)].into(),
            "{left:?}"
        );
        Ok(())
    })?;
    leaves_nothing(&rig)
}

fn names(rig: &RealRig) -> anyhow::Result<BTreeSet<String>> {
    Ok(rig.containerd.images()?.into_keys().collect())
}

#[test]
fn images_that_nobody_uses_go_when_the_disk_fills() -> anyhow::Result<()> {
    let mut rig = RealRig::start()?;
    apply(&rig, &[pod("user", &json!({}))])?;
    rig.wait_ready("user")?;
    let always = [
        ("imageGCHighThresholdPercent", "1"),
        ("imageGCLowThresholdPercent", "0"),
        ("imageMinimumGCAge", "0s"),
    ];
    rig.restart_with(&always)?;
    until("a look at the images", || {
        let log = rig.node.process.log();
        ensure!(log.contains("failed to clean up images"), "{log}");
        Ok(())
    })?;
    ensure!(
        names(&rig)? == [IMAGE, PAUSE].map(str::to_owned).into(),
        "one that is used was removed"
    );
    leaves_nothing(&rig)?;
    until("the end of the pod", || {
        ensure!(rig.pod("user")?.is_none(), "it is there");
        Ok(())
    })?;
    rig.node.process.start_again()?;
    until("only the image of sandboxes", || {
        let left = names(&rig)?;
        ensure!(left == [PAUSE.to_owned()].into(), "{left:?}");
        Ok(())
    })
}

const A_THIRD_OF_A_DISK: &str = "{memory.available: 0%, nodefs.available: 33%, nodefs.inodesFree: 0%, imagefs.available: 0%, imagefs.inodesFree: 0%}";

#[test]
fn no_more_images_go_than_need_be_and_the_longest_unused_first() -> anyhow::Result<()> {
    let mut rig = RealRig::start_on_one_small_disk("size=64m")?;
    let others = [
        "docker.io/e2e/other:1",
        "docker.io/e2e/other:2",
        "docker.io/e2e/other:3",
    ];
    others
        .iter()
        .try_for_each(|name| rig.containerd.add_image(name))?;
    let ids = rig.containerd.images()?;
    apply(&rig, &[pod("user", &json!({}))])?;
    rig.wait_ready("user")?;
    // One or two percent of the disk are too much, which one image is worth.
    let used = used_percent(&rig.node.pods)?;
    rig.restart_with(&[
        ("imageGCHighThresholdPercent", &(used - 1).to_string()),
        ("imageGCLowThresholdPercent", &(used - 2).to_string()),
        ("imageMinimumGCAge", "0s"),
        ("evictionHard", A_THIRD_OF_A_DISK),
        ("evictionPressureTransitionPeriod", "1s"),
    ])?;
    let removed = |rig: &RealRig| -> Vec<String> {
        let log = rig.node.process.log();
        let lines = log
            .lines()
            .filter(|line| line.contains("unused image removed"));
        let name = |line: &str| {
            ids.iter()
                .find(|(_, id)| line.contains(id.as_str()))
                .map(|(name, _)| name.clone())
        };
        lines.filter_map(name).collect()
    };
    until("one image less", || {
        let removed = removed(&rig);
        ensure!(removed.len() == 1, "{removed:?}");
        Ok(())
    })?;
    rig.cloud.kubectl.run(&["delete", "pod", "user"])?;
    until("the end of the pod", || {
        ensure!(
            rig.containerd.raw_cri.sandboxes(None)?.is_empty(),
            "it is there"
        );
        Ok(())
    })?;
    ensure!(
        names(&rig)?.len() == 4,
        "more than need be: {:?}",
        names(&rig)?
    );
    fs::write(rig.node.pods.join("much"), vec![0; 40 << 20])?;
    until("only the image of sandboxes", || {
        let left = names(&rig)?;
        ensure!(left == [PAUSE.to_owned()].into(), "{left:?}");
        Ok(())
    })?;
    // An image is gone before the line about it is in the log.
    let removed = until("a line about each image", || {
        let removed = removed(&rig);
        ensure!(removed.len() == 4, "{removed:?}");
        Ok(removed)
    })?;
    ensure!(
        removed[3] == IMAGE,
        "the one that was used is not the last: {removed:?}"
    );
    Ok(())
}

/// Percent of the disk below `path` that are not available.
fn used_percent(path: &Path) -> anyhow::Result<u64> {
    let disk = nix::sys::statvfs::statvfs(path)?;
    Ok(100 - disk.blocks_available() * 100 / disk.blocks())
}

/// Lines that a busy container writes.
const LINES: usize = 100_000;

#[test]
fn a_busy_log_is_rotated_and_no_line_is_lost() -> anyhow::Result<()> {
    let mut rig = RealRig::start()?;
    rig.restart_with(&[
        ("containerLogMaxSize", "256Ki"),
        ("containerLogMaxFiles", "1000"),
        ("containerLogMonitorInterval", "200ms"),
    ])?;
    let words = format!(
        "i=0; while [ $i -lt {LINES} ]; do echo line $i; i=$((i+1)); [ $((i%1000)) = 0 ] && usleep 50000; done; \
         echo end; trap 'exit 0' TERM; sleep 2147483647 & wait"
    );
    apply(
        &rig,
        &[pod(
            "busy",
            &json!({"containers": [{"command": ["sh", "-c", words]}]}),
        )],
    )?;
    rig.wait_ready("busy")?;
    let directory = logs(&rig, "busy")?;
    let all = until("the last line", || {
        // fails, and is tried again, where a file gets another name meanwhile
        let all = read(&directory)?;
        ensure!(
            all.last().is_some_and(|line| line == "end"),
            "{} lines",
            all.len()
        );
        Ok(all)
    })?;
    let expected = (0..LINES)
        .map(|number| format!("line {number}"))
        .chain(["end".to_owned()]);
    ensure!(
        all.len() == LINES + 1 && all.iter().eq(expected.collect::<Vec<_>>().iter()),
        "{} lines",
        all.len()
    );
    until("a log that is at rest", || {
        let names = files(&directory)?;
        ensure!(
            names.len() > 3 && names.iter().any(|name| name.ends_with(".gz")),
            "{names:?}"
        );
        ensure!(
            names.iter().all(|name| !name.ends_with(".tmp")),
            "{names:?}"
        );
        Ok(())
    })?;
    leaves_nothing(&rig)
}

#[test]
fn no_more_files_of_a_log_are_kept_than_wanted() -> anyhow::Result<()> {
    let mut rig = RealRig::start()?;
    rig.restart_with(&[
        ("containerLogMaxSize", "32Ki"),
        ("containerLogMaxFiles", "3"),
        ("containerLogMonitorInterval", "100ms"),
    ])?;
    // half a dozen rotations, not two of them in one second
    let words = "i=0; while [ $i -lt 12000 ]; do echo line $i; i=$((i+1)); [ $((i%500)) = 0 ] && usleep 100000; done; \
                 echo end; trap 'exit 0' TERM; sleep 2147483647 & wait";
    apply(
        &rig,
        &[pod(
            "busy",
            &json!({"containers": [{"command": ["sh", "-c", words]}]}),
        )],
    )?;
    rig.wait_ready("busy")?;
    let directory = logs(&rig, "busy")?;
    let mut most = 0;
    until("the last line", || {
        let mut names = files(&directory)?;
        // while it is compressed, a file is there twice
        names
            .iter_mut()
            .for_each(|name| *name = name.trim_end_matches(".tmp").trim_end_matches(".gz").into());
        names.dedup();
        most = most.max(names.len());
        // after the last line, the file may have been rotated once more
        let is_written = match fs::read_to_string(directory.join("0.log"))? {
            current if current.is_empty() => {
                read(&directory)?.last().is_some_and(|line| line == "end")
            }
            current => current.ends_with(" end\n"),
        };
        ensure!(is_written, "it goes on: {names:?}");
        Ok(())
    })?;
    ensure!(most == 3, "{most} files");
    let lines = until("a log that is at rest", || read(&directory))?;
    let numbers: Vec<u32> = lines
        .iter()
        .filter_map(|line| line.strip_prefix("line ")?.parse().ok())
        .collect();
    let (first, last) = (
        numbers.first().context("no lines")?,
        numbers.last().context("no lines")?,
    );
    ensure!(*last == 11_999 && *first > 0, "from {first} to {last}");
    let gaps: Vec<_> = numbers
        .windows(2)
        .filter(|two| two[1] != two[0] + 1)
        .collect();
    ensure!(
        gaps.is_empty(),
        "lines of the files that are left are lost: {gaps:?}, {:?}",
        files(&directory)?
    );
    leaves_nothing(&rig)
}

/// The text of all files of a log, the oldest first. A file that is compressed meanwhile is looked for again.
fn read(directory: &Path) -> anyhow::Result<Vec<String>> {
    let before = files(directory)?;
    let mut names = before.clone();
    names.retain(|name| !name.ends_with(".tmp"));
    // the current one is the newest
    names.retain(|name| name != "0.log");
    // while it is compressed, a file is there twice
    let doubles: Vec<_> = names.iter().map(|name| format!("{name}.gz")).collect();
    let doubles: Vec<_> = doubles
        .into_iter()
        .filter(|name| names.contains(name))
        .collect();
    names.retain(|name| !doubles.contains(name));
    names.push("0.log".to_owned());
    let mut lines = Vec::new();
    for name in names {
        let path = directory.join(&name);
        let text = match name.ends_with(".gz") {
            true => run(Command::new("gzip").arg("-dc").arg(&path))?
                .success()?
                .text(),
            false => fs::read_to_string(&path)?,
        };
        lines.extend(
            text.lines()
                .filter_map(|line| line.splitn(4, ' ').nth(3))
                .map(str::to_owned),
        );
    }
    ensure!(
        files(directory)? == before,
        "files got other names meanwhile"
    );
    Ok(lines)
}
