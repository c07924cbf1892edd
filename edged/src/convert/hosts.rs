//! Makes the host names of pods and their `/etc/hosts`.

use std::fmt::Write as _;

use k8s_openapi::api::core::v1::{Pod, PodSpec};

/// Maximum length of a short host name: that of a DNS label.
const MAX_HOSTNAME: usize = 63;
/// Maximum length of a host name in Linux.
const MAX_FQDN: usize = 64;

/// Returns the host name that the containers of a pod with a network namespace of its own see.
pub(super) fn hostname(pod: &Pod, domain: &str) -> String {
    let full = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.set_hostname_as_fqdn)
        .unwrap_or(false);
    match fqdn(pod, domain) {
        Some(fqdn) if full && fqdn.len() <= MAX_FQDN => fqdn,
        _ => short_hostname(pod),
    }
}

/// Returns an error if the pod wants its full name as host name and that is longer than [`MAX_FQDN`].
pub(crate) fn check_hostname(pod: &Pod, domain: &str) -> Result<(), String> {
    let full = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.set_hostname_as_fqdn)
        .unwrap_or(false);
    match fqdn(pod, domain).filter(|fqdn| full && fqdn.len() > MAX_FQDN) {
        Some(fqdn) => Err(format!(
            "Failed to construct FQDN from Pod hostname and cluster domain, FQDN {fqdn} is too long ({MAX_FQDN} is the max, {} characters requested): use shorter names, or remove setHostnameAsFQDN",
            fqdn.len()
        )),
        None => Ok(()),
    }
}

/// Returns the names of the pod's address for `/etc/hosts`, the longest first.
pub(crate) fn host_names(pod: &Pod, node_name: &str, domain: &str) -> Vec<String> {
    if is_host_network(pod) {
        return vec![node_name.to_owned()];
    }
    fqdn(pod, domain)
        .into_iter()
        .chain([short_hostname(pod)])
        .collect()
}

/// Reports whether the pod uses the host's network.
pub(crate) fn is_host_network(pod: &Pod) -> bool {
    pod.spec
        .as_ref()
        .and_then(|spec| spec.host_network)
        .unwrap_or(false)
}

fn short_hostname(pod: &Pod) -> String {
    let own = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.hostname.clone())
        .filter(|name| !name.is_empty());
    let name = own
        .or_else(|| pod.metadata.name.clone())
        .unwrap_or_default();
    let short: String = name.chars().take(MAX_HOSTNAME).collect();
    short.trim_end_matches(['-', '.']).to_owned()
}

/// Returns the pod's name in the cluster's DNS, if it has a subdomain.
fn fqdn(pod: &Pod, domain: &str) -> Option<String> {
    let subdomain = pod
        .spec
        .as_ref()?
        .subdomain
        .as_deref()
        .filter(|name| !name.is_empty())?;
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    Some(format!(
        "{}.{subdomain}.{namespace}.svc.{domain}",
        short_hostname(pod)
    ))
}

/// Returns the pod's `/etc/hosts`. On the host's network it is the host's own file, `host_file`, with the pod's aliases appended.
pub(crate) fn etc_hosts(pod: &Pod, names: &[String], ips: &[String], host_file: &str) -> String {
    let default = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&default);
    let mut text = String::new();
    if is_host_network(pod) {
        text.push_str("# Kubernetes-managed hosts file (host network).\n");
        text.push_str(host_file);
        if !text.ends_with('\n') {
            text.push('\n');
        }
    } else {
        text.push_str(
            "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n\
             fe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n",
        );
        for ip in ips {
            let _ = writeln!(text, "{ip}\t{}", names.join("\t"));
        }
    }
    let aliases = spec.host_aliases.as_deref().unwrap_or_default();
    if !aliases.is_empty() {
        text.push_str("\n# Entries added by HostAliases.\n");
    }
    for alias in aliases {
        let _ = writeln!(
            text,
            "{}\t{}",
            alias.ip,
            alias.hostnames.as_deref().unwrap_or_default().join("\t")
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(spec: Value) -> Pod {
        let mut spec = spec;
        spec["containers"] = json!([]);
        serde_json::from_value(
            json!({"metadata": {"name": "web-0", "namespace": "shop"}, "spec": spec}),
        )
        .unwrap()
    }

    #[test]
    fn a_subdomain_makes_a_full_name() {
        let member = json!({"hostname": "a", "subdomain": "db"});
        assert_eq!(hostname(&pod(member.clone()), "cluster.local"), "a");
        assert_eq!(
            host_names(&pod(member), "edge-1", "cluster.local"),
            ["a.db.shop.svc.cluster.local", "a"]
        );
        let full = pod(json!({"subdomain": "db", "setHostnameAsFQDN": true}));
        assert_eq!(
            hostname(&full, "cluster.local"),
            "web-0.db.shop.svc.cluster.local"
        );
        assert_eq!(
            host_names(&pod(json!({"hostNetwork": true})), "edge-1", ""),
            ["edge-1"]
        );
    }

    #[test]
    fn hosts_have_the_pods_address_and_its_aliases() {
        let aliases = json!([{"ip": "10.9.9.9", "hostnames": ["db", "db.local"]}]);
        let own = pod(json!({"hostAliases": aliases}));
        let names = host_names(&own, "edge-1", "");
        let text = etc_hosts(&own, &names, &["10.1.0.2".into()], "10.0.0.1 node\n");
        let end = "10.1.0.2\tweb-0\n\n# Entries added by HostAliases.\n10.9.9.9\tdb\tdb.local\n";
        assert!(
            text.starts_with("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n"),
            "{text}"
        );
        assert!(text.ends_with(end) && !text.contains("10.0.0.1"), "{text}");
        let host = pod(json!({"hostNetwork": true, "hostAliases": aliases}));
        let text = etc_hosts(&host, &[], &[], "10.0.0.1 node");
        let start = "# Kubernetes-managed hosts file (host network).\n10.0.0.1 node\n\n# Entries";
        assert!(text.starts_with(start), "{text}");
    }
}
