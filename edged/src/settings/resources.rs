//! Settings that keep disk and memory of the node free: garbage collection, log rotation, eviction.
//!
//! Source: <https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/> and
//! <https://kubernetes.io/docs/concepts/architecture/garbage-collection/#containers-images>.

use std::time::Duration;

/// The settings of garbage collection and log rotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Housekeeping {
    /// The shortest time that a container is kept after its creation.
    pub container_min_age: Duration,
    /// The ended containers that are kept of each name in a pod; `None` for no limit.
    pub containers_per_name: Option<u32>,
    /// The ended containers that are kept on the whole node; `None` for no limit.
    pub containers_in_all: Option<u32>,
    /// The time between two garbage collections of containers.
    pub container_period: Duration,
    /// The time between two garbage collections of images.
    pub image_period: Duration,
    /// The used percentage of the images' disk from which images are removed …
    pub image_high_percent: u8,
    /// … until no more than this is in use.
    pub image_low_percent: u8,
    /// The shortest time that an image is kept after it was first seen.
    pub image_min_age: Duration,
    /// The time after which an unused image is removed; `None` for never.
    pub image_max_age: Option<Duration>,
    /// The size in bytes at which a container's log is rotated; `None` for never.
    pub log_max_size: Option<u64>,
    /// The number of log files of a container, including the current one.
    pub log_max_files: u32,
    /// The time between two checks of the logs.
    pub log_interval: Duration,
}

impl Default for Housekeeping {
    /// EdgeCore's defaults.
    fn default() -> Self {
        Self {
            container_min_age: Duration::ZERO,
            containers_per_name: Some(1),
            containers_in_all: None,
            container_period: Duration::from_secs(60),
            image_period: Duration::from_secs(300),
            image_high_percent: 85,
            image_low_percent: 80,
            image_min_age: Duration::from_secs(120),
            image_max_age: None,
            log_max_size: Some(10 << 20),
            log_max_files: 5,
            log_interval: Duration::from_secs(10),
        }
    }
}

/// When pods are evicted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Eviction {
    /// The thresholds of all signals.
    pub thresholds: Vec<Threshold>,
    /// How long the node reports pressure after it has ended.
    pub transition_period: Duration,
    /// The longest grace period of a pod that is evicted by a soft threshold.
    pub max_pod_grace: Duration,
    /// Whether pods that use more local storage than their limits are evicted.
    pub storage_limits: bool,
}

// no percentage is NaN: they are parsed from digits only
impl Eq for Eviction {}

/// A measured resource of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Signal {
    /// `memory.available`: memory that is neither used nor quickly freed, bytes.
    MemoryAvailable,
    /// `nodefs.available`: the disk of volumes and logs, bytes.
    NodeFsAvailable,
    /// `nodefs.inodesFree`: its inodes.
    NodeFsInodesFree,
    /// `imagefs.available`: the disk of images and containers' writable layers, bytes.
    ImageFsAvailable,
    /// `imagefs.inodesFree`: its inodes.
    ImageFsInodesFree,
    /// `pid.available`: process ids.
    PidAvailable,
}

impl Signal {
    /// All signals.
    pub const ALL: [Self; 6] = [
        Self::MemoryAvailable,
        Self::NodeFsAvailable,
        Self::NodeFsInodesFree,
        Self::ImageFsAvailable,
        Self::ImageFsInodesFree,
        Self::PidAvailable,
    ];

    /// Returns the name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::MemoryAvailable => "memory.available",
            Self::NodeFsAvailable => "nodefs.available",
            Self::NodeFsInodesFree => "nodefs.inodesFree",
            Self::ImageFsAvailable => "imagefs.available",
            Self::ImageFsInodesFree => "imagefs.inodesFree",
            Self::PidAvailable => "pid.available",
        }
    }
}

/// An amount of a signal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ThresholdValue {
    /// In the signal's unit.
    Quantity(i64),
    /// A part of the capacity, from 0 to 1.
    Percentage(f64),
}

impl ThresholdValue {
    /// Returns the amount in the signal's unit for this capacity.
    // the kubelet computes with the same type and rounding
    #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
    pub fn of(self, capacity: i64) -> i64 {
        match self {
            Self::Quantity(amount) => amount,
            Self::Percentage(part) => (capacity as f64 * part) as i64,
        }
    }
}

/// The limit of a signal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    /// The signal.
    pub signal: Signal,
    /// The amount that must be available.
    pub value: ThresholdValue,
    /// How long less is tolerated; zero for a hard threshold, more for a soft one.
    pub grace: Duration,
    /// How much more than `value` is reclaimed after an eviction.
    pub reclaim: Option<ThresholdValue>,
}
