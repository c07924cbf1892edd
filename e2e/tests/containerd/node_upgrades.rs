//! Upgrades of the agent by node jobs, on real containers: the new version is installed, or the old one stays, and pods do not notice.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, ensure};
use e2e::{AGENT, NODE, Process, SmallDisk, binary, containerd::RealRig, run, until};
use serde_json::{Value, json};

use crate::case::{apply, leaves_nothing, pod};

/// The version that is built, and one with the same behaviour.
const OLD: &str = env!("CARGO_PKG_VERSION");
const NEW: &str = "0.1.9";
/// The repository of the images.
const REPOSITORY: &str = "docker.io/e2e/agent";
/// Where images have the program.
const PLACE: &str = "usr/local/bin/edge-agent";

/// A node that runs a copy of the agent, with a pod.
struct World {
    rig: RealRig,
    program: PathBuf,
    pod: Value,
}

impl World {
    /// Starts it with the program in this directory.
    fn start(directory: &Path) -> anyhow::Result<Self> {
        let mut rig = RealRig::start()?;
        let program = directory.join(AGENT);
        write_program(&program, &fs::read(binary(AGENT)?)?)?;
        // the programs of debug builds are mostly symbols
        run(Command::new("strip").arg(&program))?.success()?;
        rig.node
            .add_after("modules:", "  taskManager: {enable: true}")?;
        rig.node.process.terminate()?;
        let mut command = Command::new(&program);
        command.arg("--config").arg(&rig.node.config);
        rig.node.process = Process::start("agent", command, rig.directory.path())?;
        rig.node.process.wait_for("edge-agent started")?;
        rig.cloud.wait_node("Ready")?;
        apply(&rig, &[pod("web", &json!({}))])?;
        let pod = rig.wait_ready("web")?;
        Ok(Self { rig, program, pod })
    }

    /// Adds an image of a version with this program.
    fn add_image(&self, name: &str, version: &str, bytes: &[u8]) -> anyhow::Result<()> {
        let file = self.rig.directory.path().join("program");
        write_program(&file, bytes)?;
        let image = format!("{REPOSITORY}-{name}:v{version}");
        self.rig
            .containerd
            .add_image_of(&image, &[(PLACE, file.as_path())])
    }

    /// Lets an image have its digest, and returns it.
    fn add_digest(&self, name: &str, version: &str) -> anyhow::Result<String> {
        let repository = format!("{REPOSITORY}-{name}");
        self.rig
            .containerd
            .add_digest(&repository, &format!("v{version}"))
    }

    fn apply(&self, name: &str, image: &str, version: &str, more: &Value) -> anyhow::Result<()> {
        let mut spec = json!({"version": format!("v{version}"), "image": format!("{REPOSITORY}-{image}"),
            "nodeNames": [NODE], "timeoutSeconds": 60});
        for (key, value) in more.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        let job = json!({"apiVersion": "operations.kubeedge.io/v1alpha2", "kind": "NodeUpgradeJob",
            "metadata": {"name": name}, "spec": spec});
        apply(&self.rig, &[job])
    }

    /// Returns the status of a job, and that of the node in it.
    fn status(&self, name: &str) -> anyhow::Result<(Value, Value)> {
        let path = format!("/apis/operations.kubeedge.io/v1alpha2/nodeupgradejobs/{name}");
        let job = self.rig.cloud.api.get(&path)?.unwrap_or_default();
        Ok((
            job["status"].clone(),
            job["status"]["nodeStatus"][0].clone(),
        ))
    }

    /// Waits until a job has ended so; returns the status of the node.
    fn wait_end(&self, name: &str, phase: &str) -> anyhow::Result<Value> {
        until(&format!("{name} is in phase {phase}"), || {
            let (status, node) = self.status(name)?;
            ensure!(status["phase"] == phase, "{status}");
            Ok(node)
        })
    }

    /// Returns the phase in the record of the upgrade.
    fn phase(&self) -> String {
        let path = format!("{}.upgrade", self.rig.node.config.display());
        let text = fs::read(path).unwrap_or_default();
        let record: Value = serde_json::from_slice(&text).unwrap_or_default();
        record["phase"].as_str().unwrap_or_default().to_owned()
    }

