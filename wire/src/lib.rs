//! The KubeEdge protocol, pure: no IO, no clock, no tokio.
//!
//! A [`Message`] is an envelope; [`Down`] and [`Up`] are the two vocabularies in it; [`json`] is the WebSocket codec; [`enroll`]
//! is how a node gets its certificate. Strings die at this border: inside the programs there is an exhaustive `match`.

mod answer;
mod down;
#[cfg(feature = "cri")]
pub mod cri;
pub mod enroll;
mod envelope;
pub mod json;
pub mod lane;
mod path;
mod route;
mod up;

pub use answer::{Answer, Change, ObjectResp};
pub use down::{Down, Downstream};
pub use envelope::{Header, Message, Route};
pub use path::{CLUSTER, ObjectRef, ResourcePath};
pub use route::{Group, Operation, ResourceType, Source};
pub use up::{Up, Upstream};
