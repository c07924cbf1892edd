//! The kernel's control groups, as files. Blocks, but only for short times.

use std::{
    collections::BTreeSet,
    fs,
    io::{self, ErrorKind, Write},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::limits::{CgroupVersion, Limits};

/// How often the removal of a group is tried: one whose last process has just ended may be busy for a moment.
const MAX_TRIES: u32 = 5;
/// Delay between these tries.
const RETRY_DELAY: Duration = Duration::from_millis(10);
/// Maximum depth of groups below a pod's: its containers', and those that containers create.
const MAX_DEPTH: u32 = 16;
/// The hierarchy of version 1 that freezes processes, its file, and the file's values.
const FREEZER: &str = "freezer";
const FREEZER_STATE: &str = "freezer.state";
const FROZEN: &str = "FROZEN";
const THAWED: &str = "THAWED";

/// The mounted control group file system.
#[derive(Clone, Debug)]
pub(super) struct CgroupFs {
    base: PathBuf,
    version: CgroupVersion,
}

impl CgroupFs {
    /// Uses the control groups that are mounted at `base`.
    pub(super) fn new(base: PathBuf) -> Self {
        let version = if super::is_unified(&base) {
            CgroupVersion::V2
        } else {
            CgroupVersion::V1
        };
        Self { base, version }
    }

    /// Sets the limits of a group, and reports whether the group exists.
    pub(super) fn set_limits(&self, group: &Path, limits: &Limits) -> io::Result<bool> {
        let mut found = false;
        for (controller, file, text) in limits.files(self.version) {
            let hierarchy = match self.version {
                CgroupVersion::V1 => self.base.join(controller),
                CgroupVersion::V2 => self.base.clone(),
            };
            match write(&hierarchy.join(group).join(file), &text) {
                Ok(()) => found = true,
                // the kernel lacks this controller, or the group does not exist
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// Removes a group and all below it from each hierarchy; success if it does not exist. Remaining processes are killed, as the
    /// kubelet does: they belong to no container, and were left behind when the runtime was interrupted while starting one.
    ///
    /// # Errors
    /// The group has processes that do not end, or this program lacks permission.
    pub(super) fn remove(&self, group: &Path) -> io::Result<()> {
        for hierarchy in self.hierarchies() {
            let path = hierarchy.join(group);
            let mut tries = MAX_TRIES;
            while let Err(error) = remove(&path, MAX_DEPTH) {
                tries -= 1;
                if tries == 0 || error.kind() != ErrorKind::ResourceBusy {
                    return Err(error);
                }
                self.kill_processes(group);
                thread::sleep(RETRY_DELAY);
            }
        }
        Ok(())
    }

    /// Removes a group and all below it from each hierarchy; kills no processes.
    ///
    /// # Errors
    /// The group has processes, or this program lacks permission.
    pub(super) fn remove_empty(&self, group: &Path) -> io::Result<()> {
        self.hierarchies()
            .into_iter()
            .try_for_each(|hierarchy| remove(&hierarchy.join(group), MAX_DEPTH))
    }

    /// Kills the processes in groups below `group` whose names contain the container's `id`.
    pub(super) fn kill_container(&self, group: &Path, id: &str) {
        let names = self
            .children(&[group.to_owned()])
            .into_iter()
            .map(|(name, _)| name);
        for name in names
            .filter(|name| name.contains(id))
            .collect::<BTreeSet<_>>()
        {
            self.kill_processes(&group.join(name));
        }
    }

    /// Returns the names of the groups directly below one of `groups` that have processes, in any hierarchy, except those that
    /// `is_known`.
    pub(super) fn populated_groups(
        &self,
        groups: &[PathBuf],
        is_known: impl Fn(&str) -> bool,
    ) -> BTreeSet<String> {
        let unknown = self
            .children(groups)
            .into_iter()
            .filter(|(name, _)| !is_known(name));
        unknown
            .filter(|(_, path)| !processes_below(path, MAX_DEPTH).is_empty())
            .map(|(name, _)| name)
            .collect()
    }

    /// Returns the groups directly below `groups` in each hierarchy: names and paths.
    fn children(&self, groups: &[PathBuf]) -> Vec<(String, PathBuf)> {
        let paths = self
            .paths(groups)
            .flat_map(|parent| subdirectories(&parent));
        paths
            .filter_map(|path| Some((path.file_name()?.to_str()?.to_owned(), path)))
            .collect()
    }

    /// Kills all processes in a group and below it. They are frozen meanwhile if the kernel supports it, so that none ends by
    /// itself and its pid is reused.
    fn kill_processes(&self, group: &Path) {
        let paths: Vec<_> = self
            .paths(&[group.to_owned()])
            .filter(|path| path.is_dir())
            .collect();
        let own = Pid::this();
        // a group with this process is not frozen or killed as a whole: this function would not return
        let with_own = paths
            .iter()
            .any(|path| processes_below(path, MAX_DEPTH).contains(&own));
        let killed = |path: &PathBuf| {
            self.version == CgroupVersion::V2 && write(&path.join("cgroup.kill"), "1").is_ok()
        };
        if !with_own && paths.iter().any(killed) {
            tracing::info!(group = %group.display(), "killing processes without a container");
            return;
        }
        let frozen = (!with_own).then(|| FrozenGroup::freeze(&self.base.join(FREEZER).join(group)));
        for path in &paths {
            for pid in processes_below(path, MAX_DEPTH)
                .into_iter()
                .filter(|pid| *pid != own)
            {
                tracing::info!(pid = pid.as_raw(), group = %path.display(), "killing a process without a container");
                // The process may have ended meanwhile.
                let _ = kill(pid, Signal::SIGKILL);
            }
        }
        // processes that were killed while frozen end when they are thawed
        drop(frozen);
    }

    /// Returns the path of the first of `groups` that exists in any hierarchy.
    pub(super) fn path(&self, groups: &[PathBuf]) -> Option<PathBuf> {
        self.paths(groups).find(|path| path.is_dir())
    }

    /// Returns the possible paths of `groups`: all in one hierarchy, then in the next.
    fn paths(&self, groups: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
        let hierarchies = self.hierarchies().into_iter();
        hierarchies.flat_map(|hierarchy| groups.iter().map(move |group| hierarchy.join(group)))
    }

    /// Returns the root of each hierarchy. In version 1 these include hierarchies without limits, as runtimes create groups in
    /// all of them.
    fn hierarchies(&self) -> Vec<PathBuf> {
        match self.version {
            CgroupVersion::V2 => vec![self.base.clone()],
            CgroupVersion::V1 => {
                let all = fs::read_dir(&self.base).into_iter().flatten().flatten();
                // other names of the same hierarchy are links
                let all = all.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
                all.map(|entry| entry.path()).collect()
            }
        }
    }
}

/// Writes to an existing file of a group; never creates it.
fn write(path: &Path, text: &str) -> io::Result<()> {
    fs::OpenOptions::new()
        .write(true)
        .open(path)?
        .write_all(text.as_bytes())
}

/// Removes a group's directory and those below it; the kernel's files in it need not be removed.
fn remove(group: &Path, depth: u32) -> io::Result<()> {
    let entries = match fs::read_dir(group) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries.flatten() {
        if depth > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path(), depth - 1)?;
        }
    }
    match fs::remove_dir(group) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A group of version 1 whose processes are frozen until this is dropped.
struct FrozenGroup(PathBuf);

impl FrozenGroup {
    /// Freezes the group and waits for a moment until it is frozen. Does nothing if that fails.
    fn freeze(group: &Path) -> Self {
        let state = group.join(FREEZER_STATE);
        let mut tries = if write(&state, FROZEN).is_ok() {
            MAX_TRIES
        } else {
            0
        };
        while tries > 0 && fs::read_to_string(&state).is_ok_and(|now| now.trim() != FROZEN) {
            tries -= 1;
            thread::sleep(RETRY_DELAY);
        }
        Self(state)
    }
}

impl Drop for FrozenGroup {
    fn drop(&mut self) {
        // fails only if the group could not be frozen
        let _ = write(&self.0, THAWED);
    }
}

fn subdirectories(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let entries = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    entries.map(|entry| entry.path()).collect()
}

/// Returns the processes in a group and below it.
fn processes_below(group: &Path, depth: u32) -> Vec<Pid> {
    let listed = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    let mut all: Vec<Pid> = parse_pids(&listed).collect();
    if depth > 0 {
        all.extend(
            subdirectories(group)
                .iter()
                .flat_map(|below| processes_below(below, depth - 1)),
        );
    }
    all
}

/// Parses a list of pids. A process of another pid namespace is listed as 0, which a signal would take for all processes of the
/// group.
fn parse_pids(listed: &str) -> impl Iterator<Item = Pid> {
    let all = listed
        .lines()
        .filter_map(|line| line.trim().parse().ok())
        .filter(|pid| *pid > 1);
    all.map(Pid::from_raw)
}

#[cfg(test)]
mod tests;
