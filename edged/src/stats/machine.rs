//! Reads the usage of the machine from `/proc` and its file systems. Values that cannot be read are `None`.

use std::{fs, io::Read, path::Path};

use jiff::Timestamp;

use super::{
    procfs::{self, Process},
    summary::{FsStats, MemoryStats, NetworkStats, RlimitStats, SwapStats},
};

/// Maximum size of a file. The longest is `/proc/stat` on a machine with many processors and interrupts.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// One reading of the machine's usage.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    /// Time of the reading.
    pub(crate) at: Timestamp,
    /// When the machine was started.
    pub(crate) started: Timestamp,
    /// CPU time of all processors since then, in nanoseconds.
    pub(crate) cpu_nanos: Option<u64>,
    pub(crate) memory: Option<MemoryStats>,
    pub(crate) swap: Option<SwapStats>,
    /// This process.
    pub(crate) agent: Option<Process>,
    /// Resident memory of this process in bytes.
    pub(crate) agent_resident: Option<u64>,
    /// Anonymous part of that memory, in bytes.
    pub(super) agent_anonymous: Option<u64>,
}

/// Returns the CPU time of all processors since the start, in nanoseconds.
pub fn busy_nanos() -> Option<u64> {
    procfs::cpu_nanos(&read_text("/proc/stat"))
}

impl Machine {
    /// Reads the machine's usage.
    pub(crate) fn read() -> Self {
        let stat = read_text("/proc/stat");
        let (meminfo, vmstat, own) = (
            read_text("/proc/meminfo"),
            read_text("/proc/vmstat"),
            read_text("/proc/self/status"),
        );
        let at = clock::now();
        let started =
            procfs::boot_time(&stat).and_then(|seconds| Timestamp::from_second(seconds).ok());
        Self {
            at,
            started: started.unwrap_or_default(),
            cpu_nanos: procfs::cpu_nanos(&stat),
            memory: memory(&meminfo, &vmstat, at),
            swap: swap(&meminfo, at),
            agent: procfs::process(&read_text("/proc/self/stat")),
            agent_resident: procfs::bytes(&own, "VmRSS"),
            agent_anonymous: procfs::bytes(&own, "RssAnon"),
        }
    }
}

/// Parses memory usage. Usage is all memory that is not free, including caches; the working set excludes inactive files.
fn memory(meminfo: &str, vmstat: &str, time: Timestamp) -> Option<MemoryStats> {
    let value = |name| procfs::bytes(meminfo, name);
    let total = value("MemTotal")?;
    let usage = total.saturating_sub(value("MemFree")?);
    let working_set = usage.saturating_sub(value("Inactive(file)").unwrap_or(0));
    Some(MemoryStats {
        time,
        available_bytes: Some(total.saturating_sub(working_set)),
        usage_bytes: Some(usage),
        working_set_bytes: Some(working_set),
        rss_bytes: value("AnonPages"),
        page_faults: procfs::value(vmstat, "pgfault"),
        major_page_faults: procfs::value(vmstat, "pgmajfault"),
    })
}

fn swap(meminfo: &str, time: Timestamp) -> Option<SwapStats> {
    let (total, free) = (
        procfs::bytes(meminfo, "SwapTotal")?,
        procfs::bytes(meminfo, "SwapFree")?,
    );
    let swap_usage_bytes = Some(total.saturating_sub(free));
    Some(SwapStats {
        time,
        swap_available_bytes: Some(free),
        swap_usage_bytes,
    })
}

/// Reads a network from its `net/dev` and `net/route` below `/proc`.
pub(super) fn network(dev: &str, route: &str, time: Timestamp) -> Option<NetworkStats> {
    let interfaces = procfs::interfaces(&read_text(dev));
    let routes = read_text(route);
    let main = procfs::default_interface(&routes);
    let main = interfaces
        .iter()
        .find(|interface| Some(interface.name.as_str()) == main)
        .cloned();
    (!interfaces.is_empty()).then(|| NetworkStats {
        time,
        main: main.unwrap_or_default(),
        interfaces,
    })
}

/// Returns the limit of process ids and the number of threads, which count towards it.
pub(super) fn rlimit(time: Timestamp) -> RlimitStats {
    let number = |path| read_text(path).trim().parse::<u64>().ok();
    let limits = [
        number("/proc/sys/kernel/pid_max"),
        number("/proc/sys/kernel/threads-max"),
    ];
    RlimitStats {
        time,
        max_pid: limits.into_iter().flatten().min(),
        processes: procfs::threads(&read_text("/proc/loadavg")),
    }
}

/// Returns capacity and available space of the file system of `path`.
pub(super) fn disk(path: &Path, time: Timestamp) -> Option<FsStats> {
    let disk = nix::sys::statvfs::statvfs(path).ok()?;
    // these types differ between platforms
    #[allow(
        clippy::useless_conversion,
        reason = "needed where they are 32 bits long"
    )]
    let bytes = |blocks| u64::from(blocks).checked_mul(u64::from(disk.fragment_size()));
    #[allow(
        clippy::useless_conversion,
        reason = "needed where they are 32 bits long"
    )]
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

/// Returns the same with the usage of the whole file system.
pub(super) fn whole_disk(path: &Path, time: Timestamp) -> Option<FsStats> {
    let disk = disk(path, time)?;
    let free = nix::sys::statvfs::statvfs(path).ok()?;
    #[allow(
        clippy::useless_conversion,
        reason = "needed where they are 32 bits long"
    )]
    let free = u64::from(free.blocks_free()).checked_mul(u64::from(free.fragment_size()));
    Some(FsStats {
        used_bytes: disk
            .capacity_bytes
            .zip(free)
            .map(|(all, free)| all.saturating_sub(free)),
        inodes_used: disk
            .inodes
            .zip(disk.inodes_free)
            .map(|(all, free)| all.saturating_sub(free)),
        ..disk
    })
}

/// Reads a file; the text is empty if that fails.
pub(super) fn read_text(path: &str) -> String {
    let mut text = String::new();
    let read =
        fs::File::open(path).and_then(|file| file.take(MAX_FILE_BYTES).read_to_string(&mut text));
    read.map(|_| text).unwrap_or_default()
}
