//! The pod-resources API v1 of the kubelet, which lists the devices that containers use: messages, client and server.
//!
//! Generated from `proto/pod_resources.proto`, which has Kubernetes' names and field numbers.

pub use generated::*;

// The generator documents only what the .proto documents, and has its own style.
#[allow(
    missing_docs,
    unreachable_pub,
    rust_2018_idioms,
    clippy::all,
    clippy::too_many_lines,
    clippy::large_futures
)]
#[path = "generated/pod_resources.rs"]
mod generated;
