//! The settings of control groups, housekeeping and eviction.

mod cgroups;
mod resources;

pub use self::{
    cgroups::{CgroupDriver, ControlGroups},
    resources::{Eviction, Housekeeping, Signal, Threshold, ThresholdValue},
};
