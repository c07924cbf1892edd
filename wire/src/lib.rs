//! The KubeEdge protocol between an edge node and its cloud, without IO, clock or async runtime.
//!
//! A [`Message`] is an envelope. [`Down`] and [`Up`] are the messages of each direction; unknown messages are values too, so that nothing
//! is lost. [`kind`] is the table of all messages, from which the specification in `spec/` is generated. [`bus`] has the contents of the
//! router's messages, and [`headers`] the HTTP headers that are forwarded in them. [`json`] is the WebSocket codec, `frame` the QUIC codec,
//! and `compression` our extension of the WebSocket codec. [`lane`] decides which messages are acknowledged. [`names`] decides which names
//! may become parts of URLs and files. [`topic`] and [`twin`] are the device messages over MQTT and to the cloud. [`enroll`] is how a node
//! gets its certificate. [`node_job`] has the actions of node jobs, and what nodes report of them. `tunnel` has the frames over which the
//! cloud reaches logs and commands, with `websocket` below them. Strings are converted to enums in this crate, so that the programs can
//! match exhaustively. [`pod_cause`] and [`nearest()`] help people with texts of nodes and with mistyped names.

mod answer;
pub mod application;
mod base64_bytes;
pub mod bus;
#[cfg(feature = "compression")]
pub mod compression;
#[cfg(feature = "containerd")]
pub mod containerd;
#[cfg(feature = "cri")]
pub mod cri;
#[cfg(feature = "kubelet")]
pub mod device_plugin;
#[cfg(feature = "dmi")]
pub mod dmi;
mod down;
pub mod enroll;
mod envelope;
#[cfg(feature = "frame")]
pub mod frame;
pub mod headers;
pub mod instance;
pub mod json;
pub mod kind;
pub mod lane;
pub mod metadata;
pub mod names;
mod nearest;
pub mod node_job;
mod path;
mod pod_causes;
#[cfg(feature = "kubelet")]
pub mod pod_resources;
pub mod relay;
mod route;
pub mod session;
pub mod text;
pub mod topic;
#[cfg(feature = "tunnel")]
pub mod tunnel;
pub mod twin;
mod up;
pub mod version;
#[cfg(feature = "tunnel")]
pub mod volumes;
#[cfg(feature = "tunnel")]
pub mod websocket;

pub use answer::{Answer, Change, ObjectResp};
pub use down::{Down, Downstream};
pub use envelope::{Header, Message, Route};
pub use nearest::{did_you_mean, nearest};
pub use path::{CLUSTER, ObjectRef, ResourcePath};
pub use pod_causes::{PodCause, pod_cause};
pub use route::{Group, Operation, ResourceType, Source};
pub use up::{Up, Upstream};
