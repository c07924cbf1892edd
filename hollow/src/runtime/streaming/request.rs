//! The requests that URLs of the streaming server stand for.

use wire::cri::{AttachRequest, ExecRequest, PortForwardRequest};

/// A request that was made over CRI and is served at a URL.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StreamRequest {
    Exec(ExecRequest),
    Attach(AttachRequest),
    PortForward(PortForwardRequest),
}

impl StreamRequest {
    /// Returns the first part of its URL's path.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Exec(_) => "exec",
            Self::Attach(_) => "attach",
            Self::PortForward(_) => "portforward",
        }
    }
}
