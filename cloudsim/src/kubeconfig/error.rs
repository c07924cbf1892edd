//! Why a kubeconfig cannot be read or written.

use std::{error::Error, io, path::PathBuf};

/// A kubeconfig cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    /// There is no file to write to.
    #[error("no kubeconfig was named; choose a file with --kubeconfig")]
    NoFile,
    /// The file cannot be read.
    #[error("cannot read kubeconfig {path}; choose a readable file with --kubeconfig")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error(
        "cannot write kubeconfig {path}; choose a file in a writable directory with --kubeconfig"
    )]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file contains something else, which must not be lost.
    #[error(
        "{path} is not a kubeconfig and was not changed ({why}); choose another file with --kubeconfig"
    )]
    NotKubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The file has entries of this name that no cloud wrote; they must not be lost.
    #[error(
        "{path} has a cluster, user or context {context} that cloudsim did not write; choose another name with --context or another file \
         with --kubeconfig, or delete them with `kubectl config delete-context`, `delete-cluster` and `delete-user`"
    )]
    Taken {
        /// The file.
        path: PathBuf,
        /// The name.
        context: String,
    },
    /// Another program writes the file, or was killed while it did.
    #[error(
        "kubeconfig {path} is locked by another program; if none is running, delete {path}.lock"
    )]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// The entries cannot be written as YAML.
    #[error("cannot write the kubeconfig as YAML")]
    Text(#[source] Box<dyn Error + Send + Sync>),
}
