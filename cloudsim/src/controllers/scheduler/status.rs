//! The result of a filter that rejects a node. Pure.

/// Why a node is rejected; kube-scheduler's `Status` of a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Status {
    /// The reasons, as in the pod's condition.
    pub(super) reasons: Vec<String>,
    /// Whether evicting pods would help.
    pub(super) is_resolvable: bool,
}

impl Status {
    /// A rejection that evicting pods would resolve; kube-scheduler's `Unschedulable`.
    pub(super) fn unschedulable(reason: impl Into<String>) -> Self {
        Self {
            reasons: vec![reason.into()],
            is_resolvable: true,
        }
    }

    /// A rejection that evicting pods would not resolve; kube-scheduler's `UnschedulableAndUnresolvable`.
    pub(super) fn unresolvable(reason: impl Into<String>) -> Self {
        Self {
            reasons: vec![reason.into()],
            is_resolvable: false,
        }
    }
}
