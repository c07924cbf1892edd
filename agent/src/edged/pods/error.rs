//! Why a sync of a pod fails.

use crate::edged::{api_message, groups, runtime::CallError, volumes};

/// Why a pod could not be brought closer to what is wanted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The runtime failed.
    #[error(transparent)]
    Runtime(#[from] CallError),
    /// The API refused a status.
    #[error("the pod's status was not stored: {}", api_message(.0))]
    Report(#[source] kube::Error),
    /// The API refused the deletion.
    #[error("the pod has ended but is still in the API: {}", api_message(.0))]
    Delete(#[source] kube::Error),
    /// A status cannot be written as JSON.
    #[error("the pod's status cannot be written as JSON")]
    Json(#[from] serde_json::Error),
    /// The pod's directories stay.
    #[error(transparent)]
    Volumes(#[from] volumes::Error),
    /// The pod's control group stays.
    #[error(transparent)]
    Group(#[from] groups::Stays),
    /// The pod has an identity that no pod can have.
    #[error("the pod has no usable uid, namespace or name")]
    Identity,
}
