//! Names that no node may have: a server with the certificate of such a node could impersonate the API, a service, or another machine.
//! Pure.

/// The domains of services.
const ZONES: [&str; 2] = ["svc", "cluster.local"];
/// The names of the API itself.
const API: [&str; 2] = ["kubernetes", "kubernetes.default"];

/// The names that every machine, or the host of a container, has for itself or for its network.
const SELF: [&str; 18] = [
    "broadcasthost",
    "gateway.docker.internal",
    "host.containers.internal",
    "host.docker.internal",
    "host.k3d.internal",
    "host.minikube.internal",
    "ip6-allhosts",
    "ip6-allnodes",
    "ip6-allrouters",
    "ip6-localhost",
    "ip6-localnet",
    "ip6-loopback",
    "ip6-mcastprefix",
    "kubernetes.docker.internal",
    "localhost",
    "localhost4",
    "localhost6",
    "loopback",
];
/// The names of clouds' metadata services.
const METADATA: [&str; 3] = ["instance-data", "metadata", "metadata.google.internal"];
/// The components of a cluster, and of KubeEdge and cloudsim, that others connect to by these names or know by them.
const COMPONENTS: [&str; 19] = [
    "apiserver",
    "cloud-controller-manager",
    "cloudcore",
    "cloudhub",
    "cloudsim",
    "cloudstream",
    "controller-manager",
    "coredns",
    "edgemesh-server",
    "etcd",
    "front-proxy-client",
    "konnectivity-server",
    "kube-apiserver",
    "kube-apiserver-kubelet-client",
    "kube-controller-manager",
    "kube-dns",
    "kube-proxy",
    "kube-scheduler",
    "metrics-server",
];

/// Reports whether the name, in lower case, is that of a service or the API.
pub(crate) fn is_of_a_service(name: &str) -> bool {
    ZONES
        .iter()
        .any(|zone| name == *zone || name.ends_with(&format!(".{zone}")))
        || name.contains(".svc.")
        || API.contains(&name)
}

/// Returns why no node may have the name; `own` has the names of this cloud.
pub(crate) fn reason(name: &str, own: &[String]) -> Option<&'static str> {
    if is_of_a_service(name) {
        Some("it is the name of the API or of a service")
    } else if SELF.contains(&name)
        || [".localhost", ".localdomain"]
            .iter()
            .any(|zone| name.ends_with(zone))
    {
        Some("every machine calls itself so")
    } else if METADATA.contains(&name) {
        Some("it is the name of a cloud's metadata service")
    } else if COMPONENTS.contains(&name) {
        Some("it is the name of a cluster component")
    } else if is_like_an_address(name) {
        Some("it looks like an IP address")
    } else if own
        .iter()
        .any(|own| own.trim_end_matches('.').eq_ignore_ascii_case(name))
    {
        Some("it is the name of this cloud")
    } else {
        None
    }
}

/// Reports whether programs read the name as an IPv4 address, as `inet_aton` does: one to four numbers with dots between, as in `127.1`,
/// `0x7f.0.0.1` or `2130706433`.
fn is_like_an_address(name: &str) -> bool {
    let numbers: Option<Vec<u64>> = name.split('.').map(number).collect();
    match numbers.as_deref() {
        // A serial number below 1.0.0.0 leads nowhere: no machine of this network (0.0.0.0/8) can be reached, except by 0 itself.
        Some([number]) => *number == 0 || (1 << 24..1 << 32).contains(number),
        Some(numbers) => numbers.len() <= 4,
        None => false,
    }
}

/// Returns the value of a decimal, hexadecimal (`0x`) or octal (`0`) number; the largest where it has too many digits.
fn number(part: &str) -> Option<u64> {
    let (digits, radix) = match (part.strip_prefix("0x"), part.strip_prefix('0')) {
        (Some(digits), _) => (digits, 16),
        (None, Some(digits)) if digits.bytes().all(|digit| matches!(digit, b'0'..=b'7')) => {
            (digits, 8)
        }
        _ if part.is_empty() => return None,
        _ => (part, 10),
    };
    if !digits.chars().all(|digit| digit.is_digit(radix)) {
        return None;
    }
    if digits.is_empty() {
        return Some(0);
    }
    Some(u64::from_str_radix(digits, radix).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_services_components_and_addresses_are_reserved() {
        let own = ["192.0.2.7".to_owned(), "Cloud.example.com".to_owned()];
        for reserved in [
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "web.shop.svc",
            "web.shop.svc.cluster.local",
            "svc",
            "cluster.local",
            "localhost",
            "node.localhost",
            "10.0.0.1",
            "127.1",
            "0x7f.0.0.1",
            "0x7f.1",
            "2130706433",
            "0x7f000001",
            "017700000001",
            "0",
            "0x",
            "localhost.localdomain",
            "ip6-localhost",
            "host.docker.internal",
            "metadata.google.internal",
            "kube-apiserver",
            "kube-scheduler",
            "etcd",
            "cloudcore",
            "cloud.example.com",
        ] {
            assert!(reason(reserved, &own).is_some(), "{reserved}");
        }
        for free in [
            "edge-1",
            "kubernetes-1",
            "svc-1",
            "00012345",
            "12345",
            "99999999999",
            "kube-apiserver-1",
            "etcd.site",
            "10.0.0.1.site",
            "a.1",
            "example.com",
            "1.2.3.4.5",
        ] {
            assert_eq!(reason(free, &own), None, "{free}");
        }
    }
}
