//! The backend of a proxied pod or service.

use crate::streams::pod::Pod;

/// A port of a pod.
pub(super) struct Backend {
    pub(super) pod: Pod,
    pub(super) port: u16,
    /// Whether the port uses TLS.
    pub(super) is_https: bool,
}
