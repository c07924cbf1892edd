//! Errors of setting up, mounting and removing volumes.

use std::{
    io,
    path::{Path, PathBuf},
};

use super::claim_error::ClaimError;
use crate::{downward, references::ReferenceError};

/// Why a volume or mount cannot be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A ConfigMap, Secret or key is missing.
    #[error(transparent)]
    ReferenceError(#[from] ReferenceError),
    /// A field or resource of the downward API cannot be read.
    #[error(transparent)]
    Downward(#[from] downward::Error),
    /// A service account token is not available.
    #[error("cannot get a token of service account {0:?}: {1}")]
    Token(String, String),
    /// A field or type of volume that this agent refuses.
    #[error("{0}")]
    Refused(String),
    /// An unknown type of volume.
    #[error(
        "its type is not supported on this node: use emptyDir, hostPath, persistentVolumeClaim, configMap, secret, \
         downwardAPI or projected"
    )]
    Unsupported,
    /// A claim has no usable volume.
    #[error("error processing PVC {claim}")]
    Claim {
        /// Namespace and name.
        claim: String,
        /// The reason.
        source: ClaimError,
    },
    /// Directories are nested too deeply.
    #[error(
        "{0} is too deep below its volume to be assigned to the pod's fsGroup; remove fsGroup, or reduce the depth"
    )]
    TooDeep(PathBuf),
    /// A name or path leads out of the volume.
    #[error("path {0:?} is outside of the volume")]
    PathEscape(String),
    /// Two files have the same path.
    #[error("path {0:?} is used twice")]
    DuplicatePath(String),
    /// A host path does not have the type that the pod requires.
    #[error("hostPath type check failed: {0} is not a {1}")]
    HostPathType(PathBuf, String),
    /// A `subPathExpr` refers to an undefined variable.
    #[error("subPathExpr {0:?} has a variable that is not in the container's env")]
    Variable(String),
    /// A mount names a volume that the pod does not have.
    #[error("volume {0:?} is not in the pod's volumes")]
    NoVolume(String),
    /// A mount in a pod's directory cannot be unmounted.
    #[error(
        "cannot unmount {path} in the directory of a deleted pod; unmount it, or run the agent with CAP_SYS_ADMIN"
    )]
    Mounted {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// An operation on the disk failed.
    #[error("cannot use a file of the pod; check free disk space and the agent's write permission")]
    Io(#[from] io::Error),
}

impl Error {
    /// Returns the error for a path that leads out of the volume, shortened.
    pub(super) fn path_escape(path: &str) -> Self {
        Self::PathEscape(format!("{path:.256}"))
    }

    /// Returns the error of a system call on an open file, whose path is `path`; errors of `fs_err` name theirs themselves.
    pub(super) fn at<E: Into<io::Error>>(path: &Path) -> impl Fn(E) -> Self {
        move |error| {
            let error = error.into();
            Self::Io(io::Error::new(
                error.kind(),
                format!("{}: {error}", path.display()),
            ))
        }
    }
}
