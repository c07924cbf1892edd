//! Makes the DNS configuration of pods.

use k8s_openapi::api::core::v1::PodSpec;
use wire::cri;

/// Maximum number of name servers; libc silently ignores more.
const MAX_SERVERS: usize = 3;
/// Maximum number of search domains, as in the API.
const MAX_SEARCHES: usize = 32;

/// DNS settings of the node for its pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeDns {
    /// The cluster's DNS servers; if there are none, pods use the node's.
    pub(crate) servers: Vec<String>,
    /// The cluster's domain, such as `cluster.local`.
    pub(crate) domain: String,
    /// The node's own configuration, for pods that use it or add to it.
    pub(crate) node_config: cri::DnsConfig,
    /// Whether that comes from a file other than `/etc/resolv.conf`, from which runtimes take it by themselves.
    pub(crate) is_custom: bool,
}

/// Returns the pod's DNS configuration; `None` leaves it to the runtime, which uses the node's resolv.conf.
pub(super) fn dns_config(spec: &PodSpec, namespace: &str, dns: &NodeDns) -> Option<cri::DnsConfig> {
    let host_network = spec.host_network.unwrap_or(false);
    let policy = spec.dns_policy.as_deref();
    let cluster = match policy {
        Some("None" | "Default") => false,
        Some("ClusterFirstWithHostNet") => true,
        _ => !host_network,
    } && !dns.servers.is_empty();
    let mut config = match policy {
        _ if cluster => cluster_config(namespace, dns),
        Some("None") => cri::DnsConfig::default(),
        _ if dns.is_custom => dns.node_config.clone(),
        _ => cri::DnsConfig::default(),
    };
    if let Some(own) = &spec.dns_config {
        if !cluster && policy != Some("None") {
            config = dns.node_config.clone();
        }
        config
            .servers
            .extend(own.nameservers.iter().flatten().cloned());
        config
            .searches
            .extend(own.searches.iter().flatten().cloned());
        for option in own.options.iter().flatten() {
            let Some(name) = option.name.clone() else {
                continue;
            };
            // The pod's own option replaces one of the same name.
            config
                .options
                .retain(|other| other.split(':').next() != Some(name.as_str()));
            config.options.push(
                option
                    .value
                    .as_ref()
                    .map_or(name.clone(), |value| format!("{name}:{value}")),
            );
        }
        dedup_and_truncate(&mut config.servers, MAX_SERVERS);
        dedup_and_truncate(&mut config.searches, MAX_SEARCHES);
    }
    (config != cri::DnsConfig::default()).then_some(config)
}

fn cluster_config(namespace: &str, dns: &NodeDns) -> cri::DnsConfig {
    let domain = dns.domain.as_str();
    let own = [
        format!("{namespace}.svc.{domain}"),
        format!("svc.{domain}"),
        domain.to_owned(),
    ];
    let own = own.into_iter().filter(|_| !domain.is_empty());
    let mut searches = own
        .chain(dns.node_config.searches.iter().cloned())
        .collect();
    dedup_and_truncate(&mut searches, MAX_SEARCHES);
    cri::DnsConfig {
        servers: dns.servers.clone(),
        searches,
        options: vec!["ndots:5".into()],
    }
}

fn dedup_and_truncate(all: &mut Vec<String>, most: usize) {
    let mut seen = std::collections::BTreeSet::new();
    all.retain(|one| seen.insert(one.clone()));
    all.truncate(most);
}

/// Parses a resolv.conf: name servers, search domains and options.
pub fn parse_resolv_conf(text: &str) -> cri::DnsConfig {
    let mut config = cri::DnsConfig::default();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let rest = |words: std::str::SplitAsciiWhitespace<'_>| {
            words.map(str::to_owned).collect::<Vec<_>>()
        };
        match words.next() {
            Some("nameserver") => config.servers.extend(words.next().map(str::to_owned)),
            // The last line of each kind counts.
            Some("search" | "domain") => config.searches = rest(words),
            Some("options") => config.options = rest(words),
            _ => {}
        }
    }
    config
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn config(spec: Value) -> Option<(String, String, String)> {
        let nodes = parse_resolv_conf(
            "# node\nnameserver 10.0.0.1\nnameserver 10.0.0.2\nsearch lan\noptions ndots:1 rotate\n",
        );
        let dns = NodeDns {
            servers: vec!["10.96.0.10".into()],
            domain: "cluster.local".into(),
            node_config: nodes,
            is_custom: false,
        };
        let mut spec = spec;
        spec["containers"] = json!([]);
        let config = dns_config(&serde_json::from_value(spec).unwrap(), "shop", &dns)?;
        Some((
            config.servers.join(" "),
            config.searches.join(" "),
            config.options.join(" "),
        ))
    }

    fn row(servers: &str, searches: &str, options: &str) -> Option<(String, String, String)> {
        Some((servers.into(), searches.into(), options.into()))
    }

    #[test]
    fn dns_config_follows_policy_and_pod_additions() {
        let cluster = "shop.svc.cluster.local svc.cluster.local cluster.local lan";
        assert_eq!(config(json!({})), row("10.96.0.10", cluster, "ndots:5"));
        assert_eq!(config(json!({"dnsPolicy": "Default"})), None);
        assert_eq!(config(json!({"hostNetwork": true})), None);
        let both = json!({"hostNetwork": true, "dnsPolicy": "ClusterFirstWithHostNet"});
        assert_eq!(config(both), row("10.96.0.10", cluster, "ndots:5"));
        let own = json!({"nameservers": ["1.1.1.1", "10.0.0.1"], "searches": ["corp"],
            "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}]});
        let of = |policy: &str| config(json!({"dnsPolicy": policy, "dnsConfig": own}));
        assert_eq!(of("None"), row("1.1.1.1 10.0.0.1", "corp", "ndots:2 edns0"));
        assert_eq!(
            of("Default"),
            row(
                "10.0.0.1 10.0.0.2 1.1.1.1",
                "lan corp",
                "rotate ndots:2 edns0"
            )
        );
        let all = format!("{cluster} corp");
        assert_eq!(
            of("ClusterFirst"),
            row("10.96.0.10 1.1.1.1 10.0.0.1", &all, "ndots:2 edns0")
        );
    }
}
