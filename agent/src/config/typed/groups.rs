//! Control groups of pods.
//!
//! Source: <https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/>.

/// Control groups of pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControlGroups {
    /// Whether each pod has a group of its own, below that of its class, `cgroupsPerQOS`.
    pub per_pod: bool,
    /// Names from the root of the hierarchy to the group that holds those of pods, `cgroupRoot`.
    pub root: Vec<String>,
    /// Who makes groups where the runtime does not tell, `cgroupDriver`.
    pub driver: CgroupDriver,
    /// Most processes in a pod, `podPidsLimit`; `None` for no limit.
    pub processes: Option<i64>,
}

/// Who makes control groups, and so how their names look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CgroupDriver {
    /// The runtime, as directories.
    #[default]
    Cgroupfs,
    /// systemd, as slices and scopes.
    Systemd,
}
