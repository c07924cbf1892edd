//! Why a volume cannot be set up, mounted or removed.

use std::{io, path::PathBuf};

use super::claim_error::ClaimError;
use crate::edged::{downward, references::Unmet};

/// Why a volume or mount cannot be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A ConfigMap, Secret or key is not there.
    #[error(transparent)]
    Unmet(#[from] Unmet),
    /// A reference of the downward API leads nowhere.
    #[error(transparent)]
    Downward(#[from] downward::Error),
    /// A token is needed and cannot be had.
    #[error("no token of service account {0:?}: {1}")]
    Token(String, String),
    /// A kind of volume, or a part of one, that this agent does not have.
    #[error("{0}")]
    Refused(String),
    /// A volume of a kind that did not exist when this was written.
    #[error(
        "its type is not supported on this node: use emptyDir, hostPath, persistentVolumeClaim, configMap, secret, \
         downwardAPI or projected"
    )]
    Unsupported,
    /// A claim gives no volume.
    #[error("error processing PVC {claim}")]
    Claim {
        /// Namespace and name.
        claim: String,
        /// Why.
        source: ClaimError,
    },
    /// Directories in directories in directories.
    #[error(
        "{0} is too deep below its volume to be given to the pod's fsGroup; take fsGroup out, or tidy up"
    )]
    Deep(PathBuf),
    /// A name or path that would lead out of the volume.
    #[error("path {0:?} leads out of the volume")]
    Escape(String),
    /// Two files of one name.
    #[error("path {0:?} would be written twice")]
    Twice(String),
    /// What is on the node is not what the pod asks for.
    #[error("hostPath type check failed: {0} is not a {1}")]
    HostPath(PathBuf, String),
    /// A variable in a subPathExpr that is not there.
    #[error("subPathExpr {0:?} has a variable that is not in the container's env")]
    Variable(String),
    /// A mount of a volume that is not there.
    #[error("volume {0:?} is not in the pod's volumes")]
    NoVolume(String),
    /// What is mounted in a pod's directory is not the pod's.
    #[error(
        "{path} is mounted in the directory of a pod that is gone, and cannot be unmounted; unmount it, or run the agent \
         with the right to (CAP_SYS_ADMIN)"
    )]
    Mounted {
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The disk refused.
    #[error("cannot use {path}; check that the disk has room and the agent may write there")]
    Io {
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl Error {
    pub(super) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}
