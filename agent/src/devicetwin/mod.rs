//! DeviceTwin: the devices of this node, what is wanted of them and what they are.
//!
//! In: devices and models from the cloud (objects, memberships), updates of mappers over MQTT and DMI. Out: answers and deltas to
//! mappers, reports to the cloud. What was answered is on disk; what is on disk is reported until the cloud has confirmed it.
//!
//! | part | what |
//! |---|---|
//! | `device`, `rules`, `merge`, `core` | decisions, pure |
//! | `kept` | the devices in the store |
//! | `task` | the one owner: takes what has come, commits it, then answers |
//! | `dmi` | mappers over gRPC |
//! | `handle` | the doors for other rooms |
//!
//! Source: KubeEdge's DeviceTwin.

pub mod dmi;
mod handle;

pub use self::handle::{Catalogue, DeviceTwin, Devices, Listed, Reading, Refused, Unavailable};
