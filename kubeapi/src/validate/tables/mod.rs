//! The tables of rules of pods, and of what other objects have in common with them.

pub mod affinity;
pub mod annotations;
pub mod claim;
pub mod container;
pub mod env;
pub mod files;
pub mod mounts;
pub mod pod;
pub mod probe;
pub mod projected;
pub mod resources;
pub mod security;
pub mod signer;
pub mod volume;
pub mod windows;
