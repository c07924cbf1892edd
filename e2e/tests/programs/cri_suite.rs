//! What CRI v1 promises to a kubelet, above all that every call may come twice. The same tests for both runtimes: the simulated
//! one, which stands for real ones in most tests of this repository, and containerd, which says whether it does so rightly.

use std::{path::Path, time::Instant};

use anyhow::{Context, ensure};
use e2e::{
    Runtime,
    containerd::{Containerd, IMAGE, RawCri},
    until,
};
use tempfile::TempDir;
use tonic::Code;
use wire::cri::{
    self, ContainerState, ContainerStatus, ImageSpec, ImageStatusRequest, PodSandboxState,
    PullImageRequest, RemoveImageRequest,
};

/// A runtime with a client of it.
struct Subject {
    raw_cri: RawCri,
    // ended before its directory goes
    _runtime: Box<dyn std::any::Any>,
    directory: TempDir,
    /// Whether what containers are told to run is run.
    runs_programs: bool,
}

impl Subject {
    fn simulated() -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let runtime = Runtime::start(directory.path())?;
        let raw_cri = RawCri::new(directory.path().join("runtime.sock"))?;
        let request = PullImageRequest {
            image: Some(image()),
            ..Default::default()
        };
        raw_cri.images(async |mut client| client.pull_image(request).await)?;
        Ok(Self {
            raw_cri,
            _runtime: Box::new(runtime),
            directory,
            runs_programs: false,
        })
    }

    fn containerd() -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let runtime = Containerd::start(directory.path())?;
        let raw_cri = RawCri::new(directory.path().join("runtime.sock"))?;
        Ok(Self {
            raw_cri,
            _runtime: Box::new(runtime),
            directory,
            runs_programs: true,
        })
    }

    fn sandbox(&self, name: &str) -> anyhow::Result<(String, cri::PodSandboxConfig)> {
        // the kubelet makes it too
        std::fs::create_dir_all(self.logs(name))?;
        let mut config = RawCri::sandbox_config(name, &self.logs(name));
        config.labels.insert("app".into(), name.to_owned());
        config.annotations.insert("note".into(), "kept".into());
        // The simulated runtime runs no programs: these tell it what the programs of this file do.
        for (key, value) in [
            ("well.exit-after", "0s"),
            ("badly.exit-after", "0s"),
            ("badly.exit-code", "3"),
            ("deaf.stop-time", "never"),
        ] {
            config
                .annotations
                .insert(format!("sim.outrigger.dev/{key}"), value.into());
        }
        Ok((self.raw_cri.run_sandbox(config.clone())?, config))
    }

    fn logs(&self, name: &str) -> std::path::PathBuf {
        Path::new(self.directory.path()).join("logs").join(name)
    }

    /// Waits until the program of a container has executed `trap` and says so: a signal before that finds runc's init process, which
    /// it ends, or a shell without a handler, which as process 1 ignores it.
    fn wait_trap(&self, sandbox: &str, container: &str) -> anyhow::Result<()> {
        until("the program's word", || {
            let log =
                std::fs::read_to_string(self.logs(sandbox).join(container).with_extension("log"))
                    .unwrap_or_default();
            ensure!(!self.runs_programs || log.contains("listens"), "{log:?}");
            Ok(())
        })
    }

    /// Waits until the container has ended.
    fn wait_ended(&self, id: &str) -> anyhow::Result<ContainerStatus> {
        until("the end of the container", || {
            let status = self.raw_cri.status(id)?;
            ensure!(
                status.state() == ContainerState::ContainerExited,
                "{status:?}"
            );
            Ok(status)
        })
    }
}

fn image() -> ImageSpec {
    ImageSpec {
        image: IMAGE.to_owned(),
        ..Default::default()
    }
}

fn code<T>(result: Result<T, tonic::Status>) -> Code {
    result.err().map_or(Code::Ok, |status| status.code())
}

const FOREVER: [&str; 3] = [
    "sh",
    "-c",
    "trap 'exit 0' TERM; echo listens; sleep 2147483647 & wait",
];

