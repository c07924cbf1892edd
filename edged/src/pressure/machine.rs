//! Reads the eviction signals of this machine: a few small files and two `statfs` calls.

use std::{
    collections::BTreeMap,
    fmt, fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures::future::{self, BoxFuture, FutureExt};
use parking_lot::Mutex;

use super::signals::{Observation, Reading};
use crate::{RuntimeChannel, cgroups::CGROUP_ROOT, runtime::Runtime, settings::Signal};

/// How long a reading waits for the runtime, which may hang while memory runs out.
const READ_TIMEOUT: Duration = Duration::from_secs(2);

/// A source of eviction signals.
pub trait Signals: fmt::Debug + Send + Sync {
    /// Reads all signals once.
    fn read(&self) -> BoxFuture<'_, Reading>;

    /// Returns when a reading is due before the interval has passed; never, if the source does not notice changes. May be dropped
    /// at any time.
    fn wait_changed(&self) -> BoxFuture<'_, ()> {
        future::pending().boxed()
    }
}

/// The signals of this machine.
#[derive(Debug)]
pub(crate) struct MachineSignals {
    runtime: Runtime,
    root: PathBuf,
    images: Mutex<Option<PathBuf>>,
}

impl MachineSignals {
    /// Creates the source. `root` is a path on the disk of pods; the runtime reports where images are.
    pub(crate) fn new(runtime: Runtime, root: PathBuf) -> Self {
        Self {
            runtime,
            root,
            images: Mutex::new(None),
        }
    }

    /// Returns the path of the runtime's images, or of the pods' disk until the runtime reports it.
    async fn image_root(&self) -> PathBuf {
        if let Some(known) = self.images.lock().clone() {
            return known;
        }
        match tokio::time::timeout(READ_TIMEOUT, image_root(&self.runtime)).await {
            Ok(Some(root)) => self.images.lock().insert(root).clone(),
            _ => self.root.clone(),
        }
    }
}

impl Signals for MachineSignals {
    fn read(&self) -> BoxFuture<'_, Reading> {
        Box::pin(async move {
            let (root, images) = (self.root.clone(), self.image_root().await);
            // If a disk hangs, only this reading hangs.
            let read = componentbase::spawn_blocking(move || reading(&root, &images));
            read.await.unwrap_or_default()
        })
    }
}

/// Returns the signals of this machine. `root` is a path on the disk of pods; the runtime reports where images are.
pub fn machine_signals(runtime: RuntimeChannel, root: PathBuf) -> Arc<dyn Signals> {
    Arc::new(MachineSignals::new(Runtime::new(runtime, None), root))
}

/// Returns a directory on the disk of images, if the runtime reports it and this program can access it.
pub(crate) async fn image_root(runtime: &Runtime) -> Option<PathBuf> {
    let answer = runtime.image_fs().await.ok()?;
    let id = answer.image_filesystems.into_iter().next()?.fs_id?;
    let path = PathBuf::from(id.mountpoint);
    let is_seen = path.is_absolute() && clock::fs::try_exists(&path).await.unwrap_or(false);
    is_seen.then_some(path)
}

/// Reads the signals; `root` and `images` are paths on the disks of pods and images.
pub(super) fn reading(root: &Path, images: &Path) -> Reading {
    let mut signals = BTreeMap::new();
    signals.extend(read_memory().map(|seen| (Signal::MemoryAvailable, seen)));
    signals.extend(read_pids().map(|seen| (Signal::PidAvailable, seen)));
    let disks = [
        (root, Signal::NodeFsAvailable, Signal::NodeFsInodesFree),
        (images, Signal::ImageFsAvailable, Signal::ImageFsInodesFree),
    ];
    for (path, room, inodes) in disks {
        let Some((bytes, nodes)) = disk(path) else {
            continue;
        };
        signals.insert(room, bytes);
        // A file system without a fixed number of inodes always has enough.
        if nodes.capacity > 0 {
            signals.insert(inodes, nodes);
        }
    }
    Reading {
        signals,
        image_disk: device(root) != device(images),
    }
}

fn device(path: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).ok().map(|meta| meta.dev())
}

/// Returns bytes and inodes of the file system of `path`.
pub fn disk(path: &Path) -> Option<(Observation, Observation)> {
    let disk = nix::sys::statvfs::statvfs(path).ok()?;
    // These types differ between platforms.
    let bytes = |blocks| {
        let bytes = i128::from(blocks) * i128::from(disk.fragment_size());
        i64::try_from(bytes).unwrap_or(i64::MAX)
    };
    let count = |count| i64::try_from(i128::from(count)).unwrap_or(i64::MAX);
    Some((
        Observation {
            available: bytes(disk.blocks_available()),
            capacity: bytes(disk.blocks()),
        },
        Observation {
            available: count(disk.files_available()),
            capacity: count(disk.files()),
        },
    ))
}

