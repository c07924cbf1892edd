//! What is dialled for a pod or a service.

use crate::streams::pod::Pod;

/// A port of a pod.
pub(super) struct Backend {
    pub(super) pod: Pod,
    pub(super) port: u16,
    /// Whether it speaks TLS.
    pub(super) is_https: bool,
}
