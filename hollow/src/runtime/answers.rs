//! What a simulated container answers to commands, over HTTP and over gRPC, since it runs no process.

use std::time::Duration;

use serde::Deserialize;

use super::duration::duration_text;

/// The answer to one command line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ExecAnswer {
    pub(super) code: i32,
    pub(super) stdout: String,
    pub(super) stderr: String,
    #[serde(deserialize_with = "duration_text")]
    pub(super) delay: Duration,
}

/// The answer to a request for one path.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct HttpAnswer {
    pub(super) status: u16,
    pub(super) body: String,
    /// How long after the container's start this answer begins to hold; until then the status is 200.
    #[serde(deserialize_with = "duration_text")]
    pub(super) after: Duration,
    /// How long the answer takes.
    #[serde(deserialize_with = "duration_text")]
    pub(super) delay: Duration,
}

impl Default for HttpAnswer {
    fn default() -> Self {
        Self {
            status: 200,
            body: String::new(),
            after: Duration::ZERO,
            delay: Duration::ZERO,
        }
    }
}

/// The health that a gRPC server reports for a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(super) enum Health {
    Unknown,
    Serving,
    NotServing,
    ServiceUnknown,
}
