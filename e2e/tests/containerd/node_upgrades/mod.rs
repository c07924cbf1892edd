//! Upgrades of the agent by node jobs, on real containers: the new version is installed, or the old one stays, and pods do not notice.

mod world;

use std::{fs, process::Command};

use anyhow::{Context, ensure};
use e2e::{AGENT, SmallDisk, run, until};
use serde_json::{Value, json};

use self::world::{
    NEW, OLD, PLACE, REPOSITORY, World, actions, broken_program, other_version, reported_version,
    write_program,
};
use crate::case::leaves_nothing;

#[test]
fn a_job_installs_a_version_that_connects() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let mut world = World::start(directory.path())?;
    world.add_image("good", NEW, &other_version(&world.program, NEW)?)?;
    let digest = world.add_digest("good", NEW)?;
    let digests = json!({"amd64": digest, "arm64": digest});
    let more = json!({"checkItems": ["mem"], "imageDigestGatter": digests});
    world.apply("up", "good", NEW, &more)?;
    let node = world.wait_end("up", "Completed")?;
    ensure!(
        actions(&node) == ["Check", "WaitingConfirmation", "BackUp", "Upgrade"],
        "{node}"
    );
    ensure!(
        node["historicVersion"] == format!("v{OLD}") && node["currentVersion"] == format!("v{NEW}"),
        "{node}"
    );
    world.check_runs(NEW)?;
    let backup = world
        .rig
        .node
        .config
        .with_file_name("node/backup")
        .join(format!("v{OLD}"));
    ensure!(
        reported_version(&backup.join(AGENT))? == OLD,
        "no backup of the program"
    );
    ensure!(
        fs::read(backup.join("edgecore.yaml"))? == fs::read(&world.rig.node.config)?,
        "no backup of the configuration"
    );

    // the version that runs is not installed again
    world.apply("same", "nowhere", NEW, &json!({}))?;
    let process = world.rig.node.process.id();
    world.wait_end("same", "Completed")?;
    ensure!(world.rig.node.process.id() == process);
    world.check_runs(NEW)?;
    leaves_nothing(&world.rig)
}

/// A version that is not installed.
struct Refused {
    name: &'static str,
    program: Vec<u8>,
    place: &'static str,
    more: Value,
    /// The actions that the node reports.
    actions: &'static [&'static str],
    /// A part of the reason.
    reason: &'static str,
}

const CHECKED: &[&str] = &["Check"];
const TRIED: &[&str] = &[
    "Check",
    "WaitingConfirmation",
    "BackUp",
    "Upgrade",
    "RollBack",
];

fn refused_versions() -> anyhow::Result<Vec<Refused>> {
    let digest = format!("sha256:{}", "0".repeat(64));
    let case = |name, program, actions, reason| Refused {
        name,
        program,
        place: PLACE,
        more: json!({}),
        actions,
        reason,
    };
    // the bytes of the processor in the header of ELF
    let mut other_processor = broken_program(NEW, "exits")?;
    other_processor[18] ^= 0xff;
    Ok(vec![
        case(
            "exits",
            broken_program(NEW, "exits")?,
            TRIED,
            "Upgrade: v0.1.9 has ended by itself: exit status: 3",
        ),
        Refused {
            more: json!({"timeoutSeconds": 8}),
            ..case(
                "hangs",
                broken_program(NEW, "hangs")?,
                TRIED,
                "Upgrade: v0.1.9 has not reached the cloud within 4 s",
            )
        },
        case(
            "lies",
            broken_program("0.1.8", "exits")?,
            CHECKED,
            "the program of the image reports \"edge-agent 0.1.8\", not edge-agent 0.1.9",
        ),
        case(
            "processor",
            other_processor,
            CHECKED,
            "is not for this machine's processor",
        ),
        Refused {
            place: "usr/local/bin/edgecore",
            ..case(
                "edgecore",
                broken_program(NEW, "exits")?,
                CHECKED,
                "contains EdgeCore, not edge-agent",
            )
        },
        Refused {
            place: "etc/motd",
            ..case(
                "empty",
                broken_program(NEW, "exits")?,
                CHECKED,
                "has no program /usr/local/bin/edge-agent",
            )
        },
        Refused {
            more: json!({"imageDigestGatter": {"amd64": digest, "arm64": digest}}),
            ..case(
                "digest",
                broken_program(NEW, "exits")?,
                CHECKED,
                "does not have the digest sha256:0000",
            )
        },
    ])
}

