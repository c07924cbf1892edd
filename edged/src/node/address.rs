//! The node's addresses, which are looked up repeatedly because an edge machine's network changes.

use std::net::{IpAddr, Ipv4Addr};

use componentbase::addresses;
use k8s_openapi::api::core::v1::NodeAddress;
use tokio::sync::watch;

/// Where the node's address is taken from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressSource {
    /// This fixed address.
    Fixed(IpAddr),
    /// The address of the network interface of this name.
    Interface(String),
    /// The source address of the default route.
    Route,
}

impl AddressSource {
    /// Returns the current address, if there is one. Asks the kernel, which answers at once.
    pub fn detect(&self) -> Option<IpAddr> {
        match self {
            Self::Fixed(address) => Some(*address),
            Self::Interface(name) => addresses::of_interface(name),
            Self::Route => addresses::outgoing(),
        }
    }
}

/// The node's last known addresses. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Addresses {
    source: AddressSource,
    known: watch::Sender<Vec<String>>,
}

impl Addresses {
    /// Looks the addresses up. A machine without a network has the loopback address.
    pub(crate) fn new(source: AddressSource) -> Self {
        let first = source.detect().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        Self {
            source,
            known: watch::Sender::new(vec![first.to_string()]),
        }
    }

    /// Looks the addresses up again and reports whether they have changed. While there is none, the last one is kept.
    pub(crate) fn refresh(&self) -> bool {
        let Some(now) = self.source.detect() else {
            return false;
        };
        let now = vec![now.to_string()];
        self.known.send_if_modified(|known| {
            let changed = *known != now;
            *known = now;
            changed
        })
    }

    /// Returns the IP addresses, at which pods on the host's network can be reached.
    pub(crate) fn ips(&self) -> Vec<String> {
        self.known.borrow().clone()
    }

    /// Returns the addresses of the node status. `name` is the node's name, which is also its host name.
    pub(super) fn of_status(&self, name: &str) -> Vec<NodeAddress> {
        let internal = self.ips().into_iter().map(|ip| ("InternalIP", ip));
        let all = internal.chain([("Hostname", name.to_owned())]);
        all.map(|(type_, address)| NodeAddress {
            type_: type_.to_owned(),
            address,
        })
        .collect()
    }
}

#[cfg(test)]
impl Addresses {
    /// Returns the same addresses with another source.
    pub(super) fn now_from(&self, source: AddressSource) -> Self {
        Self {
            source,
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_looked_up_again_and_kept_while_there_is_none() {
        let fixed = |text: &str| AddressSource::Fixed(text.parse().unwrap());
        let mut addresses = Addresses::new(fixed("192.0.2.1"));
        assert!(!addresses.refresh());
        for (source, changed, ip) in [
            (fixed("192.0.2.2"), true, "192.0.2.2"),
            (
                AddressSource::Interface("no-such".into()),
                false,
                "192.0.2.2",
            ),
            (AddressSource::Interface("lo".into()), true, "127.0.0.1"),
        ] {
            addresses.source = source;
            assert_eq!(
                (addresses.refresh(), addresses.ips()),
                (changed, vec![ip.to_owned()])
            );
        }
        assert_eq!(
            Addresses::new(AddressSource::Interface("no-such".into())).ips(),
            ["127.0.0.1"]
        );
        let told = addresses.of_status("edge-1");
        let told: Vec<_> = told
            .iter()
            .map(|one| (one.type_.as_str(), one.address.as_str()))
            .collect();
        assert_eq!(told, [("InternalIP", "127.0.0.1"), ("Hostname", "edge-1")]);
    }
}
