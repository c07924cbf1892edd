//! Parses the kernel's text files below `/proc`. Pure: each function takes a file's text.
//!
//! The files are independent of the version of control groups. Source: proc(5).

use std::time::Duration;

use super::summary::InterfaceStats;

/// Nanoseconds of a clock tick: the kernel reports times in hundredths of a second on every architecture on which Linux runs
/// pods.
const TICK_NANOS: u64 = 10_000_000;
/// Prefixes of local interfaces and those of pods, which cAdvisor ignores as well.
const LOCAL_PREFIXES: [&str; 4] = ["lo", "veth", "docker", "nerdctl"];

/// Returns the CPU time of all processors since the start in nanoseconds, from `/proc/stat`: all but idle time and waiting for
/// disks.
pub(super) fn cpu_nanos(stat: &str) -> Option<u64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let fields: Vec<u64> = line
        .split_whitespace()
        .map_while(|field| field.parse().ok())
        .collect();
    // user nice system idle iowait irq softirq steal; what guests use is in user already
    let ticks = [0, 1, 2, 5, 6, 7]
        .into_iter()
        .filter_map(|field| fields.get(field))
        .sum::<u64>();
    ticks.checked_mul(TICK_NANOS).filter(|_| fields.len() > 3)
}

/// Returns the fraction, 0 to 1, of the time `during` in which the processors were idle, given the CPU time `before` and `now`.
pub fn idle(before: u64, now: u64, during: Duration, processors: usize) -> f64 {
    let busy = Duration::from_nanos(now.saturating_sub(before)).as_secs_f64();
    let all = during.as_secs_f64() * processors as f64;
    if all > 0.0 { 1.0 - busy / all } else { 0.0 }
}

/// Returns when the machine was started in Unix seconds, from `/proc/stat`.
pub(super) fn boot_time(stat: &str) -> Option<i64> {
    stat.lines()
        .find_map(|line| line.strip_prefix("btime "))?
        .trim()
        .parse()
        .ok()
}

/// Returns a value of `/proc/meminfo` or `/proc/self/status` in bytes.
pub(super) fn bytes(text: &str, name: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()?
        .checked_mul(1024)
}

/// Returns a value of `/proc/vmstat`.
pub(super) fn value(vmstat: &str, name: &str) -> Option<u64> {
    vmstat
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?
        .trim()
        .parse()
        .ok()
}

/// Returns all interfaces to other machines, from `/proc/net/dev`.
pub(super) fn interfaces(dev: &str) -> Vec<InterfaceStats> {
    let read = |line: &str| {
        let (name, figures) = line.split_once(':')?;
        let name = name.trim();
        let figures: Vec<u64> = figures
            .split_whitespace()
            .map_while(|field| field.parse().ok())
            .collect();
        (!LOCAL_PREFIXES.iter().any(|inside| name.starts_with(inside))).then(|| InterfaceStats {
            name: name.to_owned(),
            rx_bytes: figures.first().copied(),
            rx_errors: figures.get(2).copied(),
            tx_bytes: figures.get(8).copied(),
            tx_errors: figures.get(10).copied(),
        })
    };
    dev.lines().filter_map(read).collect()
}

/// Returns the interface of the default route, from `/proc/net/route`.
pub(super) fn default_interface(route: &str) -> Option<&str> {
    route.lines().skip(1).find_map(|line| {
        let mut fields = line.split_whitespace();
        let (name, destination) = (fields.next()?, fields.next()?);
        (destination == "00000000").then_some(name)
    })
}

/// Returns the number of threads, from `/proc/loadavg`.
pub(super) fn threads(loadavg: &str) -> Option<u64> {
    loadavg
        .split_whitespace()
        .nth(3)?
        .split_once('/')?
        .1
        .parse()
        .ok()
}

/// Usage of a process, from its `stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Process {
    /// CPU time in nanoseconds.
    pub(crate) cpu_nanos: u64,
    /// When it was started, in nanoseconds after the machine's start.
    pub(crate) started_nanos: u64,
    /// Page faults without disk access.
    pub(super) minor_faults: u64,
    /// Page faults with disk access.
    pub(super) major_faults: u64,
    /// Virtual memory in bytes.
    pub(crate) virtual_bytes: u64,
}

