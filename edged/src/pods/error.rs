//! Errors of pod syncs.

use crate::{api_message, cgroups, runtime::CallError, volumes};

/// Why a pod sync failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A call to the container runtime failed.
    #[error(transparent)]
    Runtime(#[from] CallError),
    /// The status could not be stored.
    #[error("the pod's status was not stored: {}", api_message(.0))]
    Report(#[source] kube::Error),
    /// The pod could not be deleted from the API.
    #[error("the pod has ended but is still in the API: {}", api_message(.0))]
    Delete(#[source] kube::Error),
    /// A status cannot be serialised.
    #[error("cannot write the pod's status as JSON")]
    Json(#[from] serde_json::Error),
    /// The pod's directories could not be removed.
    #[error(transparent)]
    Volumes(#[from] volumes::Error),
    /// The pod's control group could not be removed.
    #[error(transparent)]
    Group(#[from] cgroups::RemoveError),
    /// The pod's uid, namespace or name is invalid.
    #[error("the pod has no usable uid, namespace or name")]
    Identity,
}
