//! Measures the lower limit: a client of the runtime that makes three calls for each pod and nothing else.

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

use anyhow::{Context, anyhow};
use e2e::containerd::{RawCri, RealRig};
use edged::{MASKED_PATHS, READONLY_PATHS};
use wire::cri::{self, security_profile::ProfileType};

/// A command that ends on SIGTERM, for which the first process of a container has no default action.
pub(super) const COMMAND: [&str; 3] = ["sh", "-c", "trap 'exit 0' TERM; sleep 2147483647 & wait"];

/// How many calls are in flight at a time: more make containerd slower.
const CALLS: usize = 8;

/// What is requested from the runtime for each pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// Only that a command runs.
    Nothing,
    /// What every kubelet requests for any pod: a sandbox with the runtime's seccomp profile, and a container with hidden and read-only
    /// paths, its own /etc/hosts and its termination log.
    AsKubelets,
}

/// Returns the seconds until `count` containers run; they are removed afterwards.
pub(super) async fn bare(rig: &Arc<RealRig>, count: usize, asked: Asked) -> anyhow::Result<f64> {
    let rig = rig.clone();
    let timed = move || {
        let begun = Instant::now();
        in_threads(count, |index| start(&rig, index, asked))?;
        let took = begun.elapsed().as_secs_f64();
        let sandboxes = rig.containerd.raw_cri.sandboxes(None)?;
        in_threads(sandboxes.len(), |index| {
            let id = &sandboxes.get(index).context("no such sandbox")?.id;
            rig.containerd.raw_cri.stop_sandbox(id)?;
            Ok(rig.containerd.raw_cri.remove_sandbox(id)?)
        })?;
        anyhow::Ok(took)
    };
    tokio::task::spawn_blocking(timed).await?
}

fn start(rig: &RealRig, index: usize, asked: Asked) -> anyhow::Result<()> {
    let name = format!("bare-{index}");
    let logs = rig.logs().join(&name);
    let (mut sandbox, mut container) = (
        RawCri::sandbox_config(&name, &logs),
        RawCri::container_config("main", &COMMAND),
    );
    if asked == Asked::AsKubelets {
        as_kubelets(&mut sandbox, &mut container, &logs)?;
    }
    let client = &rig.containerd.raw_cri;
    let id = client.run_sandbox(sandbox.clone())?;
    let container = client.create(&id, sandbox, container)?;
    Ok(client.start(&container)?)
}

fn as_kubelets(
    sandbox: &mut cri::PodSandboxConfig,
    container: &mut cri::ContainerConfig,
    files: &Path,
) -> anyhow::Result<()> {
    let profile = |kind: ProfileType| {
        Some(cri::SecurityProfile {
            profile_type: kind as i32,
            localhost_ref: String::new(),
        })
    };
    sandbox.linux.get_or_insert_default().security_context =
        Some(cri::LinuxSandboxSecurityContext {
            seccomp: profile(ProfileType::RuntimeDefault),
            ..Default::default()
        });
    container.linux.get_or_insert_default().security_context =
        Some(cri::LinuxContainerSecurityContext {
            seccomp: profile(ProfileType::Unconfined),
            masked_paths: MASKED_PATHS.map(str::to_owned).to_vec(),
            readonly_paths: READONLY_PATHS.map(str::to_owned).to_vec(),
            ..Default::default()
        });
    fs::create_dir_all(files)?;
    for (name, path) in [
        ("hosts", "/etc/hosts"),
        ("last-words", "/dev/termination-log"),
    ] {
        let file = files.join(name);
        fs::write(&file, "127.0.0.1 localhost\n")?;
        container.mounts.push(cri::Mount {
            host_path: file.display().to_string(),
            container_path: path.to_owned(),
            ..Default::default()
        });
    }
    Ok(())
}

/// Calls `work` for all numbers below `count`, a few at a time.
fn in_threads(
    count: usize,
    work: impl Fn(usize) -> anyhow::Result<()> + Sync,
) -> anyhow::Result<()> {
    let next = AtomicUsize::new(0);
    let worker = || {
        while let Some(index) =
            Some(next.fetch_add(1, Ordering::Relaxed)).filter(|index| *index < count)
        {
            work(index)?;
        }
        anyhow::Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..CALLS.min(count)).map(|_| scope.spawn(worker)).collect();
        workers
            .into_iter()
            .try_for_each(|one| one.join().map_err(|_| anyhow!("a worker has failed"))?)
    })
}
