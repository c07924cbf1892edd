//! containerd's service of tasks: messages, client and server of the few calls that [`proto/containerd.proto`] names.
//!
//! It is reached over the same socket as CRI, with the header [`NAMESPACE`]: CRI's containers are in [`CRI`].
//!
//! [`proto/containerd.proto`]: https://github.com/containerd/containerd/blob/v1.6.20/api/services/tasks/v1/tasks.proto

pub use generated::*;

/// The header that says whose containers a call is about.
pub const NAMESPACE: &str = "containerd-namespace";
/// Those of CRI.
pub const CRI: &str = "k8s.io";

// The generator documents only what the .proto documents, and has its own style.
#[allow(
    missing_docs,
    unreachable_pub,
    rust_2018_idioms,
    clippy::all,
    clippy::too_many_lines,
    clippy::large_futures
)]
mod generated {
    tonic::include_proto!("containerd.services.tasks.v1");
}