    /// Returns the id of the process that the agent watches, once it runs the new program.
    fn child(&self) -> Option<String> {
        let own = self.rig.node.process.id()?;
        let children = fs::read_to_string(format!("/proc/{own}/task/{own}/children")).ok()?;
        let all = children.split_whitespace();
        let runs = |id: &str| fs::read_link(format!("/proc/{id}/exe")).ok();
        all.map(str::to_owned)
            .find(|id| runs(id) == Some(self.candidate()) && self.phase() == "OnTrial")
    }

    fn candidate(&self) -> PathBuf {
        self.program.with_extension("upgrade")
    }

    /// Waits until a job waits for a confirmation.
    fn wait_waiting(&self, name: &str) -> anyhow::Result<()> {
        until(&format!("{name} waits"), || {
            let (status, node) = self.status(name)?;
            let waits = actions(&node) == ["Check", "WaitingConfirmation"];
            ensure!(waits && node["phase"] == "InProgress", "{status}");
            Ok(())
        })
    }

    /// Runs `edge-agent confirm`.
    fn confirm(&self) -> anyhow::Result<std::process::Output> {
        let mut command = Command::new(&self.program);
        command
            .arg("confirm")
            .arg("--config")
            .arg(&self.rig.node.config);
        Ok(command.output()?)
    }

    /// Checks that this version runs, in the process that was started, and that the containers are the same.
    fn check_runs(&mut self, version: &str) -> anyhow::Result<()> {
        ensure!(
            reported_version(&self.program)? == version,
            "another program is installed"
        );
        ensure!(!self.candidate().exists(), "the new program is left");
        ensure!(self.rig.node.process.runs(), "the agent has ended");
        let own = self.rig.node.process.id().context("no process")?;
        let runs = fs::read_link(format!("/proc/{own}/exe"))?;
        ensure!(runs == self.program, "{runs:?} runs");
        self.rig.cloud.wait_node("Ready")?;
        let after = self.rig.wait_ready("web")?;
        for field in [
            "/status/containerStatuses/0/containerID",
            "/status/containerStatuses/0/restartCount",
        ] {
            ensure!(self.pod.pointer(field) == after.pointer(field), "{after}");
        }
        Ok(())
    }
}

fn write_program(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    fs::write(path, bytes)?;
    Ok(fs::set_permissions(
        path,
        fs::Permissions::from_mode(0o755),
    )?)
}

/// Returns the agent with another version in all of its texts.
fn other_version(program: &Path, version: &str) -> anyhow::Result<Vec<u8>> {
    let mut bytes = fs::read(program)?;
    let (old, new) = (OLD.as_bytes(), version.as_bytes());
    ensure!(old.len() == new.len(), "{version} has another length");
    let mut from = 0;
    while let Some(found) = bytes[from..]
        .windows(old.len())
        .position(|part| part == old)
    {
        let place = from + found;
        bytes[place..place + new.len()].copy_from_slice(new);
        from = place + new.len();
    }
    Ok(bytes)
}

/// Returns a program that fails in this way.
fn broken_program(version: &str, mode: &str) -> anyhow::Result<Vec<u8>> {
    let mut bytes = fs::read(env!("CARGO_BIN_EXE_broken-agent"))?;
    bytes.extend_from_slice(format!("\n{version} {mode}").as_bytes());
    Ok(bytes)
}

fn reported_version(program: &Path) -> anyhow::Result<String> {
    let text = run(Command::new(program).arg("-V"))?.success()?.text();
    Ok(text.trim().trim_start_matches("edge-agent ").to_owned())
}

fn actions(node: &Value) -> Vec<&str> {
    let flow = node["actionFlow"].as_array();
    let flow = flow.into_iter().flatten();
    flow.filter_map(|one| one["action"].as_str()).collect()
}

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
            let runs = Path::new("/proc").join(&child).exists();
            (!runs).then_some(()).ok_or("it runs")
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
