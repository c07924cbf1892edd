//! Where a pod's control group is, in the form that the runtime's driver of control groups wants. Pure.
//!
//! Source: <https://kubernetes.io/docs/concepts/architecture/cgroups/> and
//! <https://www.freedesktop.org/software/systemd/man/latest/systemd.slice.html>.

use std::path::PathBuf;

use crate::config::CgroupDriver;

/// All pods are below this.
const PODS: &str = "kubepods";

/// How long the ids of containers and sandboxes are: in hexadecimal, what SHA-256 gives.
const ID: usize = 64;
/// What CRI-O calls the groups of the processes that watch over containers.
const WATCHER: &str = "conmon";

/// The id of the container or sandbox whose group has this name: `<id>`, `cri-containerd-<id>.scope`, `crio-<id>.scope`.
pub(super) fn id(group: &str) -> Option<&str> {
    let mut parts = group.split(|c: char| !c.is_ascii_hexdigit());
    parts.find(|part| part.len() == ID).filter(|_| !group.contains(WATCHER))
}

/// How much is promised to a pod: each class has a group of its own, but the one to which all is promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Directly below all pods.
    Guaranteed,
    /// `burstable`.
    Burstable,
    /// `besteffort`.
    BestEffort,
}

impl Class {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Guaranteed, Self::Burstable, Self::BestEffort];

    /// By its name in a pod's status.
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

/// Where groups begin, and how their names are made.
#[derive(Clone, Debug)]
pub(super) struct Naming {
    /// Names from the root of the hierarchy to the group that holds all of this agent's.
    pub(super) root: Vec<String>,
    /// Who makes them.
    pub(super) driver: CgroupDriver,
}

impl Naming {
    /// The group that holds all of this agent's; in the same form as those of pods.
    pub(super) fn root(&self) -> PathBuf {
        self.path(std::iter::empty())
    }

    /// The group of all pods of a class; below the root of a hierarchy, with no slash at its begin.
    pub(super) fn class(&self, class: Class) -> PathBuf {
        self.path([Some(PODS), class.component()].into_iter().flatten())
    }

    /// The pod's own group, in the same form.
    pub(super) fn pod(&self, class: Class, uid: &str) -> PathBuf {
        let own = format!("pod{uid}");
        self.path([Some(PODS), class.component(), Some(own.as_str())].into_iter().flatten())
    }

    fn path<'a>(&'a self, below: impl Iterator<Item = &'a str>) -> PathBuf {
        let names = self.root.iter().map(String::as_str).chain(below);
        match self.driver {
            CgroupDriver::Cgroupfs => names.collect(),
            // A slice's name has those of all above it, with dashes between them and so with none inside.
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
    fn groups_of_containers_have_their_ids() {
        let own = "0123456789abcdef".repeat(4);
        for name in [own.clone(), format!("cri-containerd-{own}.scope"), format!("crio-{own}.scope")] {
            assert_eq!(id(&name), Some(own.as_str()));
        }
        for name in
            [format!("crio-conmon-{own}.scope"), format!("{own}0"), own[1..].to_owned(), "nested".into()]
        {
            assert_eq!(id(&name), None, "{name}");
        }
    }

    #[test]
    fn groups_are_where_the_kubelet_has_them() {
        let uid = "6f1b0f8e-7d1c";
        for (driver, root, class, path) in [
            (CgroupDriver::Cgroupfs, "", Class::Guaranteed, "kubepods/pod6f1b0f8e-7d1c"),
            (CgroupDriver::Cgroupfs, "", Class::Burstable, "kubepods/burstable/pod6f1b0f8e-7d1c"),
            (CgroupDriver::Cgroupfs, "edge", Class::BestEffort, "edge/kubepods/besteffort/pod6f1b0f8e-7d1c"),
            (CgroupDriver::Systemd, "", Class::Guaranteed, "kubepods.slice/kubepods-pod6f1b0f8e_7d1c.slice"),
            (
                CgroupDriver::Systemd,
                "my-edge",
                Class::Burstable,
                "my_edge.slice/my_edge-kubepods.slice/my_edge-kubepods-burstable.slice/my_edge-kubepods-burstable-pod6f1b0f8e_7d1c.slice",
            ),
        ] {
            let root = root.split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect();
            let naming = Naming { root, driver };
            assert_eq!(naming.pod(class, uid), PathBuf::from(path));
            assert_eq!(naming.pod(class, uid).parent(), Some(naming.class(class).as_path()));
            assert!(naming.class(class).starts_with(naming.root()));
        }
    }
}
