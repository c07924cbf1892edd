//! Eviction signals, and the resources and node conditions that they stand for.

use std::{collections::BTreeMap, fmt};

use crate::settings::Signal;

/// A resource of the node, displayed as in the kubelet's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    /// Memory in bytes.
    Memory,
    /// Disk space in bytes.
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

/// A pressure condition of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Condition {
    /// Memory is scarce.
    Memory,
    /// Disk space or inodes are scarce.
    Disk,
    /// Process ids are scarce.
    Pid,
}

/// The texts of a condition in the node's status and in an event.
pub(crate) struct ConditionText {
    /// The condition's type.
    pub(crate) kind: &'static str,
    /// Its reason.
    pub(crate) reason: &'static str,
    /// Its message.
    pub(crate) message: &'static str,
    /// The reason of the event at the transition.
    pub(crate) event: &'static str,
}

impl Condition {
    /// All conditions, in the order of the kubelet's status.
    pub(crate) const ALL: [Self; 3] = [Self::Memory, Self::Disk, Self::Pid];

    /// Returns the kubelet's texts for the condition, depending on whether it holds.
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
            (Self::Disk, true) => (
                "DiskPressure",
                "KubeletHasDiskPressure",
                "kubelet has disk pressure",
                "NodeHasDiskPressure",
            ),
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
        ConditionText {
            kind,
            reason,
            message,
            event,
        }
    }
}

impl Signal {
    /// Returns the resource that the signal measures.
    pub(crate) fn resource(self) -> Resource {
        match self {
            Self::MemoryAvailable => Resource::Memory,
            Self::NodeFsAvailable | Self::ImageFsAvailable => Resource::Storage,
            Self::NodeFsInodesFree | Self::ImageFsInodesFree => Resource::Inodes,
            Self::PidAvailable => Resource::Pids,
        }
    }

    /// Returns the node condition of the signal.
    pub(crate) fn condition(self) -> Condition {
        match self.resource() {
            Resource::Memory => Condition::Memory,
            Resource::Storage | Resource::Inodes => Condition::Disk,
            Resource::Pids => Condition::Pid,
        }
    }
}

/// A measured value, in the signal's unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// The amount that is available.
    pub available: i64,
    /// Total amount.
    pub capacity: i64,
}

/// One reading of the node's signals. A signal that cannot be read is missing and never meets a threshold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Observations by signal.
    pub signals: BTreeMap<Signal, Observation>,
    /// Whether images and writable layers have a disk of their own.
    pub image_disk: bool,
}
