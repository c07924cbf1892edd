//! Device plugins v1beta1 of the kubelet: messages, clients and servers.
//!
//! Generated from `proto/device_plugin.proto`, which has Kubernetes' names and field numbers. The agent serves
//! [`registration_server`], each plugin [`device_plugin_server`].

use std::fmt;

pub use generated::*;
/// Encodes and decodes the messages, for callers that store them.
pub use prost::Message;

/// The only version of the API.
pub const VERSION: &str = "v1beta1";
/// The health of a device that may be allocated.
pub const HEALTHY: &str = "Healthy";
/// The name of the socket at which plugins register.
pub const KUBELET_SOCKET: &str = "kubelet.sock";

// The generator documents only what the .proto documents, and has its own style.
#[allow(
    missing_docs,
    unreachable_pub,
    rust_2018_idioms,
    clippy::all,
    clippy::too_many_lines,
    clippy::large_futures
)]
#[path = "generated/device_plugin.rs"]
mod generated;

/// Shows the names of environment variables but not their values, which may be secrets.
impl fmt::Debug for ContainerAllocateResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContainerAllocateResponse")
            .field("envs", &self.envs.keys())
            .field("mounts", &self.mounts)
            .field("devices", &self.devices)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes bytes that a kubelet stored in its checkpoint.
    #[test]
    fn answer_from_a_kubelets_checkpoint_is_read_without_showing_values()
    -> Result<(), prost::DecodeError> {
        let mut bytes = vec![0x0a, 31, 0x0a, 22];
        bytes.extend(b"NVIDIA_VISIBLE_DEVICES");
        bytes.extend([0x12, 5]);
        bytes.extend(b"tegra");
        let answer = ContainerAllocateResponse::decode(&bytes[..])?;
        assert_eq!(answer.envs["NVIDIA_VISIBLE_DEVICES"], "tegra");
        assert_eq!(answer.encode_to_vec(), bytes);
        let shown = format!("{answer:?}");
        assert!(shown.contains("NVIDIA_VISIBLE_DEVICES") && !shown.contains("tegra"));
        Ok(())
    }
}
