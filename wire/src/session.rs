//! How a node opens its session with the cloud: a WebSocket at `/<project>/<node>/events`, with the headers below and the node's
//! certificate.
//!
//! Source: KubeEdge's `viaduct` and `EdgeHub`.

use std::time::Duration;

/// The header with the node's name.
pub const NODE_HEADER: &str = "node_id";
/// The header with the project's id. It has no meaning.
pub const PROJECT_HEADER: &str = "project_id";
/// The header with the use of the connection.
pub const USE_HEADER: &str = "connectionuse";
/// The value of [`USE_HEADER`] for messages. With any other, `CloudCore` reads nothing.
pub const USE_MESSAGES: &str = "msg";
/// The first segment of the path, if none is configured.
pub const PROJECT: &str = "e632aba927ea4ac2b575ec1603d56f10";
/// The message of a node's condition Ready after its machine was reset.
pub const RESET_MESSAGE: &str = "this machine was reset (edge-agent reset)";
/// The time between two keepalives, if none is configured.
pub const HEARTBEAT: Duration = Duration::from_secs(15);
/// The time without a keepalive after which the cloud ends a session, if none is configured.
pub const EXPIRY: Duration = Duration::from_secs(30);
