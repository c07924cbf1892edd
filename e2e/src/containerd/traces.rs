//! What containers occupy on the machine: mounts, network interfaces, namespaces and addresses, control groups, processes. All of it
//! must be gone with the container.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;
use nix::{
    mount::{MntFlags, umount2},
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{
    cgroups::{hierarchies, hierarchy, id, is_pods, pod_group},
    mounts::mounts,
    rig::group_root,
    until,
};

/// The hierarchy of version 1 in which every container has a control group.
const PIDS: &str = "pids";
/// Where containerd keeps the bundles of tasks.
const TASKS: &str = "containerd/state/io.containerd.runtime.v2.task/k8s.io";

/// What is occupied at one moment.
#[derive(Clone, Debug)]
pub struct Traces {
    tasks: PathBuf,
    /// Mounts below the test's directory: root file systems, network namespaces, volumes in memory.
    pub mounts: BTreeSet<PathBuf>,
    /// Ends of pods' network interfaces, at the bridge.
    pub interfaces: BTreeSet<String>,
    /// Control groups with a process of the test's containerd.
    pub groups: BTreeSet<PathBuf>,
    /// Control groups of pods, in all hierarchies.
    pub pod_groups: BTreeSet<PathBuf>,
    /// The ids of containers and sandboxes in whose control groups something runs.
    pub inhabited: BTreeSet<String>,
    /// Bundles of containers that runc knows.
    pub bundles: BTreeSet<String>,
    /// Shims of the test's containerd.
    pub shims: BTreeSet<i32>,
    /// Network namespaces that have a name.
    pub namespaces: BTreeSet<String>,
    /// Addresses that the CNI plugin has given to pods.
    pub addresses: BTreeSet<String>,
}

impl Traces {
    pub(super) fn of(directory: &Path, bridge: &str) -> anyhow::Result<Self> {
        let tasks = directory.join(TASKS);
        let pod_groups = pod_groups(directory);
        let bundles = names(&tasks);
        let interfaces = names(&Path::new("/sys/class/net").join(bridge).join("brif"));
        Ok(Self {
            mounts: mounts(directory)?.into_iter().collect(),
            interfaces,
            groups: bundles.iter().filter_map(|id| group(id)).collect(),
            inhabited: pod_groups
                .iter()
                .flat_map(|group| inhabited_groups(group))
                .collect(),
            pod_groups,
            bundles,
            shims: shims(directory).into_iter().map(Pid::as_raw).collect(),
            tasks,
            namespaces: names(&directory.join("containerd/state/io.containerd.grpc.v1.cri/netns")),
            // The directory also contains a lock and the last address that was given.
            addresses: names(&directory.join("containerd/addresses").join(bridge))
                .into_iter()
                .filter(|name| name.starts_with("10."))
                .collect(),
        })
    }

    /// Leaves out what an interrupted call leaves in containerd 1.6 and what neither CRI nor the task service knows of: a bundle in which
    /// nothing runs, with its mount and its control group, and the empty shim of a task that was never created.
    #[must_use]
    pub fn of_tasks(mut self) -> Self {
        let running = self.running();
        let (left, tasks) = (self.bundles.clone(), self.tasks.clone());
        let dead = |path: &Path| {
            let id = path
                .strip_prefix(&tasks)
                .ok()
                .and_then(|below| below.components().next());
            let id = id.map(|id| id.as_os_str().to_string_lossy().into_owned());
            id.is_some_and(|id| left.contains(&id) && !running.contains_key(&id))
        };
        self.mounts.retain(|mount| !dead(mount));
        self.groups
            .retain(|group| running.contains_key(id_of(group)));
        self.bundles.retain(|id| running.contains_key(id));
        self.shims
            .retain(|pid| !children(&[Pid::from_raw(*pid)]).is_empty());
        self
    }

    /// Keeps only what has run and still runs, or is not containerd's: a killed containerd loses track of what it was creating or removing
    /// at that moment, such as networks, control groups and processes that wait to become a container's.
    #[must_use]
    pub fn alive(mut self) -> Self {
        let containerd = self
            .tasks
            .ancestors()
            .nth(3)
            .unwrap_or(&self.tasks)
            .to_path_buf();
        let running = self.running();
        self.mounts.retain(|mount| !mount.starts_with(&containerd));
        self.groups
            .retain(|group| running.contains_key(id_of(group)));
        self.shims.retain(|shim| {
            let children = children(&[Pid::from_raw(*shim)]);
            children
                .iter()
                .any(|child| running.values().any(|first| *first == child.as_raw()))
        });
        self.bundles.retain(|id| running.contains_key(id));
        self.interfaces.clear();
        self.namespaces.clear();
        self.addresses.clear();
        self
    }

    /// Returns the first process of each running container. Its group distinguishes it from a process that has reused its number.
    fn running(&self) -> BTreeMap<String, i32> {
        let first = |id: &str| {
            let pid = fs::read_to_string(self.tasks.join(id).join("init.pid"))
                .ok()?
                .trim()
                .parse()
                .ok()?;
            let process = Path::new("/proc").join(i32::to_string(&pid));
            let is_its =
                fs::read_to_string(process.join("cgroup")).is_ok_and(|groups| groups.contains(id));
            (is_its && process.join("exe").exists()).then_some(pid)
        };
        self.bundles
            .iter()
            .filter_map(|id| Some((id.clone(), first(id)?)))
            .collect()
    }

    /// Returns how many there are of each, for people.
    pub fn counts(&self) -> BTreeMap<&'static str, usize> {
        [
            ("mounts", self.mounts.len()),
            ("bundles", self.bundles.len()),
            ("control groups", self.groups.len()),
            (
                "control groups of pods with processes",
                self.inhabited.len(),
            ),
            ("shims", self.shims.len()),
            ("interfaces", self.interfaces.len()),
            ("network namespaces", self.namespaces.len()),
            ("addresses", self.addresses.len()),
        ]
        .into()
    }

    /// Reports whether there is nothing at all.
    pub fn is_empty(&self) -> bool {
        self.counts().values().all(|count| *count == 0)
    }
}

