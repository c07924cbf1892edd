//! Names that no node may have: a server with the certificate of such a node could impersonate the API, a service, or another machine.
//! Pure.

/// The domains of services.
const ZONES: [&str; 2] = ["svc", "cluster.local"];
/// The names of the API itself.
const API: [&str; 2] = ["kubernetes", "kubernetes.default"];

/// Reports whether the name, in lower case, is that of a service or the API.
pub(crate) fn is_of_a_service(name: &str) -> bool {
    ZONES.iter().any(|zone| name == *zone || name.ends_with(&format!(".{zone}")))
        || name.contains(".svc.")
        || API.contains(&name)
}

/// Returns why no node may have the name; `own` has the names of this cloud.
pub(crate) fn reason(name: &str, own: &[String]) -> Option<&'static str> {
    if is_of_a_service(name) {
        Some("it is the name of the API or of a service")
    } else if name == "localhost" || name.ends_with(".localhost") {
        Some("every machine calls itself so")
    } else if is_like_an_address(name) {
        Some("it looks like an IP address")
    } else if own.iter().any(|own| own.trim_end_matches('.').eq_ignore_ascii_case(name)) {
        Some("it is the name of this cloud")
    } else {
        None
    }
}

/// Reports whether programs read the name as an IPv4 address: two to four numbers with dots between, as in `127.1` or `0x7f.0.0.1`.
fn is_like_an_address(name: &str) -> bool {
    let is_number = |part: &str| match part.strip_prefix("0x") {
        Some(digits) => digits.chars().all(|digit| digit.is_ascii_hexdigit()),
        None => part.chars().all(|digit| digit.is_ascii_digit()),
    };
    (2..=4).contains(&name.split('.').count()) && name.split('.').all(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_others_are_told_from_names_of_nodes() {
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
            "cloud.example.com",
        ] {
            assert!(reason(reserved, &own).is_some(), "{reserved}");
        }
        for free in [
            "edge-1",
            "kubernetes-1",
            "svc-1",
            "00012345",
            "10.0.0.1.site",
            "a.1",
            "example.com",
            "1.2.3.4.5",
        ] {
            assert_eq!(reason(free, &own), None, "{free}");
        }
    }
}
