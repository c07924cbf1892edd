//! Measures the resources that a job asks for in `checkItems`: each may be used to 80 %, as in KubeEdge.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use edged::{Observation, Signal, Signals};
use tokio::{fs, time::sleep};

/// How much of a resource may be used, percent.
const MAX_USED: u64 = 80;
/// How long the load of the processor is measured.
const CPU_PERIOD: Duration = Duration::from_secs(1);

/// Checks each item; the error is that of the first one that fails. `disks` are directories on the disks of this machine; without them
/// the node is a simulated one, whose processor is not measured.
pub(super) async fn check(
    items: &[String],
    signals: &dyn Signals,
    disks: Option<Vec<PathBuf>>,
) -> Result<(), String> {
    for item in items {
        match (item.as_str(), &disks) {
            ("cpu", Some(_)) => limit("the processor", busy().await?)?,
            ("cpu", None) => {}
            ("mem", _) => signal(signals, Signal::MemoryAvailable, "memory").await?,
            ("disk", Some(disks)) => {
                for directory in disks {
                    let what = format!("the disk of {}", directory.display());
                    let used =
                        disk(directory).ok_or_else(|| format!("{what} cannot be measured"))?;
                    limit(&what, used)?;
                }
            }
            ("disk", None) => signal(signals, Signal::NodeFsAvailable, "the disk").await?,
            (other, _) => {
                return Err(format!(
                    "checkItems: {other:?} is unknown; use cpu, mem or disk"
                ));
            }
        }
    }
    Ok(())
}

/// Returns the used share of a disk as `df` shows it, percent: what only root may use counts as neither.
fn disk(directory: &Path) -> Option<u64> {
    let disk = nix::sys::statvfs::statvfs(directory).ok()?;
    // these types differ between platforms
    let blocks = |count| u64::try_from(i128::from(count)).unwrap_or_default();
    let used = blocks(disk.blocks()).saturating_sub(blocks(disk.blocks_free()));
    let all = used + blocks(disk.blocks_available());
    Some((used * 100).div_ceil(all.max(1)))
}

async fn signal(signals: &dyn Signals, which: Signal, what: &str) -> Result<(), String> {
    match signals.read().await.signals.get(&which) {
        Some(observation) => limit(what, usage(observation)),
        None => Err(format!("the usage of {what} cannot be measured")),
    }
}

/// Returns the used share of a resource, percent.
fn usage(observation: &Observation) -> u64 {
    let (capacity, available) = (observation.capacity.max(1), observation.available.max(0));
    u64::try_from((capacity - available).max(0) * 100 / capacity).unwrap_or(100)
}

fn limit(what: &str, used: u64) -> Result<(), String> {
    if used > MAX_USED {
        return Err(format!(
            "{what} is used to {used} %, more than the {MAX_USED} % that the check allows"
        ));
    }
    Ok(())
}

/// Measures how busy the processor is, percent.
async fn busy() -> Result<u64, String> {
    let read = async || {
        let text = fs::read_to_string("/proc/stat").await.unwrap_or_default();
        times(&text).ok_or("the load of the processor cannot be read from /proc/stat")
    };
    let before = read().await?;
    sleep(CPU_PERIOD).await;
    let after = read().await?;
    let (idle, all) = (
        after.0.saturating_sub(before.0),
        after.1.saturating_sub(before.1),
    );
    Ok(100 - (idle * 100 / all.max(1)).min(100))
}

/// Returns the idle and the whole time of all processors since the boot, in ticks.
fn times(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line
        .split_whitespace()
        .map_while(|word| word.parse().ok())
        .collect();
    // user, nice, system, idle, iowait, irq, softirq, steal; guests are counted as users
    let idle = ticks.get(3)? + ticks.get(4).copied().unwrap_or_default();
    Some((idle, ticks.iter().take(8).sum()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_a_share_of_the_capacity() {
        let of = |available, capacity| {
            usage(&Observation {
                available,
                capacity,
            })
        };
        assert_eq!(
            [
                of(100, 100),
                of(20, 100),
                of(19, 100),
                of(0, 0),
                of(-5, 100)
            ],
            [0, 80, 81, 100, 100]
        );
        assert!(limit("memory", 80).is_ok());
        assert_eq!(
            limit("memory", 81).unwrap_err(),
            "memory is used to 81 %, more than the 80 % that the check allows"
        );
    }

    #[test]
    fn a_disk_is_used_in_part() {
        assert!(disk(Path::new("/")).is_some_and(|used| used <= 100));
        assert_eq!(disk(Path::new("/nowhere")), None);
    }

    #[test]
    fn times_of_processors_are_read() {
        assert_eq!(
            times("cpu  10 1 9 70 10 0 0 0 5 0\ncpu0 1 1 1 1\n"),
            Some((80, 100))
        );
        assert_eq!(times("intr 1\n"), None);
        assert_eq!(times("cpu  x\n"), None);
    }
}
