//! Names and places: the labels and annotations on containers, and the directories of pods, as every Kubernetes tool
//! expects them. They are how an agent that restarts recognises what is its own.

use std::path::{Path, PathBuf};

use crate::component::is_component;

/// Label: the pod's name.
pub(crate) const POD_NAME: &str = "io.kubernetes.pod.name";
/// Label: the pod's namespace.
pub(crate) const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
/// Label: the pod's uid, the one identity that counts.
pub(crate) const POD_UID: &str = "io.kubernetes.pod.uid";
/// Label: the container's name in the pod.
pub(crate) const CONTAINER_NAME: &str = "io.kubernetes.container.name";
/// Annotation: what the container was made from, in the kubelet's form, see [`crate::edged::convert::kubelet_hash`].
pub(crate) const HASH: &str = "io.kubernetes.container.hash";
/// Annotation: how often the container was restarted before.
pub(crate) const RESTART_COUNT: &str = "io.kubernetes.container.restartCount";
/// Annotation: the container's ports as JSON, as the kubelet has it.
pub(crate) const PORTS: &str = "io.kubernetes.container.ports";
/// Annotation: seconds that the container may take to end.
pub(crate) const GRACE: &str = "io.kubernetes.pod.terminationGracePeriod";
/// Annotation: where in the container its last words are written.
pub(crate) const TERMINATION_PATH: &str = "io.kubernetes.container.terminationMessagePath";
/// Annotation: where else they may be taken from.
pub(crate) const TERMINATION_POLICY: &str = "io.kubernetes.container.terminationMessagePolicy";
/// Annotation: how many restarts in a row led to this container, from which the crash-loop back-off follows. Kept with the
/// container because an agent that restarts must neither forget the back-off nor make one up.
pub(crate) const RESTART_STEP: &str = "outrigger.kubeedge.io/restart-step";
/// Annotation: what the container was made from, see [`crate::edged::convert::hash`]. Containers of the first versions of this agent
/// have it under [`HASH`].
pub(crate) const MADE_FROM: &str = "outrigger.kubeedge.io/container-hash";

/// Annotation: `init` for an init container and `sidecar` for one that runs on; others have none. Runtimes that simulate must know
/// whether a container is there to end.
pub(crate) const CONTAINER_KIND: &str = "outrigger.kubeedge.io/container-kind";

/// Annotation: the boot of the machine in which the container was made. What ended with the machine has not failed by itself.
pub(crate) const BOOT: &str = "outrigger.kubeedge.io/boot-id";

/// Where pods live on disk.
#[derive(Clone, Debug)]
pub(crate) struct Dirs {
    /// kubelet's root, `/var/lib/kubelet`.
    pub(crate) root: PathBuf,
    /// `/var/log/pods`.
    pub(crate) logs: PathBuf,
    /// Whether volumes of Secrets, tokens and the downward API are in memory, as with a kubelet, or on disk.
    pub(crate) secrets_in_memory: bool,
}

impl Dirs {
    /// All pods' directories.
    pub(crate) fn pods(&self) -> PathBuf {
        self.root.join("pods")
    }

    /// One pod's directory. `uid` must be [`is_component`].
    pub(crate) fn pod(&self, uid: &str) -> PathBuf {
        self.pods().join(uid)
    }

    /// All of one pod's volumes. `uid` must be [`is_component`].
    pub(crate) fn volumes(&self, uid: &str) -> PathBuf {
        self.pod(uid).join("volumes")
    }

    /// One volume's directory, in kubelet's layout.
    pub(crate) fn volume(&self, uid: &str, plugin: &str, name: &str) -> PathBuf {
        self.volumes(uid).join(format!("kubernetes.io~{plugin}")).join(name)
    }

    /// The pod's own `/etc/hosts`.
    pub(crate) fn etc_hosts(&self, uid: &str) -> PathBuf {
        self.pod(uid).join("etc-hosts")
    }

    /// Where a container's last words are; `name` must be [`is_component`].
    pub(crate) fn termination_message(&self, uid: &str, name: &str, attempt: u32) -> PathBuf {
        self.pod(uid).join("containers").join(name).join(attempt.to_string())
    }

    /// Where seccomp profiles of type `Localhost` are, as the node's administrator has put them there.
    pub(crate) fn seccomp(&self) -> PathBuf {
        self.root.join("seccomp")
    }

    /// The links that containers are given for parts of volumes.
    pub(crate) fn sub_paths(&self, uid: &str) -> PathBuf {
        self.pod(uid).join("volume-subpaths")
    }

    /// Where each log has a link, by which collectors of logs find it.
    pub(crate) fn log_links(&self) -> PathBuf {
        self.logs.with_file_name("containers")
    }

    /// Where the pod's containers log to.
    pub(crate) fn pod_logs(&self, namespace: &str, name: &str, uid: &str) -> PathBuf {
        self.logs.join(format!("{namespace}_{name}_{uid}"))
    }
}

/// Namespace, name and uid of the pod whose logs are in a directory of this name; see [`Dirs::pod_logs`]. Other programs may keep
/// other things there.
pub(crate) fn pod_of_logs(directory: &str) -> Option<(&str, &str, &str)> {
    let mut parts = directory.split('_');
    let (namespace, name, uid) = (parts.next()?, parts.next()?, parts.next()?);
    // the identity of a static pod is a hash
    let is_uid = matches!(uid.len(), 32 | 36) && is_component(uid);
    (parts.next().is_none() && is_uid).then_some((namespace, name, uid))
}

/// Whether `path` is relative and stays below where it starts, as text.
pub(crate) fn is_below(path: &Path) -> bool {
    use std::path::Component;
    !path.as_os_str().is_empty()
        && path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_log_directories_of_pods_are_recognised() {
        let uid = "6f1b0f8e-7d1c-4f43-9f0e-2f6a3f1e8f11";
        let hash = "0123456789abcdef0123456789abcdef";
        for uid in [uid, hash] {
            assert_eq!(pod_of_logs(&format!("shop_web-0_{uid}")), Some(("shop", "web-0", uid)));
        }
        for other in ["syslog", "a_b_c", &format!("a_b_c_{uid}"), &format!("web_{uid}")] {
            assert_eq!(pod_of_logs(other), None, "{other}");
        }
    }

    #[test]
    fn a_path_below_has_no_way_up() {
        assert!(is_below(Path::new("a/b/./c")));
        for bad in ["", "/a", "../a", "a/../../b"] {
            assert!(!is_below(Path::new(bad)), "{bad}");
        }
    }
}
