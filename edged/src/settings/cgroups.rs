//! Control groups of pods.
//!
//! Source: <https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/>.

/// Control groups of pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControlGroups {
    /// Whether each pod has a cgroup of its own, below that of its QoS class: `cgroupsPerQOS`.
    pub per_pod: bool,
    /// The path from the root of the hierarchy to the parent of pods' cgroups: `cgroupRoot`.
    pub root: Vec<String>,
    /// The cgroup driver if the runtime does not report one: `cgroupDriver`.
    pub driver: CgroupDriver,
    /// The most pod_pids_limit in a pod: `podPidsLimit`; `None` for no limit.
    pub pod_pids_limit: Option<i64>,
}

/// The cgroup driver, which determines the form of names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CgroupDriver {
    /// The runtime, as directories.
    #[default]
    Cgroupfs,
    /// systemd, as slices and scopes.
    Systemd,
}

impl CgroupDriver {
    /// Returns the name in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cgroupfs => "cgroupfs",
            Self::Systemd => "systemd",
        }
    }
}
