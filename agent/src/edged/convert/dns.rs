//! How a pod resolves names.

use k8s_openapi::api::core::v1::PodSpec;
use wire::cri;

/// What libc reads of name servers; more would be ignored in silence.
const MAX_SERVERS: usize = 3;
/// The most search domains that the API takes.
const MAX_SEARCHES: usize = 32;

/// How pods resolve names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeDns {
    /// The cluster's DNS servers; none means that pods resolve names as the node does.
    pub(crate) servers: Vec<String>,
    /// Such as `cluster.local`.
    pub(crate) domain: String,
    /// How the node does, for pods that add to it or search its domains, too.
    pub(crate) nodes: cri::DnsConfig,
    /// That is written elsewhere than where runtimes look by themselves.
    pub(crate) own: bool,
}

/// `None` leaves the node's own resolv.conf.
pub(super) fn dns_config(spec: &PodSpec, namespace: &str, dns: &NodeDns) -> Option<cri::DnsConfig> {
    let host_network = spec.host_network.unwrap_or(false);
    let policy = spec.dns_policy.as_deref();
    let cluster = match policy {
        Some("None" | "Default") => false,
        Some("ClusterFirstWithHostNet") => true,
        _ => !host_network,
    } && !dns.servers.is_empty();
    let mut config = match policy {
        _ if cluster => of_cluster(namespace, dns),
        Some("None") => cri::DnsConfig::default(),
        _ if dns.own => dns.nodes.clone(),
        _ => cri::DnsConfig::default(),
    };
    if let Some(own) = &spec.dns_config {
        if !cluster && policy != Some("None") {
            config = dns.nodes.clone();
        }
        config.servers.extend(own.nameservers.iter().flatten().cloned());
        config.searches.extend(own.searches.iter().flatten().cloned());
        for option in own.options.iter().flatten() {
            let Some(name) = option.name.clone() else { continue };
            // The pod's own wins.
            config.options.retain(|other| other.split(':').next() != Some(name.as_str()));
            config
                .options
                .push(option.value.as_ref().map_or(name.clone(), |value| format!("{name}:{value}")));
        }
        unique(&mut config.servers, MAX_SERVERS);
        unique(&mut config.searches, MAX_SEARCHES);
    }
    (config != cri::DnsConfig::default()).then_some(config)
}

fn of_cluster(namespace: &str, dns: &NodeDns) -> cri::DnsConfig {
    let domain = dns.domain.as_str();
    let own = [format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.to_owned()];
    let own = own.into_iter().filter(|_| !domain.is_empty());
    let mut searches = own.chain(dns.nodes.searches.iter().cloned()).collect();
    unique(&mut searches, MAX_SEARCHES);
    cri::DnsConfig { servers: dns.servers.clone(), searches, options: vec!["ndots:5".into()] }
}

fn unique(all: &mut Vec<String>, most: usize) {
    let mut seen = std::collections::BTreeSet::new();
    all.retain(|one| seen.insert(one.clone()));
    all.truncate(most);
}

/// A resolv.conf, as far as it concerns pods.
pub(crate) fn parse_resolv_conf(text: &str) -> cri::DnsConfig {
    let mut config = cri::DnsConfig::default();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let rest = |words: std::str::SplitAsciiWhitespace<'_>| words.map(str::to_owned).collect::<Vec<_>>();
        match words.next() {
            Some("nameserver") => config.servers.extend(words.next().map(str::to_owned)),
            // The last line of each counts.
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
        let dns =
            NodeDns { servers: vec!["10.96.0.10".into()], domain: "cluster.local".into(), nodes, own: false };
        let mut spec = spec;
        spec["containers"] = json!([]);
        let config = dns_config(&serde_json::from_value(spec).unwrap(), "shop", &dns)?;
        Some((config.servers.join(" "), config.searches.join(" "), config.options.join(" ")))
    }

    fn row(servers: &str, searches: &str, options: &str) -> Option<(String, String, String)> {
        Some((servers.into(), searches.into(), options.into()))
    }

    #[test]
    fn the_policy_says_where_names_are_resolved_and_the_pod_adds_to_it() {
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
        assert_eq!(of("Default"), row("10.0.0.1 10.0.0.2 1.1.1.1", "lan corp", "rotate ndots:2 edns0"));
        let all = format!("{cluster} corp");
        assert_eq!(of("ClusterFirst"), row("10.96.0.10 1.1.1.1 10.0.0.1", &all, "ndots:2 edns0"));
    }
}
