//! What containers take of the machine: mounts, network interfaces, control groups, processes. All of it must be gone with
//! the container.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;
use nix::{
    mount::{MntFlags, umount2},
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::read;
use crate::until;

/// Where version 1 of the control groups keeps containerd's, by the controller that every container has.
const GROUPS: &str = "/sys/fs/cgroup/pids";

/// What is taken at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traces {
    /// Mounts below the test's directory: root file systems, network namespaces, volumes in memory.
    pub mounts: BTreeSet<PathBuf>,
    /// Ends of pods' network interfaces, at the bridge.
    pub interfaces: BTreeSet<String>,
    /// Control groups with a process of the test's containerd.
    pub groups: BTreeSet<PathBuf>,
    /// Bundles of containers that runc knows.
    pub bundles: BTreeSet<String>,
    /// Shims of the test's containerd.
    pub shims: BTreeSet<i32>,
}

impl Traces {
    pub(super) fn of(directory: &Path, bridge: &str) -> anyhow::Result<Self> {
        let bundles = names(&directory.join("containerd/state/io.containerd.runtime.v2.task/k8s.io"));
        let interfaces = names(&Path::new("/sys/class/net").join(bridge).join("brif"));
        Ok(Self {
            mounts: mounts(directory)?.into_iter().collect(),
            interfaces,
            groups: bundles.iter().filter_map(|id| group(id)).collect(),
            bundles,
            shims: shims(directory).into_iter().map(Pid::as_raw).collect(),
        })
    }
}

/// The control group of a container, wherever below the root of its hierarchy it is.
fn group(id: &str) -> Option<PathBuf> {
    let mut open = vec![PathBuf::from(GROUPS)];
    while let Some(directory) = open.pop() {
        let found = directory.join(id);
        if found.is_dir() {
            return Some(found);
        }
        let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
        open.extend(
            entries
                .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                .map(|entry| entry.path()),
        );
    }
    None
}

fn names(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// The mounts below a directory, the newest first.
fn mounts(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let text = read("/proc/self/mountinfo")?;
    let points = text.lines().filter_map(|line| line.split(' ').nth(4)).map(PathBuf::from);
    let mut below: Vec<_> = points.filter(|point| point.starts_with(directory)).collect();
    below.reverse();
    Ok(below)
}

/// The shims whose arguments name a path below `directory`.
fn shims(directory: &Path) -> Vec<Pid> {
    let directory = directory.to_string_lossy();
    processes(|pid| {
        let arguments = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        arguments.split('\0').next().is_some_and(|name| name.contains("containerd-shim"))
            && arguments.split('\0').any(|argument| argument.starts_with(&*directory))
    })
}

fn children(parents: &[Pid]) -> Vec<Pid> {
    processes(|pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // the name in parentheses may hold anything: the state and the parent come after its end
        let after = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse::<i32>().ok());
        after.is_some_and(|parent| parents.contains(&Pid::from_raw(parent)))
    })
}

fn processes(wanted: impl Fn(i32) -> bool) -> Vec<Pid> {
    let all = names(Path::new("/proc")).into_iter().filter_map(|name| name.parse().ok());
    all.filter(|pid| wanted(*pid)).map(Pid::from_raw).collect()
}

/// Takes away by force what is left of a containerd below `directory`.
pub(super) fn sweep(directory: &Path) -> anyhow::Result<()> {
    until("end of the shims", || {
        let shims = shims(directory);
        for pid in children(&shims).into_iter().chain(shims.iter().copied()) {
            // it may have ended meanwhile
            let _ = kill(pid, Signal::SIGKILL);
        }
        if shims.is_empty() { Ok(()) } else { Err(shims) }
    })?;
    for point in mounts(directory)? {
        umount2(&point, MntFlags::MNT_DETACH)
            .with_context(|| format!("{} stays mounted", point.display()))?;
    }
    Ok(())
}
