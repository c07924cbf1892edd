//! The KubeEdge protocol between an edge node and its cloud, pure: no IO, no clock, no async runtime.
//!
//! A [`Message`] is an envelope; [`Down`] and [`Up`] are the two vocabularies in it, and a message that is in neither is a value
//! too, so nothing is lost; [`bus`] is what the messages of rules hold, [`headers`] what of HTTP is handed on in them; [`json`] is the WebSocket codec, `frame` that of QUIC, `compression` what two ends of ours do with the first; [`lane`] tells what is acknowledged; [`topic`] and
//! [`twin`] are what devices say over MQTT and to the cloud; [`enroll`] is how a node gets its certificate; `tunnel` are the
//! frames over which the cloud reaches logs and commands, with the `websocket` below them. Strings die at this border: inside the programs there is an exhaustive `match`.

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
pub mod lane;
mod path;
pub mod relay;
mod route;
pub mod text;
pub mod topic;
#[cfg(feature = "tunnel")]
pub mod tunnel;
pub mod twin;
mod up;
#[cfg(feature = "tunnel")]
pub mod websocket;

pub use answer::{Answer, Change, ObjectResp};
pub use down::{Down, Downstream};
pub use envelope::{Header, Message, Route};
pub use path::{CLUSTER, ObjectRef, ResourcePath};
pub use route::{Group, Operation, ResourceType, Source};
pub use up::{Up, Upstream};
