//! What the node forgets, and what it keeps: containers that have ended, images, logs.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, ensure};
use e2e::{
    containerd::{Bare, IMAGE, PAUSE, RealRig},
    run, until,
};
use serde_json::json;
use wire::cri::{ContainerState, ListImagesRequest};

use crate::case::{apply, leaves_nothing, pod};

/// The log directory of the pod's container.
fn logs(rig: &RealRig, name: &str) -> anyhow::Result<PathBuf> {
    let pod = rig.pod(name)?.context("no pod")?;
    let uid = pod["metadata"]["uid"].as_str().context("no uid")?;
    Ok(rig.logs().join(format!("default_{name}_{uid}/main")))
}

fn files(path: &Path) -> anyhow::Result<Vec<String>> {
    let mut all: Vec<_> =
        fs::read_dir(path)?.flatten().map(|file| file.file_name().to_string_lossy().into_owned()).collect();
    all.sort();
    Ok(all)
}

#[test]
fn of_containers_that_ended_the_newest_is_kept() -> anyhow::Result<()> {
    let mut rig = RealRig::start()?;
    let bare = &rig.containerd.bare;
    let config = Bare::sandbox_config("foreign", &rig.directory.path().join("foreign"));
    let sandbox = bare.run_sandbox(config.clone())?;
    let foreign = bare.create(&sandbox, config, Bare::container_config("foreign", &["true"]))?;
    bare.start(&foreign)?;
    apply(&rig, &[pod("again", &json!({}))])?;
    let mut id = RealRig::container_id(&rig.wait_ready("again")?, "main")?;
    for log in ["1.log", "2.log"] {
        rig.containerd.bare.stop(&id, 0)?;
        let other = rig.wait_pod("again", |pod| {
            let new = RealRig::container_id(pod, "main").map_err(|error| error.to_string())?;
            let ready = pod["status"]["containerStatuses"][0]["ready"] == true;
            if ready && new != id { Ok(()) } else { Err("not restarted".to_owned()) }
        })?;
        id = RealRig::container_id(&other, "main")?;
        let there = files(&logs(&rig, "again")?)?;
        ensure!(there.iter().any(|file| file == log), "{log} is not among {there:?}");
    }
    // the first look comes with the start
    rig.node.process.start_again()?;
    until("one that ended, one that runs", || {
        let listed = rig.containerd.bare.list(None)?;
        let ours = listed.iter().filter(|one| one.labels.contains_key("io.kubernetes.pod.uid"));
        let mut states: Vec<_> = ours
            .map(|one| (one.metadata.as_ref().map_or(0, |metadata| metadata.attempt), one.state()))
            .collect();
        states.sort_by_key(|(attempt, _)| *attempt);
        let wanted = [(1, ContainerState::ContainerExited), (2, ContainerState::ContainerRunning)];
        ensure!(states == wanted, "{states:?}");
        Ok(())
    })?;
    until("logs of those that are left", || {
        let left = files(&logs(&rig, "again")?)?;
        ensure!(left == ["1.log", "2.log"], "{left:?}");
        Ok(())
    })?;
    let seen = rig.wait_ready("again")?;
    ensure!(seen["status"]["containerStatuses"][0]["restartCount"] == 2, "{}", seen["status"]);
    let kept = rig.containerd.bare.status(&foreign)?;
    ensure!(kept.state() == ContainerState::ContainerExited, "a container of somebody else: {kept:?}");
    rig.containerd.bare.stop_sandbox(&sandbox)?;
    rig.containerd.bare.remove_sandbox(&sandbox)?;
    leaves_nothing(&rig)
}

fn images(rig: &RealRig) -> anyhow::Result<BTreeSet<String>> {
    let listed = rig
        .containerd
        .bare
        .images(async |mut client| client.list_images(ListImagesRequest::default()).await)?;
    Ok(listed.images.into_iter().flat_map(|image| image.repo_tags).collect())
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
        ensure!(log.contains("images are not cleaned up"), "{log}");
        Ok(())
    })?;
    ensure!(images(&rig)? == [IMAGE.to_owned(), PAUSE.to_owned()].into(), "one that is used was removed");
    leaves_nothing(&rig)?;
    until("the end of the pod", || {
        ensure!(rig.pod("user")?.is_none(), "it is there");
        Ok(())
    })?;
    rig.node.process.start_again()?;
    until("only the image of sandboxes", || {
        let left = images(&rig)?;
        ensure!(left == [PAUSE.to_owned()].into(), "{left:?}");
        Ok(())
    })
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
    apply(&rig, &[pod("busy", &json!({"containers": [{"command": ["sh", "-c", words]}]}))])?;
    rig.wait_ready("busy")?;
    let directory = logs(&rig, "busy")?;
    let all = until("the last line", || {
        // fails, and is tried again, where a file gets another name meanwhile
        let all = read(&directory)?;
        ensure!(all.last().is_some_and(|line| line == "end"), "{} lines", all.len());
        Ok(all)
    })?;
    let expected = (0..LINES).map(|number| format!("line {number}")).chain(["end".to_owned()]);
    ensure!(
        all.len() == LINES + 1 && all.iter().eq(expected.collect::<Vec<_>>().iter()),
        "{} lines",
        all.len()
    );
    until("a log that is at rest", || {
        let names = files(&directory)?;
        ensure!(names.len() > 3 && names.iter().any(|name| name.ends_with(".gz")), "{names:?}");
        ensure!(names.iter().all(|name| !name.ends_with(".tmp")), "{names:?}");
        Ok(())
    })?;
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
    let doubles: Vec<_> = doubles.into_iter().filter(|name| names.contains(name)).collect();
    names.retain(|name| !doubles.contains(name));
    names.push("0.log".to_owned());
    let mut lines = Vec::new();
    for name in names {
        let path = directory.join(&name);
        let text = match name.ends_with(".gz") {
            true => run(Command::new("gzip").arg("-dc").arg(&path))?.success()?.text(),
            false => fs::read_to_string(&path)?,
        };
        lines.extend(text.lines().filter_map(|line| line.splitn(4, ' ').nth(3)).map(str::to_owned));
    }
    ensure!(files(directory)? == before, "files got other names meanwhile");
    Ok(lines)
}
