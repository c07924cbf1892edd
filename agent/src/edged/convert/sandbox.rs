//! A pod as a sandbox's configuration, and the `/etc/hosts` that its containers see.

use std::fmt::Write as _;

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use wire::cri;

use super::{labels, security};
use crate::edged::names::Dirs;

/// Longest host name that Linux takes without complaint in all places.
const MAX_HOSTNAME: usize = 63;

/// How pods resolve names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeDns {
    /// The cluster's DNS servers; none means that pods use the node's resolv.conf.
    pub(crate) servers: Vec<String>,
    /// Such as `cluster.local`.
    pub(crate) domain: String,
}

/// The configuration of the pod's `attempt`th sandbox.
pub(crate) fn sandbox(
    pod: &Pod,
    attempt: u32,
    node_name: &str,
    dirs: &Dirs,
    dns: &NodeDns,
) -> cri::PodSandboxConfig {
    let default = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&default);
    let meta = |field: &Option<String>| field.clone().unwrap_or_default();
    let (name, namespace, uid) =
        (meta(&pod.metadata.name), meta(&pod.metadata.namespace), meta(&pod.metadata.uid));
    let mut all_labels = pod.metadata.labels.clone().unwrap_or_default();
    all_labels.extend(labels(pod));
    let sysctls = spec.security_context.iter().flat_map(|context| context.sysctls.iter().flatten());
    cri::PodSandboxConfig {
        hostname: hostname(pod, node_name),
        log_directory: dirs.pod_logs(&namespace, &name, &uid).to_string_lossy().into_owned(),
        dns_config: dns_config(spec, &namespace, dns),
        port_mappings: port_mappings(spec),
        labels: all_labels,
        annotations: pod.metadata.annotations.clone().unwrap_or_default(),
        linux: Some(cri::LinuxPodSandboxConfig {
            security_context: Some(security::of_sandbox(spec)),
            sysctls: sysctls.map(|sysctl| (sysctl.name.clone(), sysctl.value.clone())).collect(),
            ..Default::default()
        }),
        metadata: Some(cri::PodSandboxMetadata { name, uid, namespace, attempt }),
    }
}

/// What the pod's containers call the machine they think they are on.
pub(crate) fn hostname(pod: &Pod, node_name: &str) -> String {
    let spec = pod.spec.as_ref();
    if spec.and_then(|spec| spec.host_network) == Some(true) {
        return node_name.to_owned();
    }
    let own = spec.and_then(|spec| spec.hostname.clone()).filter(|name| !name.is_empty());
    let name = own.or_else(|| pod.metadata.name.clone()).unwrap_or_default();
    let short: String = name.chars().take(MAX_HOSTNAME).collect();
    short.trim_end_matches(['-', '.']).to_owned()
}

/// `None` leaves the node's own resolv.conf.
fn dns_config(spec: &PodSpec, namespace: &str, dns: &NodeDns) -> Option<cri::DnsConfig> {
    let host_network = spec.host_network.unwrap_or(false);
    let cluster = match spec.dns_policy.as_deref() {
        Some("None" | "Default") => false,
        Some("ClusterFirstWithHostNet") => true,
        _ => !host_network,
    } && !dns.servers.is_empty();
    let mut config = cri::DnsConfig::default();
    if cluster {
        config.servers.clone_from(&dns.servers);
        config.options.push("ndots:5".into());
        let domain = dns.domain.as_str();
        if !domain.is_empty() {
            config.searches.extend([
                format!("{namespace}.svc.{domain}"),
                format!("svc.{domain}"),
                domain.into(),
            ]);
        }
    }
    if let Some(own) = &spec.dns_config {
        config.servers.extend(own.nameservers.iter().flatten().cloned());
        config.searches.extend(own.searches.iter().flatten().cloned());
        let options = own.options.iter().flatten().filter_map(|option| {
            let name = option.name.clone()?;
            Some(option.value.as_ref().map_or(name.clone(), |value| format!("{name}:{value}")))
        });
        config.options.extend(options);
    }
    (config != cri::DnsConfig::default()).then_some(config)
}

fn port_mappings(spec: &PodSpec) -> Vec<cri::PortMapping> {
    if spec.host_network.unwrap_or(false) {
        return Vec::new();
    }
    let ports = spec.containers.iter().flat_map(|container| container.ports.iter().flatten());
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

/// The pod's `/etc/hosts`; `None` on the host's network, where the host's own is seen.
pub(crate) fn etc_hosts(pod: &Pod, hostname: &str, ips: &[String]) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    if spec.host_network.unwrap_or(false) {
        return None;
    }
    let mut text = String::from(
        "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n",
    );
    for ip in ips {
        let _ = writeln!(text, "{ip}\t{hostname}");
    }
    for alias in spec.host_aliases.iter().flatten() {
        let _ = writeln!(
            text,
            "{}\t{}",
            alias.ip,
            alias.hostnames.iter().flatten().cloned().collect::<Vec<_>>().join("\t")
        );
    }
    Some(text)
}
