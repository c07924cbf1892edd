//! Control groups as the kernel shows them, in either version: tests check what a process may use, not the content of a file.
//!
//! Source: <https://docs.kernel.org/admin-guide/cgroup-v1/cgroups.html>, <https://docs.kernel.org/admin-guide/cgroup-v2.html>.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, ensure};

/// Where the hierarchies are mounted.
const HIERARCHIES: &str = "/sys/fs/cgroup";
/// The hierarchies of version 1 in which a container always has a group.
const CONTROLLERS: [&str; 5] = ["cpu", "memory", "pids", "devices", "freezer"];
/// The environment variable with the cgroup driver, `cgroupfs` (the default) or `systemd`.
const DRIVER: &str = "OUTRIGGER_CGROUP_DRIVER";
/// The value for unlimited memory in version 1: the last whole page.
const UNLIMITED: u64 = 9_223_372_036_854_771_712;

/// Reports whether there is one hierarchy, version 2.
fn is_version_2() -> bool {
    Path::new(HIERARCHIES).join("cgroup.controllers").exists()
}

/// Returns the root of the hierarchy with this controller.
pub(crate) fn hierarchy(controller: &str) -> PathBuf {
    Path::new(HIERARCHIES).join(if is_version_2() { "" } else { controller })
}

/// Returns the roots of all hierarchies.
pub(crate) fn hierarchies() -> Vec<PathBuf> {
    if is_version_2() {
        return vec![HIERARCHIES.into()];
    }
    let entries = fs::read_dir(HIERARCHIES).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Returns the cgroup driver of this machine: the kubelet's `cgroupDriver`.
pub(crate) fn driver() -> &'static str {
    if by_systemd() { "systemd" } else { "cgroupfs" }
}

/// Reports whether systemd manages groups here, as it must on a machine that it runs, with containerd configured likewise.
pub(crate) fn by_systemd() -> bool {
    std::env::var(DRIVER).is_ok_and(|driver| driver == "systemd")
}

/// Returns the group of a pod of this class, empty for guaranteed ones, below the group `root`; it begins with a slash.
pub fn pod_group(root: &str, class: &str, uid: &str) -> String {
    let pod = format!("pod{uid}");
    let names = [root.trim_start_matches('/'), "kubepods", class, &pod];
    let names = names.into_iter().filter(|name| !name.is_empty());
    if !by_systemd() {
        return names.map(|name| format!("/{name}")).collect();
    }
    let mut slice = String::new();
    let slices = names.map(|name| {
        let dash = if slice.is_empty() { "" } else { "-" };
        slice = format!("{slice}{dash}{}", name.replace('-', "_"));
        format!("/{slice}.slice")
    });
    slices.collect()
}

/// Reports whether a group of this name is a pod's.
pub(crate) fn is_pods(name: &str) -> bool {
    if by_systemd() {
        name.ends_with(".slice") && name.contains("-pod")
    } else {
        name.starts_with("pod")
    }
}

/// Returns the id of the container or sandbox whose group has this name.
pub(crate) fn id(name: &str) -> &str {
    name.trim_start_matches("cri-containerd-")
        .trim_end_matches(".scope")
}

/// A control group; its path is the same in each hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlGroup(PathBuf);

/// The limits of the processes of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// The share of busy processors: see [`cpu_share`].
    pub cpu_share: u64,
    /// The CPU time in microseconds per 100 ms.
    pub cpu_quota: Option<u64>,
    /// The memory in bytes.
    pub memory: Option<u64>,
    /// The number of processes.
    pub processes: Option<u64>,
}

/// Returns shares (1024 for a core) in the unit of this machine's kernel: by the formula of Kubernetes in version 2.
pub fn cpu_share(shares: u64) -> u64 {
    if is_version_2() {
        1 + (shares - 2) * 9999 / 262_142
    } else {
        shares
    }
}

impl ControlGroup {
    /// Returns the group of a process.
    ///
    /// # Errors
    /// There is no such process, or it has different groups in different hierarchies.
    pub fn of(pid: &str) -> anyhow::Result<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
        let path = |controller: &str| -> anyhow::Result<&str> {
            let mut lines = text.lines().map(|line| line.splitn(3, ':').skip(1));
            let found = lines.find_map(|mut line| {
                line.next()?
                    .split(',')
                    .any(|one| one == controller)
                    .then(|| line.next())?
            });
            found.with_context(|| format!("no controller {controller:?} in {text}"))
        };
        if is_version_2() {
            return Ok(Self(path("")?.into()));
        }
        let first = path(CONTROLLERS[0])?;
        for controller in CONTROLLERS {
            ensure!(path(controller)? == first, "different groups: {text}");
        }
        Ok(Self(first.into()))
    }

    /// Returns its path below the root of each hierarchy.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the parent group.
    ///
    /// # Errors
    /// The group is the root.
    pub fn parent(&self) -> anyhow::Result<Self> {
        Ok(Self(self.0.parent().context("the root")?.to_owned()))
    }

    /// Returns another group with the same parent.
    pub fn beside(&self, name: &str) -> Self {
        Self(self.0.with_file_name(name))
    }

    /// Returns its directories, one in each hierarchy.
    pub fn places(&self) -> Vec<PathBuf> {
        let hierarchies = if is_version_2() {
            &[""][..]
        } else {
            &CONTROLLERS[..]
        };
        hierarchies
            .iter()
            .map(|controller| self.place(controller))
            .collect()
    }

    fn place(&self, controller: &str) -> PathBuf {
        let below = self.0.strip_prefix("/").unwrap_or(&self.0);
        hierarchy(controller).join(below)
    }

    /// Returns the limits of the group.
    ///
    /// # Errors
    /// The kernel's files are missing or have an unexpected content.
    pub fn limits(&self) -> anyhow::Result<Allowed> {
        let [share, quota, memory] = if is_version_2() {
            ["cpu.weight", "cpu.max", "memory.max"]
        } else {
            ["cpu.shares", "cpu.cfs_quota_us", "memory.limit_in_bytes"]
        };
        Ok(Allowed {
            cpu_share: self.limit("cpu", share)?.context("no share")?,
            cpu_quota: self.limit("cpu", quota)?,
            memory: self.limit("memory", memory)?,
            processes: self.limit("pids", "pids.max")?,
        })
    }

    /// Returns the memory in bytes without inactive files: the working set of kubelets.
    ///
    /// # Errors
    /// The kernel's files are missing or have an unexpected content.
    pub fn working_set(&self) -> anyhow::Result<u64> {
        let (usage, inactive) = if is_version_2() {
            ("memory.current", "inactive_file ")
        } else {
            ("memory.usage_in_bytes", "total_inactive_file ")
        };
        let usage = self.limit("memory", usage)?.context("no usage")?;
        let stat = self.read("memory", "memory.stat")?;
        let inactive = stat
            .lines()
            .find_map(|line| line.strip_prefix(inactive))
            .context("no such line")?;
        Ok(usage.saturating_sub(inactive.parse()?))
    }

    /// Returns the first word of a file as a number; `None` if it means that there is no limit.
    fn limit(&self, controller: &str, file: &str) -> anyhow::Result<Option<u64>> {
        let text = self.read(controller, file)?;
        match text.split_whitespace().next().context("an empty file")? {
            "max" | "-1" => Ok(None),
            number => Ok(Some(number.parse()?).filter(|number| *number != UNLIMITED)),
        }
    }

    fn read(&self, controller: &str, file: &str) -> anyhow::Result<String> {
        let file = self.place(controller).join(file);
        fs::read_to_string(&file).with_context(|| file.display().to_string())
    }
}