fn a_pod_lives_and_dies(subject: &Subject) -> anyhow::Result<()> {
    let raw_cri = &subject.raw_cri;
    let (sandbox, config) = subject.sandbox("life")?;
    let status = raw_cri.sandbox_status(&sandbox)?;
    ensure!(
        status.state() == PodSandboxState::SandboxReady,
        "{status:?}"
    );
    ensure!(
        status.labels["app"] == "life" && status.annotations["note"] == "kept",
        "{status:?}"
    );
    let ip = status.network.context("no network")?.ip;
    ensure!(
        ip.parse::<std::net::IpAddr>().is_ok(),
        "its address is {ip:?}"
    );

    let mut wanted = RawCri::container_config("main", &FOREVER);
    wanted.labels.insert("role".into(), "main".into());
    wanted.annotations.insert("note".into(), "kept".into());
    let id = raw_cri.create(&sandbox, config, wanted)?;
    let status = raw_cri.status(&id)?;
    ensure!(
        status.state() == ContainerState::ContainerCreated && status.started_at == 0,
        "{status:?}"
    );
    ensure!(
        status.created_at > 0 && status.annotations["note"] == "kept",
        "{status:?}"
    );
    raw_cri.start(&id)?;
    let status = raw_cri.status(&id)?;
    ensure!(
        status.state() == ContainerState::ContainerRunning,
        "{status:?}"
    );
    ensure!(
        status.started_at >= status.created_at && status.finished_at == 0,
        "{status:?}"
    );
    ensure!(
        status
            .metadata
            .as_ref()
            .is_some_and(|metadata| metadata.name == "main"),
        "{status:?}"
    );

    subject.wait_trap("life", "main")?;
    raw_cri.stop(&id, 60)?;
    let status = raw_cri.status(&id)?;
    ensure!(
        status.state() == ContainerState::ContainerExited && status.exit_code == 0,
        "{status:?}"
    );
    ensure!(
        status.reason == "Completed" && status.finished_at >= status.started_at,
        "{status:?}"
    );
    raw_cri.stop_sandbox(&sandbox)?;
    ensure!(
        raw_cri.sandbox_status(&sandbox)?.state() == PodSandboxState::SandboxNotready,
        "it is ready"
    );
    raw_cri.remove_sandbox(&sandbox)?;
    ensure!(
        raw_cri.list(None)?.is_empty() && raw_cri.sandboxes(None)?.is_empty(),
        "something is left"
    );
    Ok(())
}

fn every_call_may_come_twice(subject: &Subject) -> anyhow::Result<()> {
    let raw_cri = &subject.raw_cri;
    let (sandbox, config) = subject.sandbox("twice")?;
    let id = raw_cri.create(&sandbox, config, RawCri::container_config("main", &FOREVER))?;
    raw_cri.start(&id)?;
    for _ in 0..2 {
        raw_cri.stop(&id, 20)?;
    }
    for _ in 0..2 {
        raw_cri.remove(&id)?;
    }
    for _ in 0..2 {
        raw_cri.stop_sandbox(&sandbox)?;
    }
    for _ in 0..2 {
        raw_cri.remove_sandbox(&sandbox)?;
    }
    // what never was is as good as what is gone, where the call is to make it so
    ensure!(code(raw_cri.remove("none")) == Code::Ok, "remove");
    ensure!(
        code(raw_cri.remove_sandbox("none")) == Code::Ok,
        "remove a sandbox"
    );
    ensure!(
        matches!(
            code(raw_cri.stop_sandbox("none")),
            Code::Ok | Code::NotFound
        ),
        "stop a sandbox"
    );
    ensure!(code(raw_cri.status(&id)) == Code::NotFound, "status");
    ensure!(
        code(raw_cri.sandbox_status(&sandbox)) == Code::NotFound,
        "status of a sandbox"
    );
    ensure!(code(raw_cri.start(&id)) == Code::NotFound, "start");
    Ok(())
}

