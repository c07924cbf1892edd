//! What is measured, and what too little of it means.

use std::{collections::BTreeMap, fmt};

use crate::config::Signal;

/// What of the node is scarce: a resource as the kubelet's messages name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    /// Memory, bytes.
    Memory,
    /// Room on a disk, bytes.
    Storage,
    /// Inodes of a disk.
    Inodes,
    /// Process ids.
    Pids,
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "memory",
            Self::Storage => "ephemeral-storage",
            Self::Inodes => "inodes",
            Self::Pids => "pids",
        })
    }
}

/// A condition of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Condition {
    /// Memory is scarce.
    Memory,
    /// Room or inodes of a disk are scarce.
    Disk,
    /// Process ids are scarce.
    Pid,
}

/// What the node's status, and an event, say of a condition.
pub(crate) struct ConditionText {
    /// The condition's type.
    pub(crate) kind: &'static str,
    /// Its reason.
    pub(crate) reason: &'static str,
    /// Its message.
    pub(crate) message: &'static str,
    /// The event at the transition.
    pub(crate) event: &'static str,
}

impl Condition {
    /// All of them, in the order of the kubelet's status.
    pub(crate) const ALL: [Self; 3] = [Self::Memory, Self::Disk, Self::Pid];

    /// The kubelet's words for the condition, holding or not.
    pub(crate) fn text(self, holds: bool) -> ConditionText {
        let (kind, reason, message, event) = match (self, holds) {
            (Self::Memory, true) => (
                "MemoryPressure",
                "KubeletHasInsufficientMemory",
                "kubelet has insufficient memory available",
                "NodeHasInsufficientMemory",
            ),
            (Self::Memory, false) => (
                "MemoryPressure",
                "KubeletHasSufficientMemory",
                "kubelet has sufficient memory available",
                "NodeHasSufficientMemory",
            ),
            (Self::Disk, true) => {
                ("DiskPressure", "KubeletHasDiskPressure", "kubelet has disk pressure", "NodeHasDiskPressure")
            }
            (Self::Disk, false) => (
                "DiskPressure",
                "KubeletHasNoDiskPressure",
                "kubelet has no disk pressure",
                "NodeHasNoDiskPressure",
            ),
            (Self::Pid, true) => (
                "PIDPressure",
                "KubeletHasInsufficientPID",
                "kubelet has insufficient PID available",
                "NodeHasInsufficientPID",
            ),
            (Self::Pid, false) => (
                "PIDPressure",
                "KubeletHasSufficientPID",
                "kubelet has sufficient PID available",
                "NodeHasSufficientPID",
            ),
        };
        ConditionText { kind, reason, message, event }
    }
}

impl Signal {
    /// What is scarce when there is too little.
    pub(crate) fn resource(self) -> Resource {
        match self {
            Self::MemoryAvailable => Resource::Memory,
            Self::NodeFsAvailable | Self::ImageFsAvailable => Resource::Storage,
            Self::NodeFsInodesFree | Self::ImageFsInodesFree => Resource::Inodes,
            Self::PidAvailable => Resource::Pids,
        }
    }

    /// What the node is said to have then.
    pub(crate) fn condition(self) -> Condition {
        match self.resource() {
            Resource::Memory => Condition::Memory,
            Resource::Storage | Resource::Inodes => Condition::Disk,
            Resource::Pids => Condition::Pid,
        }
    }
}

/// How much there is, in the signal's unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// That can be had.
    pub available: i64,
    /// In all.
    pub capacity: i64,
}

/// One reading of the node's signals. A signal that cannot be read is missing, and never too little.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// By signal.
    pub signals: BTreeMap<Signal, Observation>,
    /// Images and containers' layers have a disk of their own.
    pub image_disk: bool,
}
