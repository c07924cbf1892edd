//! The settings of control groups, housekeeping, eviction and node shutdown.

mod cgroups;
mod resources;
mod shutdown;

pub use self::{
    cgroups::{CgroupDriver, ControlGroups},
    resources::{Eviction, Housekeeping, Signal, Threshold, ThresholdValue},
    shutdown::{NodeShutdown, ShutdownPeriod},
};
