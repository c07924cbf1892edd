//! Finds the resources of a machine that are too scarce for pods, before an agent runs on it.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use super::{
    machine::reading,
    signals::{Observation, Resource},
    state::is_met,
};
use crate::settings::{Eviction, Signal, Threshold, ThresholdValue};

/// A resource of which less is available than a threshold requires.
#[derive(Clone, Debug, PartialEq)]
pub struct Shortage {
    threshold: Threshold,
    seen: Observation,
    disk: Option<PathBuf>,
}

impl Shortage {
    /// Returns the name of the signal, as in `evictionHard`.
    pub fn signal(&self) -> &'static str {
        self.threshold.signal.name()
    }

    /// Returns the cure, without the alternative of another threshold.
    pub fn cure(&self) -> &'static str {
        match self.threshold.signal.resource() {
            Resource::Memory => "stop other programs or add memory",
            Resource::Storage => "free disk space",
            Resource::Inodes => "delete files",
            Resource::Pids => "stop other programs or raise kernel.pid_max",
        }
    }
}

/// `DiskPressure: 7.0% of the disk of /var/lib/kubelet is free, nodefs.available requires 10.0%`.
impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let signal = self.threshold.signal;
        let amount =
            |amount: i64| amount_text(signal, self.threshold.value, amount, self.seen.capacity);
        write!(
            f,
            "{}: {} of the ",
            signal.condition().text(true).kind,
            amount(self.seen.available)
        )?;
        match (&self.disk, signal.resource()) {
            (Some(path), Resource::Inodes) => write!(f, "inodes at {} are free", path.display())?,
            (Some(path), _) => write!(f, "disk at {} is free", path.display())?,
            (None, Resource::Pids) => f.write_str("process ids are free")?,
            (None, _) => f.write_str("memory is available")?,
        }
        let required = self.threshold.value.of(self.seen.capacity);
        write!(f, "; {} requires {}", signal.name(), amount(required))
    }
}

/// Returns an amount in the unit of the threshold: percent, MiB or a number.
// percent for people
#[allow(clippy::cast_precision_loss)]
fn amount_text(signal: Signal, unit: ThresholdValue, amount: i64, capacity: i64) -> String {
    match (unit, signal.resource()) {
        (ThresholdValue::Percentage(_), _) => {
            format!("{:.1}%", amount as f64 * 100.0 / capacity.max(1) as f64)
        }
        (_, Resource::Memory | Resource::Storage) => format!("{} MiB", amount >> 20),
        _ => amount.to_string(),
    }
}

/// Returns the thresholds that this machine meets. `root` is the directory of pods, which need not exist yet; `images` one on the disk
/// of images, the same disk if the runtime does not report it. Blocks on the disk.
pub fn low_signals(eviction: &Eviction, root: &Path, images: Option<&Path>) -> Vec<Shortage> {
    let root = root
        .ancestors()
        .find(|path| path.exists())
        .unwrap_or(Path::new("/"));
    let images = images.unwrap_or(root);
    let seen = reading(root, images);
    let met = eviction
        .thresholds
        .iter()
        .filter(|threshold| is_met(threshold, &seen, false));
    let shortage = |threshold: &Threshold| {
        let disk = match threshold.signal {
            Signal::NodeFsAvailable | Signal::NodeFsInodesFree => Some(root.to_owned()),
            Signal::ImageFsAvailable | Signal::ImageFsInodesFree => Some(images.to_owned()),
            Signal::MemoryAvailable | Signal::PidAvailable => None,
        };
        Some(Shortage {
            threshold: *threshold,
            seen: *seen.signals.get(&threshold.signal)?,
            disk,
        })
    };
    met.filter_map(shortage).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_shortage_names_condition_amounts_and_signal() {
        let full = ThresholdValue::Percentage(1.0);
        let all = |value| {
            Signal::ALL.map(|signal| Threshold {
                signal,
                value,
                grace: Duration::ZERO,
                reclaim: None,
            })
        };
        let eviction = |value| Eviction {
            thresholds: all(value).to_vec(),
            ..Eviction::default()
        };
        let directory = tempfile::tempdir().unwrap();
        let later = directory.path().join("not/yet");
        let low = low_signals(&eviction(full), &later, None);
        let conditions: Vec<String> = low
            .iter()
            .map(|one| one.to_string().split(':').next().unwrap().to_owned())
            .collect();
        for condition in ["MemoryPressure", "DiskPressure", "PIDPressure"] {
            assert!(conditions.iter().any(|one| one == condition), "{low:?}");
        }
        let disk = low
            .iter()
            .find(|one| one.signal() == "nodefs.available")
            .unwrap()
            .to_string();
        let at = format!(
            "of the disk at {} is free; nodefs.available requires 100.0%",
            directory.path().display()
        );
        assert!(
            disk.starts_with("DiskPressure: ") && disk.ends_with(&at),
            "{disk}"
        );
        assert_eq!(
            low_signals(&eviction(ThresholdValue::Quantity(0)), &later, None),
            []
        );
    }
}
