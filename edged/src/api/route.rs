//! Parses paths of the kubelet's API. Pure.

use http::Method;

/// The pod that a path names, and the container if it names one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodPath {
    pub(super) namespace: String,
    pub(super) pod: String,
    /// The pod's uid, where the path has one.
    pub(super) uid: Option<String>,
    /// Empty for a port-forward.
    pub(super) container: String,
}

/// The operation that a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// One of the pages that the node's own server serves too.
    Page,
    /// The log of a container.
    Logs(PodPath),
    /// Running a command in a container.
    Exec(PodPath),
    /// Connecting to a container's own streams.
    Attach(PodPath),
    /// Connecting to ports of a pod.
    PortForward(PodPath),
}

impl Route {
    /// Parses a decoded path; returns `None` if there is no such path.
    pub(super) fn of(path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
        if parts.iter().any(|part| matches!(*part, "" | "." | "..")) {
            return None;
        }
        let of = |namespace: &str, pod: &str, uid: Option<&str>, container: &str| PodPath {
            namespace: namespace.to_owned(),
            pod: pod.to_owned(),
            uid: uid.map(str::to_owned),
            container: container.to_owned(),
        };
        Some(match parts[..] {
            ["containerLogs", namespace, pod, container] => {
                Self::Logs(of(namespace, pod, None, container))
            }
            ["exec", namespace, pod, container] => Self::Exec(of(namespace, pod, None, container)),
            ["exec", namespace, pod, uid, container] => {
                Self::Exec(of(namespace, pod, Some(uid), container))
            }
            ["attach", namespace, pod, container] => {
                Self::Attach(of(namespace, pod, None, container))
            }
            ["attach", namespace, pod, uid, container] => {
                Self::Attach(of(namespace, pod, Some(uid), container))
            }
            ["portForward", namespace, pod] => Self::PortForward(of(namespace, pod, None, "")),
            ["portForward", namespace, pod, uid] => {
                Self::PortForward(of(namespace, pod, Some(uid), ""))
            }
            ["stats", "summary"]
            | ["metrics"]
            | ["metrics", "cadvisor" | "resource" | "probes"]
            | ["pods" | "healthz" | "configz"]
            | ["healthz", _] => Self::Page,
            _ => return None,
        })
    }

    /// Reports whether the route allows this method.
    pub(super) fn allows(&self, method: &Method) -> bool {
        match self {
            Self::Page | Self::Logs(_) => method == Method::GET,
            Self::Exec(_) | Self::Attach(_) | Self::PortForward(_) => {
                method == Method::GET || method == Method::POST
            }
        }
    }
}

/// Returns all values of a key in an encoded query.
pub(super) fn values(query: &str, key: &str) -> Vec<String> {
    let pairs = form_urlencoded::parse(query.as_bytes());
    pairs
        .filter(|(name, _)| name == key)
        .map(|(_, value)| value.into_owned())
        .collect()
}

/// Reports whether a flag of the kubelet's (`input`, `output`, `error`, `tty`) is set.
pub(super) fn flag(query: &str, key: &str) -> bool {
    values(query, key).first().is_some_and(|value| value == "1")
}

/// Reads a boolean as the Kubernetes API does: false if it is absent, `0` or `false`.
pub(super) fn boolean(query: &str, key: &str) -> bool {
    values(query, key)
        .first()
        .is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_paths_have_routes() {
        let path = |uid: Option<&str>, container: &str| PodPath {
            namespace: "ns".into(),
            pod: "p".into(),
            uid: uid.map(str::to_owned),
            container: container.into(),
        };
        for (text, route) in [
            ("/containerLogs/ns/p/c", Route::Logs(path(None, "c"))),
            ("/exec/ns/p/c", Route::Exec(path(None, "c"))),
            ("/exec/ns/p/u/c", Route::Exec(path(Some("u"), "c"))),
            ("/attach/ns/p/u/c", Route::Attach(path(Some("u"), "c"))),
            ("/portForward/ns/p", Route::PortForward(path(None, ""))),
            (
                "/portForward/ns/p/u",
                Route::PortForward(path(Some("u"), "")),
            ),
            ("/metrics", Route::Page),
            ("/metrics/resource", Route::Page),
            ("/stats/summary", Route::Page),
            ("/healthz/ping", Route::Page),
        ] {
            assert_eq!(Route::of(text), Some(route), "{text}");
        }
        for none in [
            "",
            "/",
            "//",
            "exec/ns/p/c",
            "/exec/ns/p",
            "/exec/ns/p/u/c/more",
            "/exec//p/c",
            "/exec/../p/c",
            "/run/ns/p/c",
            "/logs/syslog",
            "/metrics/",
            "/metrics/../pods",
            "/debug/pprof",
            "/checkpoint/ns/p/c",
            "http://169.254.169.254/latest",
            "/containerLogs/ns/p",
        ] {
            assert_eq!(Route::of(none), None, "{none}");
        }
    }

    #[test]
    fn queries_are_read_as_the_kubelet_and_the_api_read_them() {
        let query = "command=sh&command=-c&command=echo%20a%26b&input=1&tty=true&follow=&previous=False&stderr=0";
        assert_eq!(values(query, "command"), ["sh", "-c", "echo a&b"]);
        assert!(flag(query, "input") && !flag(query, "tty") && !flag(query, "output"));
        assert!(
            boolean(query, "follow") && !boolean(query, "previous") && !boolean(query, "stderr")
        );
    }
}
