//! Recognises the cause of a pod that does not start, from the text of its event or status, and names the cure. Pure.
//!
//! The texts are those of EdgeD, containerd, runc and the CNI plugins.

/// A known cause of a pod that does not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodCause {
    /// Parts of the text of the event or status, in any order, separated by `…`.
    text: &'static str,
    /// What is wrong.
    pub cause: &'static str,
    /// What to do, in the imperative.
    pub cure: &'static str,
}

impl std::fmt::Display for PodCause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.cause, self.cure)
    }
}

/// Returns the known cause in the text of an event or of a status.
pub fn pod_cause(text: &str) -> Option<&'static PodCause> {
    let has_parts = |known: &&PodCause| known.text.split('…').all(|part| text.contains(part));
    CAUSES.iter().find(has_parts)
}

const fn row(text: &'static str, cause: &'static str, cure: &'static str) -> PodCause {
    PodCause { text, cause, cure }
}

const START_RUNTIME: &str = "`edge-agent check` on the node (check runtime) shows the cause; `systemctl restart containerd` restarts it";
const FREE_SPACE: &str = "free disk space on the node; `ctr -n k8s.io images ls` lists the images";
const INSTALL_CNI: &str = "install the plugin on the node (Debian: apt-get install containernetworking-plugins), and correct the first file in \
                           /etc/cni/net.d";
const CONFIGURE_CNI: &str = "`edge-agent check` on the node (check cni) shows whether the plugin, its configuration in /etc/cni/net.d or a \
                             restart of the runtime is missing";
const FREE_PROCESSES: &str = "stop programs on the node, or raise the limit of the pod, of TasksMax in containerd.service or of kernel.pid_max";
const CREATE_OBJECT: &str = "create it in the pod's namespace; the pod then starts by itself";
const SET_USER: &str = "set securityContext.runAsUser of the pod to a number other than 0, or use an image whose USER is such a number";
const ADD_KEY: &str = "add the key to the ConfigMap or Secret, or correct the key in the pod";
const LOG_IN: &str = "create a Secret with the login (`kubectl create secret docker-registry`) and name it in the pod's imagePullSecrets; check the \
                      image's name";
const ALLOW_HTTP: &str = "give the registry a certificate, or allow http:// for it in /etc/containerd/certs.d (`hosts.toml`)";
const CORRECT_COMMAND: &str =
    "correct command and args of the container, or use an image that has the program";

