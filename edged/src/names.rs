//! Labels and annotations of containers and sandboxes, and the directories of pods, in the kubelet's form. By them an agent that
//! restarts recognises its own containers.

use std::path::{Path, PathBuf};

use wire::names::is_path_component;

/// Label: the pod's name.
pub(crate) const POD_NAME: &str = "io.kubernetes.pod.name";
/// Label: the pod's namespace.
pub(crate) const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
/// Label: the pod's uid, which identifies it.
pub(crate) const POD_UID: &str = "io.kubernetes.pod.uid";
/// Label: the container's name in the pod.
pub(crate) const CONTAINER_NAME: &str = "io.kubernetes.container.name";
/// Annotation: the kubelet's hash of what the container was made from, see [`crate::convert::kubelet_hash`].
pub(crate) const KUBELET_HASH: &str = "io.kubernetes.container.hash";
/// Annotation: how often the container was restarted before.
pub(crate) const RESTART_COUNT: &str = "io.kubernetes.container.restartCount";
/// Annotation: the container's ports as JSON, as the kubelet has it.
pub(crate) const PORTS: &str = "io.kubernetes.container.ports";
/// Annotation: the pod's termination grace period in seconds.
pub(crate) const TERMINATION_GRACE_PERIOD: &str = "io.kubernetes.pod.terminationGracePeriod";
/// Annotation: path in the container to which its termination message is written.
pub(crate) const TERMINATION_MESSAGE_PATH: &str = "io.kubernetes.container.terminationMessagePath";
/// Annotation: whether the message may be taken from the log, `terminationMessagePolicy`.
pub(crate) const TERMINATION_MESSAGE_POLICY: &str =
    "io.kubernetes.container.terminationMessagePolicy";
/// Annotation: how many restarts in a row led to this container, from which the crash-loop back-off follows. Stored with the
/// container so that an agent that restarts knows the back-off.
pub(crate) const RESTART_STEP: &str = "outrigger.kubeedge.io/restart-step";
/// Annotation: this agent's hash of what the container was made from, see [`crate::convert::container_hash`]. Containers
/// of the first versions of this agent have it under [`KUBELET_HASH`].
pub(crate) const CONTAINER_HASH: &str = "outrigger.kubeedge.io/container-hash";

/// Annotation: `init` for an init container, `sidecar` for a sidecar; other containers have none. Simulated runtimes need to know
/// whether a container is meant to end.
pub(crate) const CONTAINER_KIND: &str = "outrigger.kubeedge.io/container-kind";

/// Annotation: id of the machine's boot in which the container was created. A container that ended because the machine did has
/// not failed.
pub(crate) const BOOT_ID: &str = "outrigger.kubeedge.io/boot-id";

/// The directories of pods.
#[derive(Clone, Debug)]
pub(crate) struct Dirs {
    /// The kubelet's root, `/var/lib/kubelet`.
    pub(crate) root: PathBuf,
    /// The directory of pods' logs, `/var/log/pods`.
    pub(crate) logs: PathBuf,
    /// Whether volumes of Secrets, tokens and the downward API are in memory, as with the kubelet, or on disk.
    pub(crate) secrets_in_memory: bool,
}

impl Dirs {
    /// Returns the directory of all pods.
    pub(crate) fn pods(&self) -> PathBuf {
        self.root.join("pods")
    }

    /// Returns the directory of a pod. `uid` must be [`is_path_component`].
    pub(crate) fn pod(&self, uid: &str) -> PathBuf {
        self.pods().join(uid)
    }

    /// Returns the directory of a pod's volumes. `uid` must be [`is_path_component`].
    pub(crate) fn volumes(&self, uid: &str) -> PathBuf {
        self.pod(uid).join("volumes")
    }

    /// Returns the directory of a volume, in the kubelet's layout.
    pub(crate) fn volume(&self, uid: &str, plugin: &str, name: &str) -> PathBuf {
        self.volumes(uid)
            .join(format!("kubernetes.io~{plugin}"))
            .join(name)
    }

    /// Returns the path of the pod's `/etc/hosts`.
    pub(crate) fn etc_hosts(&self, uid: &str) -> PathBuf {
        self.pod(uid).join("etc-hosts")
    }

    /// Returns the path of a container's termination message. `name` must be [`is_path_component`].
    pub(crate) fn termination_message(&self, uid: &str, name: &str, attempt: u32) -> PathBuf {
        self.pod(uid)
            .join("containers")
            .join(name)
            .join(attempt.to_string())
    }

    /// Returns the directory of seccomp profiles of type `Localhost`, which the node's administrator provides.
    pub(crate) fn seccomp(&self) -> PathBuf {
        self.root.join("seccomp")
    }

    /// Returns the directory of links to the sub-paths of volumes that containers mount.
    pub(crate) fn sub_paths(&self, uid: &str) -> PathBuf {
        self.pod(uid).join("volume-subpaths")
    }

    /// Returns the directory of links to logs, `/var/log/containers`.
    pub(crate) fn log_links(&self) -> PathBuf {
        self.logs.with_file_name("containers")
    }

    /// Returns the directory of the logs of a pod's containers.
    pub(crate) fn pod_logs(&self, namespace: &str, name: &str, uid: &str) -> PathBuf {
        self.logs.join(format!("{namespace}_{name}_{uid}"))
    }
}

/// Returns namespace, name and uid of the pod whose logs are in a directory of this name, see [`Dirs::pod_logs`]. Directories of
/// other programs yield `None`.
pub(crate) fn pod_of_logs(directory: &str) -> Option<(&str, &str, &str)> {
    let mut parts = directory.split('_');
    let (namespace, name, uid) = (parts.next()?, parts.next()?, parts.next()?);
    // the uid of a static pod is a hash of 32 digits
    let is_uid = matches!(uid.len(), 32 | 36) && is_path_component(uid);
    (parts.next().is_none() && is_uid).then_some((namespace, name, uid))
}

/// Reports whether `path` is relative and contains no `..`.
pub(crate) fn is_below(path: &Path) -> bool {
    use std::path::Component;
    !path.as_os_str().is_empty()
        && path
            .components()
            .all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_log_directories_of_pods_are_recognised() {
        let uid = "6f1b0f8e-7d1c-4f43-9f0e-2f6a3f1e8f11";
        let hash = "0123456789abcdef0123456789abcdef";
        for uid in [uid, hash] {
            assert_eq!(
                pod_of_logs(&format!("shop_web-0_{uid}")),
                Some(("shop", "web-0", uid))
            );
        }
        for other in [
            "syslog",
            "a_b_c",
            &format!("a_b_c_{uid}"),
            &format!("web_{uid}"),
        ] {
            assert_eq!(pod_of_logs(other), None, "{other}");
        }
    }

    #[test]
    fn paths_with_parent_components_are_not_below() {
        assert!(is_below(Path::new("a/b/./c")));
        for bad in ["", "/a", "../a", "a/../../b"] {
            assert!(!is_below(Path::new(bad)), "{bad}");
        }
    }
}
