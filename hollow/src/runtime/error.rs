//! Why a simulated runtime could not start or serve.

use std::path::PathBuf;

/// Why the runtime could not start or serve.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The recorded state cannot be read.
    #[error(
        "cannot read the runtime's state at {path}: make it readable, or choose another directory"
    )]
    Load {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// The given records are no records of a runtime.
    #[error("the records of the runtime are invalid")]
    Records(#[source] serde_json::Error),
    /// The socket cannot be created.
    #[error(
        "cannot listen on {path}; check that its directory is writable and that no other runtime uses it"
    )]
    Bind {
        /// The socket.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// The server failed.
    #[error("the runtime's server on {path} failed")]
    Serve {
        /// The socket.
        path: PathBuf,
        /// The reason.
        #[source]
        source: tonic::transport::Error,
    },
}