/// Returns the node's groups in each hierarchy that has any.
fn roots(directory: &Path) -> Vec<PathBuf> {
    let pods = PathBuf::from(pod_group(&group_root(directory), "", ""));
    let root = pods.iter().nth(1).unwrap_or_default();
    let roots = hierarchies()
        .into_iter()
        .map(|hierarchy| hierarchy.join(root));
    roots.filter(|root| root.is_dir()).collect()
}

fn pod_groups(directory: &Path) -> BTreeSet<PathBuf> {
    let all = roots(directory)
        .into_iter()
        .flat_map(|root| below(root, &mut |_| false).1);
    all.filter(|path| {
        path.file_name()
            .is_some_and(|name| is_pods(&name.to_string_lossy()))
    })
    .collect()
}

/// Returns the ids of the groups directly below `group` that list a process.
fn inhabited_groups(group: &Path) -> BTreeSet<String> {
    let lists = |name: &String| {
        fs::read_to_string(group.join(name).join("cgroup.procs"))
            .is_ok_and(|listed| !listed.is_empty())
    };
    names(group)
        .into_iter()
        .filter(lists)
        .map(|name| id(&name).to_owned())
        .collect()
}

/// Returns `root` and the directories below it, each after its parent, up to the first one that is `wanted`.
fn below(root: PathBuf, wanted: &mut dyn FnMut(&Path) -> bool) -> (Option<PathBuf>, Vec<PathBuf>) {
    let (mut all, mut next) = (vec![root], 0);
    while let Some(directory) = all.get(next).cloned() {
        if wanted(&directory) {
            return (Some(directory), all);
        }
        next += 1;
        let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
        let entries = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        all.extend(entries.map(|entry| entry.path()));
    }
    (None, all)
}

/// Finds the control group of a container anywhere below the root of its hierarchy.
fn group(id: &str) -> Option<PathBuf> {
    below(hierarchy(PIDS), &mut |directory| id_of(directory) == id).0
}

fn id_of(group: &Path) -> &str {
    group
        .file_name()
        .and_then(|name| name.to_str())
        .map(id)
        .unwrap_or_default()
}

fn names(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

/// Returns the shims whose arguments name a path below `directory`.
fn shims(directory: &Path) -> Vec<Pid> {
    let directory = directory.to_string_lossy();
    processes(|pid| {
        let arguments = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        arguments
            .split('\0')
            .next()
            .is_some_and(|name| name.contains("containerd-shim"))
            && arguments
                .split('\0')
                .any(|argument| argument.starts_with(&*directory))
    })
}

fn children(parents: &[Pid]) -> Vec<Pid> {
    processes(|pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The name in parentheses may contain anything: state and parent follow its end.
        let after = stat
            .rsplit_once(") ")
            .and_then(|(_, rest)| rest.split(' ').nth(1)?.parse::<i32>().ok());
        after.is_some_and(|parent| parents.contains(&Pid::from_raw(parent)))
    })
}

fn processes(wanted: impl Fn(i32) -> bool) -> Vec<Pid> {
    let all = names(Path::new("/proc"))
        .into_iter()
        .filter_map(|name| name.parse().ok());
    all.filter(|pid| wanted(*pid)).map(Pid::from_raw).collect()
}

/// Removes by force what is left of a containerd below `directory`.
pub(super) fn sweep(directory: &Path) -> anyhow::Result<()> {
    until("end of the shims", || {
        let shims = shims(directory);
        for pid in children(&shims).into_iter().chain(shims.iter().copied()) {
            // It may have ended meanwhile.
            let _ = kill(pid, Signal::SIGKILL);
        }
        if shims.is_empty() { Ok(()) } else { Err(shims) }
    })?;
    for point in mounts(directory)? {
        umount2(&point, MntFlags::MNT_DETACH)
            .with_context(|| format!("{} stays mounted", point.display()))?;
    }
    for root in roots(directory) {
        for group in below(root, &mut |_| false).1.into_iter().rev() {
            // A shim's last process may leave the group only now.
            until("end of a control group", || fs::remove_dir(&group))?;
        }
    }
    Ok(())
}
