//! CRI v1, the container runtime interface of Kubernetes: messages, clients and servers.
//!
//! Generated from `proto/cri.proto`, which follows the CRI v1 API of Kubernetes (package `runtime.v1` of
//! `k8s.io/cri-api`) in names and field numbers, trimmed to what a Linux edge node uses.
//! Maps are `BTreeMap`s and `bytes` fields are [`Bytes`](prost::bytes::Bytes).
//!
//! Clients: [`runtime_service_client`], [`image_service_client`]. Servers: [`runtime_service_server`],
//! [`image_service_server`]. An enum travels as `i32`; generated getters (`status.state()`) give the Rust enum.

use std::fmt;

pub use generated::*;
/// Encodes and decodes the messages, for callers that store them.
pub use prost::Message;

/// The metadata key of a response with which the simulated runtime reports unsupported requests, as UTF-8 text. Other runtimes
/// do not send it.
pub const WARNING: &str = "outrigger-warning-bin";

// The generator documents only what the .proto documents, and has its own style.
#[allow(
    missing_docs,
    unreachable_pub,
    rust_2018_idioms,
    clippy::all,
    clippy::too_many_lines,
    clippy::large_futures
)]
#[path = "generated/cri.rs"]
mod generated;

/// Shows that there is a value but not the value itself, because environment variables carry secrets.
impl fmt::Debug for KeyValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyValue")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// Shows the user name and the registry, but no secrets.
impl fmt::Debug for AuthConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthConfig")
            .field("username", &self.username)
            .field("server_address", &self.server_address)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_never_shows_a_secret() {
        let auth = AuthConfig {
            username: "robot".into(),
            password: "hunter2".into(),
            auth: "cm9ib3Q6aHVudGVyMg==".into(),
            identity_token: "hunter2".into(),
            registry_token: "hunter2".into(),
            server_address: "registry.example".into(),
        };
        let config = ContainerConfig {
            envs: vec![KeyValue {
                key: "PASSWORD".into(),
                value: "hunter2".into(),
            }],
            ..Default::default()
        };
        let shown = format!("{auth:?} {config:?}");
        assert!(shown.contains("robot") && shown.contains("PASSWORD"));
        assert!(!shown.contains("hunter2") && !shown.contains("cm9i"));
    }

    /// Decodes bytes that another implementation of CRI wrote: tag, length, value, with the published field numbers.
    #[test]
    fn field_numbers_are_the_published_ones() -> Result<(), prost::DecodeError> {
        // ImageSpec.user_specified_image is field 18, LinuxContainerSecurityContext.no_new_privs is 11.
        let spec = ImageSpec::decode(&[0x92, 0x01, 0x05, b'n', b'g', b'i', b'n', b'x'][..])?;
        assert_eq!(spec.user_specified_image, "nginx");
        let security = LinuxContainerSecurityContext::decode(&[0x58, 0x01][..])?;
        assert!(security.no_new_privs);
        // A field that we left out (ContainerConfig.stop_signal, 18) is skipped.
        let config = ContainerConfig::decode(&[0x90, 0x01, 0x17, 0x60, 0x01][..])?;
        assert!(config.stdin);
        Ok(())
    }
}
