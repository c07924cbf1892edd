//! Why a claim gives no volume.

/// Why a claim gives no volume.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ClaimError {
    /// No such claim.
    #[error("failed to fetch PVC from API server: persistentvolumeclaims {0:?} not found")]
    Missing(String),
    /// Claim or volume may exist, nobody knows now.
    #[error("{0:?} is not on this node and cannot be fetched now: {1}")]
    Unavailable(String, String),
    /// The claim is on its way out.
    #[error("PVC is being deleted")]
    Deleted,
    /// It has no volume yet.
    #[error(
        "PVC is not bound: it waits for a PersistentVolume of its storage class, with room and access modes enough"
    )]
    Unbound,
    /// The claim's volume is not there.
    #[error("failed to fetch PV {0:?} from API server: persistentvolumes {0:?} not found")]
    Gone(String),
    /// The volume is another claim's.
    #[error("PV {0:?} is bound to another claim")]
    Others(String),
    /// A raw device.
    #[error("PV {0:?} has volumeMode Block, which is not supported on this node: use volumeMode Filesystem")]
    Block(String),
    /// Something that this node cannot mount.
    #[error("PV {0:?} is of a kind that is not supported on this node: use local or hostPath")]
    Kind(String),
    /// The volume is elsewhere.
    #[error("MountVolume.NodeAffinity check failed for PV {0:?}: no matching NodeSelectorTerms")]
    Elsewhere(String),
}
