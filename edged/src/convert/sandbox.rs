//! Converts a pod to CRI's sandbox configuration.

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use wire::cri;

use super::{
    dns::{NodeDns, dns_config},
    hosts::hostname,
    labels, security,
};
use crate::names::Dirs;

/// Returns the configuration of the pod's sandbox number `attempt`.
pub(crate) fn sandbox(
    pod: &Pod,
    attempt: u32,
    dirs: &Dirs,
    dns: &NodeDns,
) -> cri::PodSandboxConfig {
    let default = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&default);
    let meta = |field: &Option<String>| field.clone().unwrap_or_default();
    let (name, namespace, uid) = (
        meta(&pod.metadata.name),
        meta(&pod.metadata.namespace),
        meta(&pod.metadata.uid),
    );
    let mut all_labels = pod.metadata.labels.clone().unwrap_or_default();
    all_labels.extend(labels(pod));
    let sysctls = spec
        .security_context
        .iter()
        .flat_map(|context| context.sysctls.iter().flatten());
    cri::PodSandboxConfig {
        // On the host's network the host name cannot be set; runtimes refuse it.
        hostname: if spec.host_network == Some(true) {
            String::new()
        } else {
            hostname(pod, &dns.domain)
        },
        log_directory: dirs
            .pod_logs(&namespace, &name, &uid)
            .to_string_lossy()
            .into_owned(),
        dns_config: dns_config(spec, &namespace, dns),
        port_mappings: port_mappings(spec),
        labels: all_labels,
        annotations: pod.metadata.annotations.clone().unwrap_or_default(),
        linux: Some(cri::LinuxPodSandboxConfig {
            security_context: Some(security::of_sandbox(spec)),
            sysctls: sysctls
                .map(|sysctl| (sysctl.name.clone(), sysctl.value.clone()))
                .collect(),
            ..Default::default()
        }),
        metadata: Some(cri::PodSandboxMetadata {
            name,
            uid,
            namespace,
            attempt,
        }),
    }
}

fn port_mappings(spec: &PodSpec) -> Vec<cri::PortMapping> {
    if spec.host_network.unwrap_or(false) {
        return Vec::new();
    }
    let ports = spec
        .containers
        .iter()
        .flat_map(|container| container.ports.iter().flatten());
    ports
        .map(|port| cri::PortMapping {
            protocol: match port.protocol.as_deref() {
                Some("UDP") => cri::Protocol::Udp,
                Some("SCTP") => cri::Protocol::Sctp,
                _ => cri::Protocol::Tcp,
            } as i32,
            container_port: port.container_port,
            host_port: port.host_port.unwrap_or_default(),
            host_ip: port.host_ip.clone().unwrap_or_default(),
        })
        .collect()
}
