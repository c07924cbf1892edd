//! The error of messages that were not sent, or not answered.

use std::time::Duration;

/// Why a message was not sent or answered. Nothing is lost by it: state stays in the store and is reported when the link is
/// back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreachable {
    /// There is no connection, or it broke before the answer came.
    #[error("the cloud is not connected")]
    Offline,
    /// A newer report of the same object replaced the message before it was sent.
    #[error("replaced by a newer report of the same object")]
    Superseded,
    /// There was no answer in time.
    #[error("the cloud did not answer within {0:?}")]
    Timeout(Duration),
}