/// The known causes; the first that matches counts, so that those of the sandbox are before those of images.
const CAUSES: [PodCause; 42] = [
    row(
        "failed to get sandbox image",
        "the runtime cannot pull its sandbox image (pause)",
        "import the image that the message names on the node (`ctr -n k8s.io images import FILE`), or set sandbox_image in \
         /etc/containerd/config.toml to an image that the node can pull and restart containerd",
    ),
    row(
        "already has an IP address different",
        "the bridge has the address of an earlier network configuration",
        "delete the bridge on the node (`ip link delete cni0`), which the next pod creates again, and restart the other pods of the node",
    ),
    row(
        "no IP addresses available",
        "the pod network has no free address",
        "use a larger subnet in the first file in /etc/cni/net.d; if few pods run, delete the files of ended pods in /var/lib/cni/networks",
    ),
    row(
        "exec: \"runc\"",
        "runc is not installed",
        "install it on the node (Debian: apt-get install runc)",
    ),
    row(
        "expected cgroupsPath to be of format",
        "the runtime uses another cgroup driver than when the agent started",
        "restart the agent on the node: systemctl restart edge-agent",
    ),
    row(
        "no space left on device",
        "the disk of the node is full",
        FREE_SPACE,
    ),
    row(
        "disk quota exceeded",
        "the disk quota is used up",
        FREE_SPACE,
    ),
    row(
        "ead-only file system",
        "a file system of the node, or of the container, is read-only",
        "if it is the node's, mount it for writing (`dmesg` shows errors of the disk); otherwise mount a volume at that path",
    ),
    row(
        "Resource temporarily unavailable",
        "the limit of processes and threads is reached",
        FREE_PROCESSES,
    ),
    row(
        "resource temporarily unavailable",
        "the limit of processes and threads is reached",
        FREE_PROCESSES,
    ),
    row(
        "annot allocate memory",
        "the node has no free memory",
        "stop programs on the node, or lower the memory of its pods",
    ),
    row(
        "failed to find plugin",
        "a CNI plugin is missing",
        INSTALL_CNI,
    ),
    row(
        "cni plugin not initialized",
        "the runtime has no configuration of a pod network",
        CONFIGURE_CNI,
    ),
    row(
        "failed to load cni",
        "the runtime has no configuration of a pod network",
        CONFIGURE_CNI,
    ),
    row(
        "nothing answers at",
        "the container runtime does not run",
        START_RUNTIME,
    ),
    row(
        "unknown service runtime.v1",
        "the container runtime does not serve CRI",
        "remove \"cri\" from disabled_plugins in /etc/containerd/config.toml, and restart containerd",
    ),
    row(
        "OOMKilled",
        "the container used more memory than its limit",
        "raise resources.limits.memory of the container, or reduce the memory that its program uses",
    ),
    row(
        "runAsNonRoot",
        "the container must not run as root, but would",
        SET_USER,
    ),
    row(
        "breaks non-root policy",
        "the container must not run as root, but would",
        SET_USER,
    ),
    row(
        "couldn't find key",
        "a ConfigMap or Secret has no such key",
        ADD_KEY,
    ),
    row(
        "non-existent config key",
        "a ConfigMap or Secret has no such key",
        ADD_KEY,
    ),
    row(
        "non-existent secret key",
        "a ConfigMap or Secret has no such key",
        ADD_KEY,
    ),
    row(
        "persistentvolumeclaims \"…not found",
        "the PersistentVolumeClaim does not exist",
        CREATE_OBJECT,
    ),
    row(
        "PVC is not bound",
        "the PersistentVolumeClaim is not bound",
        "create a PersistentVolume with its storage class, capacity and access modes",
    ),
    row(
        "configmap \"…not found",
        "a ConfigMap does not exist",
        CREATE_OBJECT,
    ),
    row(
        "secret \"…not found",
        "a Secret does not exist",
        CREATE_OBJECT,
    ),
    row(
        "hostPath type check failed",
        "the path of a hostPath volume does not exist on the node, or has another type",
        "create the path on the node, or correct path and type of hostPath in the pod",
    ),
    row(
        "exec format error",
        "the image is for another processor than the node's",
        "use an image for the node's processor (`kubectl get node NODE -o wide` and `uname -m` show it)",
    ),
    row(
        "executable file not found",
        "the container's command does not exist in its image",
        CORRECT_COMMAND,
    ),
    row(
        "exec: \"…stat /",
        "the container's command does not exist in its image",
        CORRECT_COMMAND,
    ),
    row(
        "certificate signed by unknown authority",
        "the node does not trust the certificate of the registry",
        "add the CA of the registry to the node's trusted certificates, and restart containerd",
    ),
    row(
        "no such host",
        "the node cannot resolve the name of the registry",
        "correct the image's name, or the node's DNS (/etc/resolv.conf)",
    ),
    row(
        "failed to resolve reference…not found",
        "the registry has no such image",
        "correct name and tag of the image",
    ),
    row(
        "failed to resolve reference…pull access denied",
        "the registry has no such image, or requires a login",
        LOG_IN,
    ),
    row(
        "failed to resolve reference…401 Unauthorized",
        "the registry requires a login",
        LOG_IN,
    ),
    row(
        "failed to resolve reference…403 Forbidden",
        "the registry refuses this login",
        LOG_IN,
    ),
    row(
        "server gave HTTP response to HTTPS client",
        "the registry does not speak HTTPS",
        ALLOW_HTTP,
    ),
    row(
        "first record does not look like a TLS handshake",
        "the registry does not speak HTTPS",
        ALLOW_HTTP,
    ),
    row(
        "failed to do request…connection refused",
        "the registry does not run at the address in the image's name",
        "start the registry, or correct the image's name; the node pulls again by itself",
    ),
    row(
        "failed to do request…timeout",
        "the registry does not answer the node",
        "check the network of the node and its firewalls, and that the registry runs; the node pulls again by itself",
    ),
    row(
        "failed to resolve reference…: 50",
        "the registry has failed",
        "read the log of the registry; the node pulls again by itself",
    ),
    row(
        "failed to resolve reference…429 Too Many Requests",
        "the registry limits the number of pulls",
        "wait, log in to the registry (imagePullSecrets), or use a mirror; the node pulls again by itself",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_of_pods_that_do_not_start_are_recognised() {
        for (text, cause) in [
            (
                "Failed to create pod sandbox: the container runtime's RunPodSandbox: failed to get sandbox image \
                 \"registry.k8s.io/pause:3.6\": dial tcp: lookup registry.k8s.io: no such host",
                "sandbox image (pause)",
            ),
            (
                "failed to set bridge addr: \"cni0\" already has an IP address different from 10.77.9.1/30",
                "earlier network configuration",
            ),
            (
                "failed to allocate for range 0: no IP addresses available in range set: 10.77.9.1-10.77.9.2",
                "no free address",
            ),
            (
                "OCI runtime create failed: exec: \"runc\": executable file not found in $PATH: unknown",
                "runc is not installed",
            ),
            (
                "runc create failed: expected cgroupsPath to be of format \"slice:prefix:name\" for systemd cgroups",
                "cgroup driver",
            ),
            ("write /x: no space left on device", "full"),
            (
                "app: back-off 20s restarting failed container; last run: OOMKilled, exit code 137",
                "more memory than its limit",
            ),
            (
                "container has runAsNonRoot and image will run as root: set runAsUser to a number other than 0",
                "root",
            ),
            ("couldn't find key nokey in secret \"hello\"", "no such key"),
            (
                "failed to fetch PVC from API server: persistentvolumeclaims \"nope\" not found",
                "PersistentVolumeClaim does not exist",
            ),
            ("configmap \"nope\" not found", "ConfigMap does not exist"),
            (
                "failed to resolve reference \"10.77.0.1:5000/a:1\": failed to do request: Head \"https://10.77.0.1:5000/v2/a/manifests/1\": \
                 dial tcp 10.77.0.1:5000: connect: connection refused",
                "registry does not run",
            ),
            (
                "failed to resolve reference \"r.test/a:1\": failed to do request: Head \"https://r.test/v2/a/manifests/1\": dial tcp 192.0.2.1:443: \
                 i/o timeout",
                "does not answer",
            ),
            (
                "failed to resolve reference \"r.test/a:1\": pulling from host r.test failed with status code [manifests 1]: 503 Service Unavailable",
                "registry has failed",
            ),
            (
                "failed to resolve reference \"r.test/a:1\": unexpected status from HEAD request to https://r.test/v2/a/manifests/1: 429 Too Many \
                 Requests",
                "limits the number of pulls",
            ),
            (
                "failed to resolve reference \"r.test/a:1\": r.test/a:1: not found",
                "no such image",
            ),
            (
                "failed to resolve reference \"r.test/a:1\": unexpected status from HEAD request to https://r.test/v2/a/manifests/1: 401 Unauthorized",
                "requires a login",
            ),
            (
                "failed to do request: Head \"https://r.test/v2/a/manifests/1\": http: server gave HTTP response to HTTPS client",
                "does not speak HTTPS",
            ),
            (
                "failed to do request: Head \"https://r.test/v2/a/manifests/1\": tls: first record does not look like a TLS handshake",
                "does not speak HTTPS",
            ),
            ("secret \"nope\" not found", "Secret does not exist"),
            (
                "hostPath type check failed: /no/such is not a directory",
                "hostPath",
            ),
            (
                "exec: \"/nosuch\": stat /nosuch: no such file or directory: unknown",
                "does not exist in its image",
            ),
        ] {
            let found = pod_cause(text).unwrap_or_else(|| panic!("{text}"));
            assert!(found.cause.contains(cause), "{text}: {found}");
        }
        assert_eq!(pod_cause("Back-off pulling image \"a\""), None);
    }
}
