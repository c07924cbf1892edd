//! Checks the kernel parameters (sysctls) that pods set.
//!
//! Source: Kubernetes, "Using sysctls in a Kubernetes Cluster".

use k8s_openapi::api::core::v1::{Pod, PodSpec};

use crate::status::Waiting;

/// Sysctls that affect only the pod that sets them.
const SAFE_SYSCTLS: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
];

/// Returns why the pod is rejected if it sets a sysctl that is not allowed.
pub(super) fn forbidden(pod: &Pod, allowed: &[String]) -> Option<Waiting> {
    let spec = pod.spec.as_ref()?;
    let sysctls = spec.security_context.as_ref()?.sysctls.as_ref()?;
    let why = sysctls
        .iter()
        .find_map(|sysctl| violation(&sysctl.name.replace('/', "."), spec, allowed))?;
    Some(Waiting::new(
        "SysctlForbidden",
        format!("forbidden sysctl: {why}"),
    ))
}

fn violation(name: &str, spec: &PodSpec, allowed: &[String]) -> Option<String> {
    let fits = |pattern: &String| match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => pattern == name,
    };
    if !SAFE_SYSCTLS.contains(&name) && !allowed.iter().any(fits) {
        return Some(format!("{name:?} not allowlisted"));
    }
    let (host, namespace) = if name.starts_with("net.") {
        (spec.host_network, "Net")
    } else {
        (spec.host_ipc, "IPC")
    };
    (host == Some(true)).then(|| format!("{name:?} not allowed with host {namespace} enabled"))
}