/// Parses `/proc/<pid>/stat`.
pub(super) fn process(stat: &str) -> Option<Process> {
    // the name, in brackets, may itself contain brackets
    let (_, after) = stat.rsplit_once(')')?;
    // the first of these fields is the third of the file
    let fields: Vec<&str> = after.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(Process {
        cpu_nanos: (field(14)? + field(15)?).checked_mul(TICK_NANOS)?,
        started_nanos: field(22)?.checked_mul(TICK_NANOS)?,
        minor_faults: field(10)?,
        major_faults: field(12)?,
        virtual_bytes: field(23)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_read() {
        let stat = "cpu  10 20 30 400 50 6 7 8 9 0\ncpu0 1 1 1 1 1 1 1 1 1 0\nbtime 1700000000\n";
        assert_eq!(
            cpu_nanos(stat),
            Some((10 + 20 + 30 + 6 + 7 + 8) * TICK_NANOS)
        );
        assert_eq!(boot_time(stat), Some(1_700_000_000));
        let meminfo =
            "MemTotal:       16384 kB\nInactive(file):    12 kB\nHugePages_Total:       3\n";
        assert_eq!(bytes(meminfo, "MemTotal"), Some(16384 * 1024));
        assert_eq!(bytes(meminfo, "Inactive(file)"), Some(12 * 1024));
        assert_eq!(value("pgfault 12\npgfault_x 13\n", "pgfault"), Some(12));
        assert_eq!(threads("0.1 0.2 0.3 2/345 6789\n"), Some(345));
    }

    #[test]
    fn idle_is_what_all_processors_have_left() {
        let second = Duration::from_secs(1);
        assert_eq!(idle(5, 1_500_000_005, second, 2), 0.25);
        assert_eq!(idle(5, 5, second, 2), 1.0);
        assert_eq!(idle(5, 5, Duration::ZERO, 2), 0.0);
    }

    #[test]
    fn networks_are_read() {
        let dev = "Inter-|   Receive\n face |bytes\n    lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n  \
                   eth0:331 11 5 0 0 0 0 0 747 74 6 0 0 0 0 0\nveth12: 1 1 1 1 1 1 1 1 1 1 1\n";
        let eth0 = InterfaceStats {
            name: "eth0".into(),
            rx_bytes: Some(331),
            rx_errors: Some(5),
            tx_bytes: Some(747),
            tx_errors: Some(6),
        };
        assert_eq!(interfaces(dev), [eth0]);
        let route = "Iface\tDestination\tGateway\nbr0\t0000FEA9\t0\neth0\t00000000\t0101A8C0\n";
        assert_eq!(default_interface(route), Some("eth0"));
    }

    #[test]
    fn a_process_may_have_any_name() {
        let stat = "7 (a) (b) S 1 7 7 0 -1 0 11 0 22 0 300 40 0 0 20 0 3 0 5000 4096 1";
        let process = process(stat).unwrap();
        assert_eq!(process.cpu_nanos, 340 * TICK_NANOS);
        assert_eq!((process.minor_faults, process.major_faults), (11, 22));
        assert_eq!(
            (process.started_nanos, process.virtual_bytes),
            (5000 * TICK_NANOS, 4096)
        );
    }

    #[test]
    fn invalid_files_yield_none() {
        for text in [
            "",
            "cpu \n",
            "cpu x y\n",
            "(",
            ") 1 2",
            "MemTotal: much",
            ":",
            "eth0",
            "\0\0",
        ] {
            assert_eq!(cpu_nanos(text), None, "{text:?}");
            assert_eq!(boot_time(text), None, "{text:?}");
            assert_eq!(bytes(text, "MemTotal"), None, "{text:?}");
            assert_eq!(value(text, "pgfault"), None, "{text:?}");
            assert_eq!(threads(text), None, "{text:?}");
            assert_eq!(process(text), None, "{text:?}");
            assert_eq!(default_interface(text), None, "{text:?}");
        }
    }
}
