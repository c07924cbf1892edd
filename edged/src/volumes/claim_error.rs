//! Errors of persistent volume claims.

/// Why a claim has no usable volume.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ClaimError {
    /// The claim does not exist.
    #[error("failed to fetch PVC from API server: persistentvolumeclaims {0:?} not found")]
    Missing(String),
    /// The claim or its volume may exist, but cannot be fetched now.
    #[error("{0:?} is not on this node and cannot be fetched now: {1}")]
    Unavailable(String, String),
    /// The claim is being deleted.
    #[error("PVC is being deleted")]
    Deleted,
    /// The claim is not bound to a volume yet.
    #[error(
        "PVC is not bound: it waits for a PersistentVolume of its storage class with enough capacity and the access modes"
    )]
    Unbound,
    /// The claim's volume does not exist.
    #[error("failed to fetch PV {0:?} from API server: persistentvolumes {0:?} not found")]
    VolumeMissing(String),
    /// The volume is bound to another claim.
    #[error("PV {0:?} is bound to another claim")]
    BoundToOther(String),
    /// The volume is a raw block device.
    #[error(
        "PV {0:?} has volumeMode Block, which is not supported on this node: use volumeMode Filesystem"
    )]
    Block(String),
    /// The volume is of a kind that this node cannot mount.
    #[error("PV {0:?} is of a kind that is not supported on this node: use local or hostPath")]
    UnsupportedKind(String),
    /// The volume's node affinity excludes this node.
    #[error("MountVolume.NodeAffinity check failed for PV {0:?}: no matching NodeSelectorTerms")]
    NodeAffinity(String),
}
