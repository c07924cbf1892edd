//! The cluster domain, and names below it.

use hickory_resolver::proto::rr::{Name, RData, Record, rdata::SOA};

/// The default cluster domain, as kubeadm's.
pub const DEFAULT_DOMAIN: &str = "cluster.local";
/// The TTL of a negative answer, seconds, as in CoreDNS.
const NEGATIVE_TTL: u32 = 5;
/// Refresh, retry and expire of the zone's SOA, seconds, as in CoreDNS.
const TIMES: (i32, i32, i32) = (7200, 1800, 86400);

/// The cluster domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    name: Name,
}

/// The text is not a domain.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not a domain; use one such as {DEFAULT_DOMAIN}")]
pub struct BadDomain(String);

impl Zone {
    /// Parses a domain such as `cluster.local`.
    ///
    /// # Errors
    /// The text is not a domain.
    pub fn new(domain: &str) -> Result<Self, BadDomain> {
        let bad = || BadDomain(domain.to_owned());
        let mut name = Name::from_ascii(domain).map_err(|_| bad())?.to_lowercase();
        name.set_fqdn(true);
        if name.is_root() {
            Err(bad())
        } else {
            Ok(Self { name })
        }
    }

    /// Returns the labels of a name before the domain, in lower case; `None` if the name is outside the domain.
    pub(super) fn labels(&self, name: &Name) -> Option<Vec<String>> {
        if !self.name.zone_of(name) {
            return None;
        }
        // `num_labels` does not count an asterisk
        let own = name.iter().count().saturating_sub(self.name.iter().count());
        let label = |label: &[u8]| String::from_utf8_lossy(label).to_ascii_lowercase();
        Some(name.iter().take(own).map(label).collect())
    }

    /// Returns the name with these labels before the domain; `None` if a label is invalid, or the name too long.
    pub(super) fn name(&self, labels: &[&str]) -> Option<Name> {
        let labels = labels.iter().map(|label| label.as_bytes());
        Name::from_labels(labels)
            .ok()?
            .append_domain(&self.name)
            .ok()
    }

    /// Returns the zone's SOA record, which carries the TTL of negative answers.
    pub(super) fn soa(&self) -> Option<Record> {
        let (refresh, retry, expire) = TIMES;
        let (server, person) = (self.name(&["ns", "dns"])?, self.name(&["hostmaster"])?);
        let soa = SOA::new(server, person, 1, refresh, retry, expire, NEGATIVE_TTL);
        Some(Record::from_rdata(
            self.name.clone(),
            NEGATIVE_TTL,
            RData::SOA(soa),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_those_before_the_domain() {
        let zone = Zone::new("Cluster.Local").unwrap();
        let labels = |name: &str| {
            zone.labels(&Name::from_ascii(name).unwrap())
                .map(|labels| labels.join(" "))
        };
        assert_eq!(
            labels("Web.shop.SVC.cluster.LOCAL."),
            Some("web shop svc".into())
        );
        assert_eq!(labels("cluster.local."), Some(String::new()));
        assert_eq!(labels("*.cluster.local."), Some("*".into()));
        assert_eq!(labels("xcluster.local."), None);
        assert_eq!(labels("local."), None);
        assert_eq!(labels("example.com."), None);
        for bad in ["", ".", "a..b", &"x".repeat(64)] {
            assert!(Zone::new(bad).is_err(), "{bad}");
        }
    }
}
