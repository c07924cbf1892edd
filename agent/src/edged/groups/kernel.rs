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
        let version = if super::are_unified(&base) { Version::Two } else { Version::One };
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

    /// Removes a group and all below it, from each hierarchy; nothing is killed.
    ///
    /// # Errors
    /// There are processes in it, or this program may not.
    pub(super) fn remove_empty(&self, group: &Path) -> io::Result<()> {
        self.hierarchies().into_iter().try_for_each(|hierarchy| remove(&hierarchy.join(group), DEPTH))
    }

    /// Kills what is in the groups below `group` that are the container's of this id, whatever form their names have.
    pub(super) fn kill(&self, group: &Path, id: &str) {
        let names = self.below(&[group.to_owned()]).into_iter().map(|(name, _)| name);
        for name in names.filter(|name| name.contains(id)).collect::<BTreeSet<_>>() {
            self.end(&group.join(name));
        }
    }

    /// The names of the groups right below one of `groups` in which something runs, in any hierarchy, but for those that `is_known`.
    pub(super) fn inhabited(&self, groups: &[PathBuf], is_known: impl Fn(&str) -> bool) -> BTreeSet<String> {
        let unknown = self.below(groups).into_iter().filter(|(name, _)| !is_known(name));
        unknown.filter(|(_, place)| !inside(place, DEPTH).is_empty()).map(|(name, _)| name).collect()
    }

    /// The groups right below `groups`, in each hierarchy: their names, and where they are.
    fn below(&self, groups: &[PathBuf]) -> Vec<(String, PathBuf)> {
        let places = self.places(groups).flat_map(|parent| directories(&parent));
        places.filter_map(|place| Some((place.file_name()?.to_str()?.to_owned(), place))).collect()
    }

    /// Kills all that is in a group and below it. Nothing in it can end by itself meanwhile, where the kernel allows that, so that no
    /// number of a process has become another's.
    fn end(&self, group: &Path) {
        let places: Vec<_> = self.places(&[group.to_owned()]).filter(|place| place.is_dir()).collect();
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

    /// Where one of `groups` is, in any one of the hierarchies.
    pub(super) fn place(&self, groups: &[PathBuf]) -> Option<PathBuf> {
        self.places(groups).find(|place| place.is_dir())
    }

    /// Where `groups` are, if they are: all of them in one hierarchy, then in the next.
    fn places(&self, groups: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
        let hierarchies = self.hierarchies().into_iter();
        hierarchies.flat_map(|hierarchy| groups.iter().map(move |group| hierarchy.join(group)))
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
mod tests;