#[test]
fn a_version_that_does_not_work_is_not_installed() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let mut world = World::start(directory.path())?;
    for case in refused_versions()? {
        let file = directory.path().join("program");
        write_program(&file, &case.program)?;
        let image = format!("{REPOSITORY}-{}:v{NEW}", case.name);
        let files = [(case.place, file.as_path())];
        world.rig.containerd.add_image_of(&image, &files)?;
        world.apply(case.name, case.name, NEW, &case.more)?;
        let node = world.wait_end(case.name, "Failure")?;
        let reason = node["reason"].as_str().unwrap_or_default();
        ensure!(reason.contains(case.reason), "{}: {reason}", case.name);
        ensure!(actions(&node) == case.actions, "{}: {node}", case.name);
        let version = &node["currentVersion"];
        let is_known = case.actions == TRIED;
        ensure!(!is_known || *version == format!("v{OLD}"), "{node}");
        world
            .check_runs(OLD)
            .with_context(|| format!("after the job {}", case.name))?;
        ensure!(world.phase().is_empty(), "a record is left");
    }
    leaves_nothing(&world.rig)
}

/// Waits until the upgrade has come so far, and kills the agent.
fn kill_when(
    world: &mut World,
    what: &str,
    reached: impl Fn(&World) -> bool,
) -> anyhow::Result<()> {
    until(what, || reached(world).then_some(()).ok_or("not yet"))?;
    world.rig.node.process.kill()?;
    world.rig.node.process.start_again()
}

#[test]
fn an_agent_that_is_killed_in_an_upgrade_finishes_it() -> anyhow::Result<()> {
    type Reached = fn(&World) -> bool;
    let directory = tempfile::tempdir()?;
    let mut world = World::start(directory.path())?;
    let old = fs::read(&world.program)?;
    let new = other_version(&world.program, NEW)?;
    world.add_image("any", OLD, &old)?;
    world.add_image("any", NEW, &new)?;
    let points: [(&str, Reached); 7] = [
        ("the new program is written", |world| {
            world.candidate().exists()
        }),
        ("the version is checked", |world| world.phase() == "Checked"),
        ("a backup begins", |world| {
            let backups = world.rig.node.config.with_file_name("node/backup");
            fs::read_dir(backups).is_ok_and(|all| all.count() > 0)
        }),
        ("the trial begins", |world| world.phase() == "OnTrial"),
        ("the new version runs", |world| world.child().is_some()),
        ("the new version has connected", |world| {
            world.phase() == "Connected"
        }),
        ("the new version is installed", |world| {
            world.phase() == "Installed"
        }),
    ];
    let mut version = OLD;
    for (number, (what, reached)) in points.into_iter().enumerate() {
        let (name, next) = (
            format!("up-{number}"),
            if version == OLD { NEW } else { OLD },
        );
        world.apply(&name, "any", next, &json!({}))?;
        kill_when(&mut world, what, reached)?;
        world
            .wait_end(&name, "Completed")
            .and_then(|_| world.check_runs(next))
            .with_context(|| format!("killed when {what}"))?;
        version = next;
    }
    leaves_nothing(&world.rig)
}

