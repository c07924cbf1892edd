//! The kernel's control groups, as files. Blocks, though never for long.

use std::{
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

use super::limits::{Limits, Version};

/// A group whose last process has just ended may be held for a moment; it is tried so often …
const TRIES: u32 = 5;
/// … with this between.
const PAUSE: Duration = Duration::from_millis(10);
/// Groups below a pod's that are looked for: its containers', and what these make for themselves.
const DEPTH: u32 = 16;

/// Where the kernel shows its control groups.
#[derive(Clone, Debug)]
pub(super) struct Kernel {
    base: PathBuf,
    version: Version,
}

impl Kernel {
    /// What is mounted at `base`.
    pub(super) fn at(base: PathBuf) -> Self {
        let version = if base.join("cgroup.controllers").exists() { Version::Two } else { Version::One };
        Self { base, version }
    }

    /// Sets the limits of a group; whether there is such a group.
    pub(super) fn limit(&self, group: &Path, limits: &Limits) -> io::Result<bool> {
        let mut found = false;
        for (controller, file, text) in limits.files(self.version) {
            let hierarchy = match self.version {
                Version::One => self.base.join(controller),
                Version::Two => self.base.clone(),
            };
            match write(&hierarchy.join(group).join(file), &text) {
                Ok(()) => found = true,
                // a kernel without this controller
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// Removes a group and all below it, from each hierarchy. One that is not there has been removed. Processes that are in it
    /// still are killed, as the kubelet does: no container is theirs any more, which is what a runtime that was cut off in
    /// the middle of a start leaves behind.
    ///
    /// # Errors
    /// There are processes in it that do not end, or this program may not.
    pub(super) fn remove(&self, group: &Path) -> io::Result<()> {
        for hierarchy in self.hierarchies() {
            let group = hierarchy.join(group);
            let mut tries = TRIES;
            while let Err(error) = remove(&group, DEPTH) {
                tries -= 1;
                if tries == 0 || error.kind() != ErrorKind::ResourceBusy {
                    return Err(error);
                }
                kill_all(&group, DEPTH);
                thread::sleep(PAUSE);
            }
        }
        Ok(())
    }

    /// Kills what is in the groups below `group` that are the container's of this id, whatever form their names have.
    pub(super) fn kill(&self, group: &Path, id: &str) {
        for hierarchy in self.hierarchies() {
            for entry in fs::read_dir(hierarchy.join(group)).into_iter().flatten().flatten() {
                if entry.file_name().to_string_lossy().contains(id) {
                    kill_all(&entry.path(), DEPTH);
                }
            }
        }
    }

    /// Where a group is, in any one of the hierarchies.
    pub(super) fn place(&self, group: &Path) -> Option<PathBuf> {
        self.hierarchies().into_iter().map(|hierarchy| hierarchy.join(group)).find(|place| place.is_dir())
    }

    /// In version 1 also those that have nothing to limit: runtimes make groups in all of them.
    fn hierarchies(&self) -> Vec<PathBuf> {
        match self.version {
            Version::Two => vec![self.base.clone()],
            Version::One => {
                let all = fs::read_dir(&self.base).into_iter().flatten().flatten();
                // other names of the same hierarchy are links
                let all = all.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
                all.map(|entry| entry.path()).collect()
            }
        }
    }
}

/// Never makes a file where there is no group.
fn write(path: &Path, text: &str) -> io::Result<()> {
    fs::OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes())
}

/// A group's files go with it.
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

/// Kills what is in a group and below it. Whatever cannot be killed holds up the group's removal.
fn kill_all(group: &Path, depth: u32) {
    let inside = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    for pid in victims(&inside) {
        tracing::info!(pid = pid.as_raw(), group = %group.display(), "a process without a container is killed");
        // It may have ended meanwhile.
        let _ = kill(pid, Signal::SIGKILL);
    }
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if depth > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            kill_all(&entry.path(), depth - 1);
        }
    }
}

/// The processes that a group lists. One in another namespace is listed as 0, which to a signal means everybody.
fn victims(listed: &str) -> impl Iterator<Item = Pid> {
    let own = Pid::this();
    let all = listed.lines().filter_map(|line| line.trim().parse().ok()).filter(|pid| *pid > 1);
    all.map(Pid::from_raw).filter(move |pid| *pid != own)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn only_what_a_group_names_is_killed() {
        let own = std::process::id();
        let listed = format!("0\n1\n-1\n-7\nx\n\n{own}\n4000000\n");
        assert_eq!(victims(&listed).collect::<Vec<_>>(), [Pid::from_raw(4_000_000)]);
    }

    fn group(base: &Path, files: &[&str]) {
        for file in files {
            let path = base.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
    }

    fn limits() -> Limits {
        Limits { shares: Some(2), memory: Some(4096), ..Limits::default() }
    }

    #[test]
    fn limits_are_written_where_there_is_a_group() {
        let place = tempfile::tempdir().unwrap();
        let read = |file: &str| fs::read_to_string(place.path().join(file)).unwrap();
        let kernel = Kernel::at(place.path().to_owned());
        assert!(!kernel.limit(Path::new("kubepods/podu"), &limits()).unwrap(), "no group, and none is made");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
        group(place.path(), &["cpu/kubepods/podu/cpu.shares"]);
        assert!(kernel.limit(Path::new("kubepods/podu"), &limits()).unwrap(), "without a memory controller");
        assert_eq!(read("cpu/kubepods/podu/cpu.shares"), "2");
        group(place.path(), &["cgroup.controllers", "k.slice/cpu.weight", "k.slice/memory.max"]);
        let kernel = Kernel::at(place.path().to_owned());
        assert!(kernel.limit(Path::new("k.slice"), &limits()).unwrap());
        assert_eq!((read("k.slice/cpu.weight"), read("k.slice/memory.max")), ("1".into(), "4096".into()));
    }

    /// A directory is no group: its file of processes is one that nobody else empties.
    #[test]
    fn what_is_in_a_group_ends_with_it() {
        let place = tempfile::tempdir().unwrap();
        let mut sleeper = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        fs::create_dir(place.path().join("below")).unwrap();
        fs::write(place.path().join("below/cgroup.procs"), sleeper.id().to_string()).unwrap();
        kill_all(place.path(), DEPTH);
        assert_eq!(sleeper.wait().unwrap().signal(), Some(Signal::SIGKILL as i32));
    }

    #[test]
    fn what_is_in_the_group_of_one_container_ends_and_others_do_not() {
        let place = tempfile::tempdir().unwrap();
        let mut sleepers = ["cri-containerd-aaaa.scope", "bbbb"].map(|name| {
            let sleeper = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
            let group = place.path().join("pids/kubepods/podu").join(name);
            fs::create_dir_all(&group).unwrap();
            fs::write(group.join("cgroup.procs"), sleeper.id().to_string()).unwrap();
            sleeper
        });
        Kernel::at(place.path().to_owned()).kill(Path::new("kubepods/podu"), "aaaa");
        assert_eq!(sleepers[0].wait().unwrap().signal(), Some(Signal::SIGKILL as i32));
        assert!(sleepers[1].try_wait().unwrap().is_none());
        sleepers[1].kill().unwrap();
        sleepers[1].wait().unwrap();
    }

    #[test]
    fn a_group_goes_from_all_hierarchies_with_all_below() {
        let place = tempfile::tempdir().unwrap();
        let at = |path: &str| place.path().join(path);
        for path in ["cpu,cpuacct/kubepods/podu/a/b", "pids/kubepods/podu", "pids/kubepods/podother", "empty"]
        {
            fs::create_dir_all(at(path)).unwrap();
        }
        std::os::unix::fs::symlink("cpu,cpuacct", at("cpu")).unwrap();
        let kernel = Kernel::at(place.path().to_owned());
        kernel.remove(Path::new("kubepods/podu")).unwrap();
        assert!(!at("cpu/kubepods/podu").exists() && !at("pids/kubepods/podu").exists());
        assert!(at("cpu/kubepods").exists() && at("pids/kubepods/podother").exists());
        kernel.remove(Path::new("kubepods/podu")).unwrap();
        // what only a kernel's own files do not hold back
        fs::write(at("pids/kubepods/podother/file"), "").unwrap();
        assert!(kernel.remove(Path::new("kubepods/podother")).is_err());
    }
}