fn names_are_taken_once(subject: &Subject) -> anyhow::Result<()> {
    let raw_cri = &subject.raw_cri;
    let (sandbox, config) = subject.sandbox("one")?;
    ensure!(
        code(raw_cri.run_sandbox(config.clone())) != Code::Ok,
        "a second sandbox of the same name and attempt"
    );
    let mut next = config.clone();
    if let Some(metadata) = &mut next.metadata {
        metadata.attempt = 1;
    }
    let second = raw_cri.run_sandbox(next)?;
    ensure!(second != sandbox, "the same id twice");
    let wanted = RawCri::container_config("main", &FOREVER);
    let id = raw_cri.create(&sandbox, config.clone(), wanted.clone())?;
    ensure!(
        code(raw_cri.create(&sandbox, config.clone(), wanted.clone())) != Code::Ok,
        "a second container of the same name"
    );
    let mut again = wanted;
    if let Some(metadata) = &mut again.metadata {
        metadata.attempt = 1;
    }
    ensure!(
        raw_cri.create(&sandbox, config.clone(), again)? != id,
        "the same id twice"
    );
    raw_cri.start(&id)?;
    ensure!(code(raw_cri.start(&id)) != Code::Ok, "it was started twice");
    ensure!(
        code(raw_cri.create("none", config, RawCri::container_config("x", &FOREVER)))
            == Code::NotFound,
        "no sandbox"
    );
    Ok(())
}

fn ends_are_told(subject: &Subject) -> anyhow::Result<()> {
    let raw_cri = &subject.raw_cri;
    let (sandbox, config) = subject.sandbox("ends")?;
    for (name, command, exit_code, reason) in [
        ("well", ["sh", "-c", "exit 0"], 0, "Completed"),
        ("badly", ["sh", "-c", "exit 3"], 3, "Error"),
    ] {
        let id = raw_cri.create(
            &sandbox,
            config.clone(),
            RawCri::container_config(name, &command),
        )?;
        raw_cri.start(&id)?;
        let status = subject.wait_ended(&id)?;
        ensure!(
            status.exit_code == exit_code && status.reason == reason,
            "{status:?}"
        );
        ensure!(
            status.finished_at > 0 && status.started_at > 0,
            "{status:?}"
        );
    }
    // one that does not listen is killed when it has expired
    let deaf = [
        "sh",
        "-c",
        "trap '' TERM; echo listens; while :; do sleep 1; done",
    ];
    let id = raw_cri.create(
        &sandbox,
        config.clone(),
        RawCri::container_config("deaf", &deaf),
    )?;
    raw_cri.start(&id)?;
    subject.wait_trap("ends", "deaf")?;
    let asked = Instant::now();
    raw_cri.stop(&id, 1)?;
    ensure!(asked.elapsed().as_millis() >= 900, "its time was cut short");
    ensure!(
        raw_cri.status(&id)?.exit_code == 137,
        "{:?}",
        raw_cri.status(&id)?
    );
    // a sandbox that stops takes its containers along; removing one that runs, too
    let id = raw_cri.create(
        &sandbox,
        config,
        RawCri::container_config("along", &FOREVER),
    )?;
    raw_cri.start(&id)?;
    raw_cri.stop_sandbox(&sandbox)?;
    ensure!(
        raw_cri.status(&id)?.state() == ContainerState::ContainerExited,
        "it outlives its sandbox"
    );
    let (sandbox, config) = subject.sandbox("removed")?;
    let id = raw_cri.create(
        &sandbox,
        config,
        RawCri::container_config("running", &FOREVER),
    )?;
    raw_cri.start(&id)?;
    raw_cri.remove_sandbox(&sandbox)?;
    ensure!(
        code(raw_cri.status(&id)) == Code::NotFound,
        "it outlives its sandbox"
    );
    Ok(())
}

