//! What the node as a whole uses, read from `/proc` and the disks. What cannot be read is not known.

use std::{fs, io::Read, path::Path};

use jiff::Timestamp;

use super::{
    procfs::{self, Process},
    summary::{FsStats, MemoryStats, NetworkStats, RlimitStats, SwapStats},
};

/// The longest of these files is `/proc/stat` on a machine with many processors and interrupts.
const MAX_FILE: u64 = 1024 * 1024;

/// One reading of the machine's counters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    /// When.
    pub(crate) at: Timestamp,
    /// When it was started.
    pub(crate) started: Timestamp,
    /// Nanoseconds of all processors since then.
    pub(crate) cpu_nanos: Option<u64>,
    pub(crate) memory: Option<MemoryStats>,
    pub(crate) swap: Option<SwapStats>,
    /// This agent.
    pub(crate) agent: Option<Process>,
    /// Resident bytes of this agent.
    pub(crate) agent_resident: Option<u64>,
    /// Of these, those that no file could bring back.
    pub(super) agent_anonymous: Option<u64>,
}

/// What all processors did since the start, in nanoseconds.
pub fn busy_nanos() -> Option<u64> {
    procfs::cpu_nanos(&text("/proc/stat"))
}

impl Machine {
    /// Reads it.
    pub(crate) fn read() -> Self {
        let stat = text("/proc/stat");
        let (meminfo, vmstat, own) = (text("/proc/meminfo"), text("/proc/vmstat"), text("/proc/self/status"));
        let at = Timestamp::now();
        let started = procfs::started(&stat).and_then(|seconds| Timestamp::from_second(seconds).ok());
        Self {
            at,
            started: started.unwrap_or_default(),
            cpu_nanos: procfs::cpu_nanos(&stat),
            memory: memory(&meminfo, &vmstat, at),
            swap: swap(&meminfo, at),
            agent: procfs::process(&text("/proc/self/stat")),
            agent_resident: procfs::bytes(&own, "VmRSS"),
            agent_anonymous: procfs::bytes(&own, "RssAnon"),
        }
    }
}

/// Usage is what is not free, so that caches are in it; the working set is that without what files could bring back.
fn memory(meminfo: &str, vmstat: &str, time: Timestamp) -> Option<MemoryStats> {
    let known = |name| procfs::bytes(meminfo, name);
    let total = known("MemTotal")?;
    let usage = total.saturating_sub(known("MemFree")?);
    let working_set = usage.saturating_sub(known("Inactive(file)").unwrap_or(0));
    Some(MemoryStats {
        time,
        available_bytes: Some(total.saturating_sub(working_set)),
        usage_bytes: Some(usage),
        working_set_bytes: Some(working_set),
        rss_bytes: known("AnonPages"),
        page_faults: procfs::figure(vmstat, "pgfault"),
        major_page_faults: procfs::figure(vmstat, "pgmajfault"),
    })
}

fn swap(meminfo: &str, time: Timestamp) -> Option<SwapStats> {
    let (total, free) = (procfs::bytes(meminfo, "SwapTotal")?, procfs::bytes(meminfo, "SwapFree")?);
    let swap_usage_bytes = Some(total.saturating_sub(free));
    Some(SwapStats { time, swap_available_bytes: Some(free), swap_usage_bytes })
}

/// A network, from its `net/dev` and `net/route` below `/proc`.
pub(super) fn network(dev: &str, route: &str, time: Timestamp) -> Option<NetworkStats> {
    let interfaces = procfs::interfaces(&text(dev));
    let routes = text(route);
    let main = procfs::default_interface(&routes);
    let main = interfaces.iter().find(|interface| Some(interface.name.as_str()) == main).cloned();
    (!interfaces.is_empty()).then(|| NetworkStats { time, main: main.unwrap_or_default(), interfaces })
}

/// How many processes there may be, and how many threads there are: both count towards the limit.
pub(super) fn rlimit(time: Timestamp) -> RlimitStats {
    let number = |path| text(path).trim().parse::<u64>().ok();
    let limits = [number("/proc/sys/kernel/pid_max"), number("/proc/sys/kernel/threads-max")];
    RlimitStats {
        time,
        max_pid: limits.into_iter().flatten().min(),
        processes: procfs::threads(&text("/proc/loadavg")),
    }
}

/// The disk that `path` is on, with nothing of it in use by anybody in particular.
pub(super) fn disk(path: &Path, time: Timestamp) -> Option<FsStats> {
    let disk = nix::sys::statvfs::statvfs(path).ok()?;
    // these types differ between platforms
    #[allow(clippy::useless_conversion, reason = "needed where they are 32 bits long")]
    let bytes = |blocks| u64::from(blocks).checked_mul(u64::from(disk.fragment_size()));
    #[allow(clippy::useless_conversion, reason = "needed where they are 32 bits long")]
    let (inodes, inodes_free) = (u64::from(disk.files()), u64::from(disk.files_free()));
    Some(FsStats {
        time,
        available_bytes: bytes(disk.blocks_available()),
        capacity_bytes: bytes(disk.blocks()),
        used_bytes: None,
        inodes_free: Some(inodes_free),
        inodes: Some(inodes),
        inodes_used: None,
    })
}

/// The disk that `path` is on, and what all together use of it.
pub(super) fn whole_disk(path: &Path, time: Timestamp) -> Option<FsStats> {
    let disk = disk(path, time)?;
    let free = nix::sys::statvfs::statvfs(path).ok()?;
    #[allow(clippy::useless_conversion, reason = "needed where they are 32 bits long")]
    let free = u64::from(free.blocks_free()).checked_mul(u64::from(free.fragment_size()));
    Some(FsStats {
        used_bytes: disk.capacity_bytes.zip(free).map(|(all, free)| all.saturating_sub(free)),
        inodes_used: disk.inodes.zip(disk.inodes_free).map(|(all, free)| all.saturating_sub(free)),
        ..disk
    })
}

/// The file's text; empty where it cannot be read.
pub(super) fn text(path: &str) -> String {
    let mut text = String::new();
    let read = fs::File::open(path).and_then(|file| file.take(MAX_FILE).read_to_string(&mut text));
    read.map(|_| text).unwrap_or_default()
}
