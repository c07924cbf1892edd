//! Names of pods' control groups, in the form of the runtime's cgroup driver. Pure.
//!
//! Source: <https://kubernetes.io/docs/concepts/architecture/cgroups/> and
//! <https://www.freedesktop.org/software/systemd/man/latest/systemd.slice.html>.

use std::path::PathBuf;

use crate::settings::CgroupDriver;

/// The group of all pods.
const KUBEPODS: &str = "kubepods";

/// Length of ids of containers and sandboxes: SHA-256 in hexadecimal.
const ID_LEN: usize = 64;
/// Name of CRI-O's groups of processes that monitor containers.
const CONMON: &str = "conmon";

/// Returns the id of the container or sandbox whose group has this name: `<id>`, `cri-containerd-<id>.scope`, `crio-<id>.scope`.
pub(super) fn container_id(group: &str) -> Option<&str> {
    let mut parts = group.split(|c: char| !c.is_ascii_hexdigit());
    parts
        .find(|part| part.len() == ID_LEN)
        .filter(|_| !group.contains(CONMON))
}

/// A pod's quality of service class. Each has a group of its own, except `Guaranteed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QosClass {
    /// Directly in the group of all pods.
    Guaranteed,
    /// In the group `burstable`.
    Burstable,
    /// `besteffort`.
    BestEffort,
}

impl QosClass {
    /// All classes.
    pub(crate) const ALL: [Self; 3] = [Self::Guaranteed, Self::Burstable, Self::BestEffort];

    /// Parses the name of the class in a pod's status.
    pub(super) fn of(name: &str) -> Self {
        match name {
            "Guaranteed" => Self::Guaranteed,
            "Burstable" => Self::Burstable,
            _ => Self::BestEffort,
        }
    }

    fn component(self) -> Option<&'static str> {
        match self {
            Self::Guaranteed => None,
            Self::Burstable => Some("burstable"),
            Self::BestEffort => Some("besteffort"),
        }
    }
}

/// Builds the paths of groups.
#[derive(Clone, Debug)]
pub(super) struct Naming {
    /// Names of the groups from the root of the hierarchy to the group that contains all of this agent's.
    pub(super) root: Vec<String>,
    /// The cgroup driver.
    pub(super) driver: CgroupDriver,
}

impl Naming {
    /// Returns the path of the group that contains all of this agent's.
    pub(super) fn root(&self) -> PathBuf {
        self.path(std::iter::empty())
    }

    /// Returns the path of the group of a class, relative to the root of a hierarchy.
    pub(super) fn class(&self, class: QosClass) -> PathBuf {
        self.path([Some(KUBEPODS), class.component()].into_iter().flatten())
    }

    /// Returns the path of a pod's group.
    pub(super) fn pod(&self, class: QosClass, uid: &str) -> PathBuf {
        let own = format!("pod{uid}");
        self.path(
            [Some(KUBEPODS), class.component(), Some(own.as_str())]
                .into_iter()
                .flatten(),
        )
    }

    fn path<'a>(&'a self, below: impl Iterator<Item = &'a str>) -> PathBuf {
        let names = self.root.iter().map(String::as_str).chain(below);
        match self.driver {
            CgroupDriver::Cgroupfs => names.collect(),
            // A slice's name starts with those of its parents, separated by dashes, so names themselves have none.
            CgroupDriver::Systemd => {
                let mut whole = String::new();
                let slices = names.map(|name| {
                    if !whole.is_empty() {
                        whole.push('-');
                    }
                    whole.push_str(&name.replace('-', "_"));
                    format!("{whole}.slice")
                });
                slices.collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn container_ids_are_found_in_group_names() {
        let own = "0123456789abcdef".repeat(4);
        for name in [
            own.clone(),
            format!("cri-containerd-{own}.scope"),
            format!("crio-{own}.scope"),
        ] {
            assert_eq!(container_id(&name), Some(own.as_str()));
        }
        for name in [
            format!("crio-conmon-{own}.scope"),
            format!("{own}0"),
            own[1..].to_owned(),
            "nested".into(),
        ] {
            assert_eq!(container_id(&name), None, "{name}");
        }
    }

    #[test]
    fn group_paths_are_the_kubelets() {
        let uid = "6f1b0f8e-7d1c";
        for (driver, root, class, path) in [
            (
                CgroupDriver::Cgroupfs,
                "",
                QosClass::Guaranteed,
                "kubepods/pod6f1b0f8e-7d1c",
            ),
            (
                CgroupDriver::Cgroupfs,
                "",
                QosClass::Burstable,
                "kubepods/burstable/pod6f1b0f8e-7d1c",
            ),
            (
                CgroupDriver::Cgroupfs,
                "edge",
                QosClass::BestEffort,
                "edge/kubepods/besteffort/pod6f1b0f8e-7d1c",
            ),
            (
                CgroupDriver::Systemd,
                "",
                QosClass::Guaranteed,
                "kubepods.slice/kubepods-pod6f1b0f8e_7d1c.slice",
            ),
            (
                CgroupDriver::Systemd,
                "my-edge",
                QosClass::Burstable,
                "my_edge.slice/my_edge-kubepods.slice/my_edge-kubepods-burstable.slice/my_edge-kubepods-burstable-pod6f1b0f8e_7d1c.slice",
            ),
        ] {
            let root = root
                .split('/')
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect();
            let naming = Naming { root, driver };
            assert_eq!(naming.pod(class, uid), PathBuf::from(path));
            assert_eq!(
                naming.pod(class, uid).parent(),
                Some(naming.class(class).as_path())
            );
            assert!(naming.class(class).starts_with(naming.root()));
        }
    }
}
