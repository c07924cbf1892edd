//! What the node's disk and memory are kept free by: garbage collection, log rotation, eviction.
//!
//! Source: <https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/> and
//! <https://kubernetes.io/docs/concepts/architecture/garbage-collection/#containers-images>.

use std::time::Duration;

/// What is kept of what has ended, and of logs and images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Housekeeping {
    /// A container is kept at least this long after it was made.
    pub container_min_age: Duration,
    /// Ended containers that are kept of each name in a pod; `None` for no limit.
    pub containers_per_name: Option<u32>,
    /// Ended containers that are kept on the whole node; `None` for no limit.
    pub containers_in_all: Option<u32>,
    /// Time between two looks at ended containers.
    pub container_period: Duration,
    /// Time between two looks at images.
    pub image_period: Duration,
    /// Percent of the images' disk in use from which images are removed …
    pub image_high_percent: u8,
    /// … until no more than this is in use.
    pub image_low_percent: u8,
    /// An image is kept at least this long after it was first seen.
    pub image_min_age: Duration,
    /// An image that was not used for this long goes; `None` for no limit.
    pub image_max_age: Option<Duration>,
    /// Bytes at which a container's log is rotated; `None`: never.
    pub log_max_size: Option<u64>,
    /// Log files kept for a container, the current one included.
    pub log_max_files: u32,
    /// Time between two looks at the logs.
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
    /// What must stay available.
    pub thresholds: Vec<Threshold>,
    /// How long the node says that it is under pressure after it no longer is.
    pub transition_period: Duration,
    /// Longest grace period of a pod that is evicted by a soft threshold.
    pub max_pod_grace: Duration,
    /// Whether pods that use more local storage than their limits are evicted.
    pub storage_limits: bool,
}

// no percentage is NaN: they are read from text that has digits only
impl Eq for Eviction {}

/// What of the node is measured.
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
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::MemoryAvailable,
        Self::NodeFsAvailable,
        Self::NodeFsInodesFree,
        Self::ImageFsAvailable,
        Self::ImageFsInodesFree,
        Self::PidAvailable,
    ];

    /// Its name in the configuration.
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

/// How much of a signal must be there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// In the signal's unit.
    Absolute(i64),
    /// A part of the capacity, from 0 to 1.
    Part(f64),
}

impl Amount {
    /// In the signal's unit, where this is all there is.
    // the kubelet computes in the same type, and cuts off in the same way
    #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
    pub fn of(self, capacity: i64) -> i64 {
        match self {
            Self::Absolute(amount) => amount,
            Self::Part(part) => (capacity as f64 * part) as i64,
        }
    }
}

/// Less of a signal than this is too little.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    /// What is measured.
    pub signal: Signal,
    /// How much must be there.
    pub least: Amount,
    /// How long less is borne; zero is a hard threshold, the others are soft ones.
    pub grace: Duration,
    /// How much more than `least` is made available once it is too little.
    pub reclaim: Option<Amount>,
}
