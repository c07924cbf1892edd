//! What a filter says of a node that does not do. Pure.

/// Why a node does not do; kube-scheduler's `Status` of a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Status {
    /// In words, as they stand in the condition of the pod.
    pub(super) reasons: Vec<String>,
    /// Whether the node would do if pods went away from it.
    pub(super) is_resolvable: bool,
}

impl Status {
    /// The node would do if pods went away from it; kube-scheduler's `Unschedulable`.
    pub(super) fn unschedulable(reason: impl Into<String>) -> Self {
        Self { reasons: vec![reason.into()], is_resolvable: true }
    }

    /// No pod that goes away would help; kube-scheduler's `UnschedulableAndUnresolvable`.
    pub(super) fn unresolvable(reason: impl Into<String>) -> Self {
        Self { reasons: vec![reason.into()], is_resolvable: false }
    }
}