fn lists_are_filtered(subject: &Subject) -> anyhow::Result<()> {
    let raw_cri = &subject.raw_cri;
    let mut made = Vec::new();
    for name in ["a", "b"] {
        let (sandbox, config) = subject.sandbox(name)?;
        let mut wanted = RawCri::container_config("main", &FOREVER);
        wanted.labels.insert("app".into(), name.to_owned());
        let id = raw_cri.create(&sandbox, config, wanted)?;
        made.push((sandbox, id));
    }
    raw_cri.start(&made[0].1)?;
    let ids = |filter| -> anyhow::Result<Vec<String>> {
        Ok(raw_cri
            .list(Some(filter))?
            .into_iter()
            .map(|one| one.id)
            .collect())
    };
    let label = |name: &str| [("app".to_owned(), name.to_owned())].into();
    let by_label = cri::ContainerFilter {
        label_selector: label("b"),
        ..Default::default()
    };
    ensure!(ids(by_label)? == [made[1].1.clone()], "by label");
    let by_sandbox = cri::ContainerFilter {
        pod_sandbox_id: made[0].0.clone(),
        ..Default::default()
    };
    ensure!(ids(by_sandbox)? == [made[0].1.clone()], "by sandbox");
    let running = cri::ContainerStateValue {
        state: ContainerState::ContainerRunning as i32,
    };
    let by_state = cri::ContainerFilter {
        state: Some(running),
        ..Default::default()
    };
    ensure!(ids(by_state)? == [made[0].1.clone()], "by state");
    let by_id = cri::ContainerFilter {
        id: made[1].1.clone(),
        ..Default::default()
    };
    ensure!(ids(by_id)? == [made[1].1.clone()], "by id");
    let nothing = cri::ContainerFilter {
        label_selector: label("c"),
        ..Default::default()
    };
    ensure!(ids(nothing)?.is_empty(), "by a label that nobody has");
    let by_label = cri::PodSandboxFilter {
        label_selector: label("a"),
        ..Default::default()
    };
    let found: Vec<_> = raw_cri
        .sandboxes(Some(by_label))?
        .into_iter()
        .map(|one| one.id)
        .collect();
    ensure!(found == [made[0].0.clone()], "sandboxes by label");
    raw_cri.stop_sandbox(&made[1].0)?;
    let ready = cri::PodSandboxStateValue {
        state: PodSandboxState::SandboxReady as i32,
    };
    let by_state = cri::PodSandboxFilter {
        state: Some(ready),
        ..Default::default()
    };
    let found: Vec<_> = raw_cri
        .sandboxes(Some(by_state))?
        .into_iter()
        .map(|one| one.id)
        .collect();
    ensure!(found == [made[0].0.clone()], "sandboxes by state");
    Ok(())
}

fn images_are_known(subject: &Subject) -> anyhow::Result<()> {
    let status = |name: &str| {
        let spec = ImageSpec {
            image: name.to_owned(),
            ..Default::default()
        };
        let request = ImageStatusRequest {
            image: Some(spec),
            verbose: false,
        };
        subject
            .raw_cri
            .images(async |mut client| client.image_status(request).await)
    };
    let found = status(IMAGE)?.image.context("the image is not known")?;
    ensure!(
        found.id.starts_with("sha256:") && found.size > 0,
        "{found:?}"
    );
    ensure!(found.repo_tags == [IMAGE], "{found:?}");
    ensure!(
        status(&found.id)?
            .image
            .is_some_and(|same| same.id == found.id),
        "not known by its id"
    );
    ensure!(
        status("docker.io/e2e/none:1")?.image.is_none(),
        "an image that is not there"
    );
    for _ in 0..2 {
        let request = RemoveImageRequest {
            image: Some(image()),
        };
        subject
            .raw_cri
            .images(async |mut client| client.remove_image(request).await)?;
    }
    ensure!(
        status(IMAGE)?.image.is_none(),
        "it is there after its removal"
    );
    Ok(())
}

/// Each test for both runtimes.
macro_rules! for_both {
    ($($name:ident),+ $(,)?) => {
        mod simulated {
            $(#[test] fn $name() -> anyhow::Result<()> { super::$name(&super::Subject::simulated()?) })+
        }
        mod containerd {
            $(#[test] fn $name() -> anyhow::Result<()> { super::$name(&super::Subject::containerd()?) })+
        }
    };
}

for_both!(
    a_pod_lives_and_dies,
    every_call_may_come_twice,
    names_are_taken_once,
    ends_are_told,
    lists_are_filtered,
    images_are_known,
);