#[test]
fn a_new_version_that_is_killed_on_trial_is_given_up() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let mut world = World::start(directory.path())?;
    world.add_image("hangs", NEW, &broken_program(NEW, "hangs")?)?;
    world.apply("up", "hangs", NEW, &json!({}))?;
    let child = until("the new version runs", || world.child().ok_or("not yet"))?;
    run(Command::new("kill").args(["-KILL", &child]))?.success()?;
    let node = world.wait_end("up", "Failure")?;
    let reason = node["reason"].as_str().unwrap_or_default();
    ensure!(
        reason.contains("has ended by itself: signal: 9"),
        "{reason}"
    );
    world.check_runs(OLD)?;

    // it ends with the old version, which gives up after the third time
    world.apply("again", "hangs", NEW, &json!({"timeoutSeconds": 240}))?;
    for _ in 0..3 {
        let child = until("the new version runs", || world.child().ok_or("not yet"))?;
        world.rig.node.process.kill()?;
        until("the new version ends with the old one", || {
            // nobody may have waited for it yet
            let runs = fs::read_link(format!("/proc/{child}/exe"));
            runs.err().ok_or("it runs")
        })?;
        world.rig.node.process.start_again()?;
    }
    let node = world.wait_end("again", "Failure")?;
    let reason = node["reason"].as_str().unwrap_or_default();
    ensure!(
        reason.contains("the agent was stopped 3 times while it tried v0.1.9"),
        "{reason}"
    );
    world.check_runs(OLD)?;
    leaves_nothing(&world.rig)
}

#[test]
fn a_full_disk_fails_the_check_and_changes_nothing() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let place = directory.path().join("bin");
    let disk = SmallDisk::mount(&place, "size=512m")?;
    let mut world = World::start(&place)?;
    world.add_image("good", NEW, &other_version(&world.program, NEW)?)?;
    let full = disk.fill()?;
    world.apply("full", "good", NEW, &json!({}))?;
    let node = world.wait_end("full", "Failure")?;
    let reason = node["reason"].as_str().unwrap_or_default();
    ensure!(
        reason.starts_with("Check: cannot write") && reason.contains("No space left on device"),
        "{reason}"
    );
    world.check_runs(OLD)?;
    fs::remove_file(full)?;
    world.apply("free", "good", NEW, &json!({}))?;
    world.wait_end("free", "Completed")?;
    world.check_runs(NEW)?;
    leaves_nothing(&world.rig)
}

#[test]
fn an_upgrade_waits_for_a_confirmation_on_the_node() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let mut world = World::start(directory.path())?;
    world.add_image("good", NEW, &other_version(&world.program, NEW)?)?;
    world.add_image("lies", NEW, &broken_program("0.1.8", "exits")?)?;
    let refused = |world: &World| {
        let output = world.confirm()?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(
            !output.status.success() && text.contains("no upgrade waits"),
            "{text}"
        );
        Ok(())
    };
    let waits = json!({"requireConfirmation": true});
    refused(&world)?;
    world.apply("lies", "lies", NEW, &waits)?;
    world.wait_end("lies", "Failure")?;
    refused(&world)?;

    world.apply("deleted", "good", NEW, &waits)?;
    world.wait_waiting("deleted")?;
    world
        .rig
        .cloud
        .kubectl
        .run(&["delete", "nodeupgradejob", "deleted"])?;
    world.rig.node.process.wait_for("node job cancelled")?;
    refused(&world)?;
    world.check_runs(OLD)?;

    world.apply("up", "good", NEW, &waits)?;
    world.wait_waiting("up")?;
    world.rig.node.process.kill()?;
    world.rig.node.process.start_again()?;
    world.rig.node.process.wait_for("status socket listening")?;
    // one of two at the same time
    let outputs = std::thread::scope(|scope| {
        let all = [(); 2].map(|()| scope.spawn(|| world.confirm()));
        all.map(|one| one.join().map_err(|_| anyhow::anyhow!("panic"))?)
            .into_iter()
            .collect::<anyhow::Result<Vec<_>>>()
    })?;
    let done: Vec<_> = outputs
        .iter()
        .filter(|output| output.status.success())
        .collect();
    ensure!(done.len() == 1, "{outputs:?}");
    ensure!(done[0].stdout == b"upgrade up confirmed\n", "{done:?}");
    world.wait_end("up", "Completed")?;
    world.check_runs(NEW)?;
    leaves_nothing(&world.rig)
}
