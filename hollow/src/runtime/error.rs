//! Why a simulated runtime could not start, or not serve.

use std::path::PathBuf;

/// Why the runtime could not start, or not serve.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The recorded state cannot be read.
    #[error("cannot read the runtime's state at {path}: make it readable, or choose another directory")]
    Load {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The recorded state is not what this version writes.
    #[error("{path} is not a record of the simulated runtime: remove it, or choose another directory")]
    Record {
        /// The file.
        path: PathBuf,
        /// Where it is wrong.
        #[source]
        source: serde_json::Error,
    },
    /// The socket cannot be made.
    #[error("cannot listen on {path}: is its directory writable, and no other runtime on it?")]
    Bind {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The server gave up.
    #[error("the runtime's server on {path} failed")]
    Serve {
        /// The socket.
        path: PathBuf,
        /// What it died of.
        #[source]
        source: tonic::transport::Error,
    },
}