fn read_memory() -> Option<Observation> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let version_1 = Path::new(CGROUP_ROOT).join("memory");
    let group = fs::read_to_string(version_1.join("memory.usage_in_bytes"))
        .and_then(|usage| Ok((usage, fs::read_to_string(version_1.join("memory.stat"))?)))
        .ok();
    memory(
        &meminfo,
        group
            .as_ref()
            .map(|(usage, stat)| (usage.as_str(), stat.as_str())),
    )
}

/// Returns the memory that is not in the working set, which is used memory without inactive files. `group` holds usage and
/// statistics of the root control group of version 1; version 2 has none.
///
/// Source: <https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/#eviction-signals>.
fn memory(meminfo: &str, group: Option<(&str, &str)>) -> Option<Observation> {
    let kib = |key: &str| -> Option<i64> {
        let rest = meminfo
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
        rest.trim()
            .strip_suffix("kB")?
            .trim()
            .parse::<i64>()
            .ok()?
            .checked_mul(1024)
    };
    let capacity = kib("MemTotal")?;
    let (usage, inactive) = match group {
        Some((usage, stat)) => {
            let line = stat
                .lines()
                .find_map(|line| line.strip_prefix("total_inactive_file "));
            (usage.trim().parse().ok()?, line?.trim().parse().ok()?)
        }
        None => (
            capacity.saturating_sub(kib("MemFree")?),
            kib("Inactive(file)")?,
        ),
    };
    let working_set = i64::saturating_sub(usage, inactive).clamp(0, capacity);
    Some(Observation {
        available: capacity - working_set,
        capacity,
    })
}

fn read_pids() -> Option<Observation> {
    let read = |name: &str| fs::read_to_string(Path::new("/proc").join(name)).ok();
    pids(
        &read("loadavg")?,
        &read("sys/kernel/pid_max")?,
        &read("sys/kernel/threads-max")?,
    )
}

/// Parses process ids. The fourth word of `loadavg` is `running/all` tasks.
fn pids(loadavg: &str, pid_max: &str, threads_max: &str) -> Option<Observation> {
    let tasks: i64 = loadavg
        .split_whitespace()
        .nth(3)?
        .split_once('/')?
        .1
        .parse()
        .ok()?;
    let number = |text: &str| text.trim().parse::<i64>().ok();
    let capacity = number(pid_max)?.min(number(threads_max)?);
    Some(Observation {
        available: capacity.saturating_sub(tasks).max(0),
        capacity,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_what_is_not_the_working_set() {
        let meminfo =
            "MemTotal:  1000 kB\nMemFree:  200 kB\nInactive:  400 kB\nInactive(file):  300 kB\n";
        let kib = |available: i64| {
            Some(Observation {
                available: available * 1024,
                capacity: 1000 * 1024,
            })
        };
        assert_eq!(memory(meminfo, None), kib(500));
        let stat = "inactive_file 1\ntotal_inactive_file 102400\n";
        assert_eq!(memory(meminfo, Some(("204800\n", stat))), kib(900));
        assert_eq!(
            memory(meminfo, Some(("1\n", stat))),
            kib(1000),
            "less than nothing is used"
        );
        assert_eq!(memory(meminfo, Some(("99999999999\n", stat))), kib(0));
        for broken in ["", "MemTotal: x kB", "MemTotal:  1000 kB\n"] {
            assert_eq!(memory(broken, None), None, "{broken}");
        }
    }

    #[test]
    fn pid_capacity_is_the_lower_limit() {
        let seen = |available, capacity| {
            Some(Observation {
                available,
                capacity,
            })
        };
        assert_eq!(
            pids("0.1 0.2 0.3 2/150 999", "4194304\n", "1000\n"),
            seen(850, 1000)
        );
        assert_eq!(
            pids("0.1 0.2 0.3 2/150 999", "100\n", "1000\n"),
            seen(0, 100)
        );
        assert_eq!(pids("nonsense", "100", "1000"), None);
    }

    #[test]
    fn this_machine_can_be_read() {
        let here = tempfile::tempdir().unwrap();
        let reading = reading(here.path(), here.path());
        let seen: Vec<_> = reading.signals.values().collect();
        assert!(
            seen.len() >= 4
                && seen
                    .iter()
                    .all(|one| (0..=one.capacity).contains(&one.available))
        );
        assert!(!reading.image_disk);
    }
}
