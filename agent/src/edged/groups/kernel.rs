//! The kernel's control groups, as files. Blocks, though never for long.

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

use super::limits::{Limits, Version};

/// A group whose last process has just ended may be held for a moment; it is tried so often …
const TRIES: u32 = 5;
/// … with this between.
const PAUSE: Duration = Duration::from_millis(10);
/// Groups below a pod's that are looked for: its containers', and what these make for themselves.
const DEPTH: u32 = 16;
/// The hierarchy of version 1 that holds processes still, its file, and what is written there.
const FREEZER: &str = "freezer";
const FREEZER_STATE: &str = "freezer.state";
const FROZEN: &str = "FROZEN";
const THAWED: &str = "THAWED";

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
            let place = hierarchy.join(group);
            let mut tries = TRIES;
            while let Err(error) = remove(&place, DEPTH) {
                tries -= 1;
                if tries == 0 || error.kind() != ErrorKind::ResourceBusy {
                    return Err(error);
                }
                self.end(group);
                thread::sleep(PAUSE);
            }
        }
        Ok(())
    }

    /// Kills what is in the groups below `group` that are the container's of this id, whatever form their names have.
    pub(super) fn kill(&self, group: &Path, id: &str) {
        let below = self.hierarchies().into_iter().flat_map(|hierarchy| directories(&hierarchy.join(group)));
        let names = below.filter_map(|place| place.file_name()?.to_str().map(str::to_owned));
        for name in names.filter(|name| name.contains(id)).collect::<BTreeSet<_>>() {
            self.end(&group.join(name));
        }
    }

    /// The names of the groups right below `group` in which something runs, in any hierarchy, but for those that `is_known`.
    pub(super) fn inhabited(&self, group: &Path, is_known: impl Fn(&str) -> bool) -> BTreeSet<String> {
        let below = self.hierarchies().into_iter().flat_map(|hierarchy| directories(&hierarchy.join(group)));
        let named = below.filter_map(|place| Some((place.file_name()?.to_str()?.to_owned(), place)));
        let unknown = named.filter(|(name, _)| !is_known(name));
        unknown.filter(|(_, place)| !inside(place, DEPTH).is_empty()).map(|(name, _)| name).collect()
    }

    /// Kills all that is in a group and below it. Nothing in it can end by itself meanwhile, where the kernel allows that, so that no
    /// number of a process has become another's.
    fn end(&self, group: &Path) {
        let places = self.hierarchies().into_iter().map(|hierarchy| hierarchy.join(group));
        let places: Vec<_> = places.filter(|place| place.is_dir()).collect();
        let own = Pid::this();
        // neither held nor killed with all others: then this would not come to its end
        let with_own = places.iter().any(|place| inside(place, DEPTH).contains(&own));
        let killed =
            |place: &PathBuf| self.version == Version::Two && write(&place.join("cgroup.kill"), "1").is_ok();
        if !with_own && places.iter().any(killed) {
            tracing::info!(group = %group.display(), "processes without a container are killed");
            return;
        }
        let still = (!with_own).then(|| Still::hold(&self.base.join(FREEZER).join(group)));
        for place in &places {
            for pid in inside(place, DEPTH).into_iter().filter(|pid| *pid != own) {
                tracing::info!(pid = pid.as_raw(), group = %place.display(), "a process without a container is killed");
                // It may have ended meanwhile.
                let _ = kill(pid, Signal::SIGKILL);
            }
        }
        // and now they end
        drop(still);
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

/// A group of version 1 whose processes are held still, until this is dropped.
struct Still(PathBuf);

impl Still {
    /// Waits a moment for it; what cannot be held is not.
    fn hold(group: &Path) -> Self {
        let state = group.join(FREEZER_STATE);
        let mut tries = if write(&state, FROZEN).is_ok() { TRIES } else { 0 };
        while tries > 0 && fs::read_to_string(&state).is_ok_and(|now| now.trim() != FROZEN) {
            tries -= 1;
            thread::sleep(PAUSE);
        }
        Self(state)
    }
}

impl Drop for Still {
    fn drop(&mut self) {
        // fails only where nothing could be held
        let _ = write(&self.0, THAWED);
    }
}

fn directories(place: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    let entries = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    entries.map(|entry| entry.path()).collect()
}

/// The processes in a group and below it.
fn inside(group: &Path, depth: u32) -> Vec<Pid> {
    let listed = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    let mut all: Vec<Pid> = processes(&listed).collect();
    if depth > 0 {
        all.extend(directories(group).iter().flat_map(|below| inside(below, depth - 1)));
    }
    all
}

/// The processes that a group lists. One in another namespace is listed as 0, which to a signal means everybody.
fn processes(listed: &str) -> impl Iterator<Item = Pid> {
    let all = listed.lines().filter_map(|line| line.trim().parse().ok()).filter(|pid| *pid > 1);
    all.map(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn only_what_a_group_names_is_killed() {
        let listed = "0\n1\n-1\n-7\nx\n\n4000000\n";
        assert_eq!(processes(listed).collect::<Vec<_>>(), [Pid::from_raw(4_000_000)]);
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

    fn sleeper() -> std::process::Child {
        std::process::Command::new("sleep").arg("1000").spawn().unwrap()
    }

    /// A directory is no group: its file of processes is one that nobody else empties.
    #[test]
    fn what_is_in_a_group_ends_with_it_and_the_killer_does_not() {
        let place = tempfile::tempdir().unwrap();
        let at = |path: &str| place.path().join(path);
        let mut sleeper = sleeper();
        group(place.path(), &["pids/podu/below/cgroup.procs", "freezer/podu/freezer.state"]);
        let kernel = Kernel::at(place.path().to_owned());
        let own = std::process::id();
        fs::write(at("pids/podu/below/cgroup.procs"), format!("{own}\n")).unwrap();
        kernel.end(Path::new("podu"));
        let state = || fs::read_to_string(at("freezer/podu/freezer.state")).unwrap();
        assert_eq!(state(), "", "a group with the killer in it is not held");
        fs::write(at("pids/podu/below/cgroup.procs"), sleeper.id().to_string()).unwrap();
        kernel.end(Path::new("podu"));
        assert_eq!(sleeper.wait().unwrap().signal(), Some(Signal::SIGKILL as i32));
        assert_eq!(state(), THAWED);
    }

    #[test]
    fn a_kernel_that_ends_a_whole_group_is_asked_to() {
        let place = tempfile::tempdir().unwrap();
        let mut sleeper = sleeper();
        group(place.path(), &["cgroup.controllers", "podu/cgroup.kill"]);
        fs::write(place.path().join("podu/cgroup.procs"), sleeper.id().to_string()).unwrap();
        Kernel::at(place.path().to_owned()).end(Path::new("podu"));
        assert_eq!(fs::read_to_string(place.path().join("podu/cgroup.kill")).unwrap(), "1");
        assert!(sleeper.try_wait().unwrap().is_none(), "it is the kernel's to kill");
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
    }

    #[test]
    fn groups_are_told_in_which_something_runs_that_nobody_knows() {
        let place = tempfile::tempdir().unwrap();
        for (name, listed) in [("known", "4000000"), ("empty", ""), ("lost/deeper", "4000001")] {
            let group = place.path().join("pids/kubepods/podu").join(name);
            fs::create_dir_all(&group).unwrap();
            fs::write(group.join("cgroup.procs"), listed).unwrap();
        }
        let kernel = Kernel::at(place.path().to_owned());
        let found = kernel.inhabited(Path::new("kubepods/podu"), |name| name == "known");
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["lost"]);
        assert!(kernel.inhabited(Path::new("kubepods/podother"), |_| false).is_empty());
    }

    #[test]
    fn what_is_in_the_group_of_one_container_ends_and_others_do_not() {
        let place = tempfile::tempdir().unwrap();
        let mut sleepers = ["cri-containerd-aaaa.scope", "bbbb"].map(|name| {
            let sleeper = sleeper();
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
