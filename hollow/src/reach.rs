//! Finds the names and addresses of a cloud, from this machine and from others: what its certificates contain, and what nodes are
//! told. Pure except for reading this machine's names.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
    time::Duration,
};

use agent::config::Host;
use cloudsim::kubeconfig::in_url;
use tokio::{net::lookup_host, time::timeout};

use crate::fleet::endpoints::dial_address;

/// How long the resolver may take.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(3);

/// The name and addresses of this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnNames {
    /// Its addresses except loopback and local-only ones; that of the default route comes first.
    pub(crate) addresses: Vec<IpAddr>,
    /// Its name.
    pub(crate) name: String,
}

impl OwnNames {
    /// Reads the name and addresses of this machine.
    pub(crate) fn of_machine() -> Self {
        Self {
            addresses: componentbase::addresses::reachable(),
            name: Host::detect().name,
        }
    }
}

/// The names by which a cloud is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    /// The names in its certificates; the first one is for the kubeconfig.
    pub(crate) names: Vec<String>,
    /// The name by which other machines reach it; `None` if they do not. This machine's own host name is not used: others may not
    /// resolve it.
    pub(crate) outside: Option<String>,
    /// Whether it listens on the loopback interface only.
    pub(crate) is_loopback: bool,
    /// The address at which this machine reaches it.
    pub(crate) dialed: String,
}

impl Reach {
    /// Returns the names of a cloud that listens at `address` and was `given` these names.
    pub(crate) fn of(address: IpAddr, given: &[String], own: &OwnNames) -> Self {
        let mut names = if given.is_empty() {
            by_itself(address, own)
        } else {
            given.to_vec()
        };
        // Nodes of this process dial the address, whatever the cloud is called elsewhere.
        let dialed = dial_address(address).to_string();
        if !names.contains(&dialed) {
            names.push(dialed.clone());
        }
        let mut others = names.iter().filter(|name| !is_of_this_machine(name));
        let own_first = own
            .addresses
            .iter()
            .map(ToString::to_string)
            .find(|own| names.contains(own));
        let outside = match (address.is_loopback(), given.is_empty()) {
            (true, _) => None,
            // The address that others most probably reach.
            (false, true) if address.is_unspecified() => own_first,
            (false, _) => others.next().cloned(),
        };
        Self {
            names,
            outside,
            is_loopback: address.is_loopback(),
            dialed,
        }
    }

    /// Puts the address that this machine dials before names that do not resolve here, so that the kubeconfig works here. Returns the
    /// first name if it was one of these.
    pub(crate) async fn prefer_reachable(&mut self) -> Option<String> {
        let first = self
            .names
            .first()
            .filter(|name| !is_of_this_machine(name))?
            .clone();
        // The port has no effect.
        let found = timeout(RESOLVE_TIMEOUT, lookup_host((first.as_str(), 0))).await;
        if found.is_ok_and(|found| found.is_ok_and(|mut found| found.next().is_some())) {
            return None;
        }
        self.names.retain(|name| *name != self.dialed);
        self.names.insert(0, self.dialed.clone());
        Some(first)
    }

    /// Returns the address of a server to show to people: for one that listens at all addresses, the name by which it is reached.
    pub(crate) fn display_address(&self, at: SocketAddr) -> String {
        let name = at
            .ip()
            .is_unspecified()
            .then(|| self.outside.as_ref().unwrap_or(&self.dialed));
        name.map_or_else(
            || at.to_string(),
            |name| format!("{}:{}", in_url(name), at.port()),
        )
    }

    /// Returns the name by which this machine reaches it.
    pub(crate) fn inside(&self) -> &str {
        self.names
            .iter()
            .find(|name| is_of_this_machine(name))
            .or(self.names.first())
            .map_or("127.0.0.1", String::as_str)
    }
}

/// Checks that a server of this machine can listen at an address.
pub(crate) fn check_address(address: IpAddr, own: &OwnNames) -> anyhow::Result<()> {
    match TcpListener::bind((address, 0)) {
        Err(error) if error.kind() == std::io::ErrorKind::AddrNotAvailable => {
            let own: Vec<String> = own.addresses.iter().map(ToString::to_string).collect();
            anyhow::bail!(
                "{address} is not an address of this machine; set --address to one of {}, or to 0.0.0.0 for all",
                ["127.0.0.1".to_owned()]
                    .into_iter()
                    .chain(own)
                    .collect::<Vec<_>>()
                    .join(", ")
            )
        }
        // Other errors depend on the port, and are reported by the server.
        _ => Ok(()),
    }
}

/// Returns the names of a cloud that was given none.
fn by_itself(address: IpAddr, own: &OwnNames) -> Vec<String> {
    let mut names = Vec::new();
    names.push(dial_address(address).to_string());
    if address == IpAddr::V6(Ipv6Addr::UNSPECIFIED) {
        // It takes connections over IPv4, too.
        names.push(Ipv4Addr::LOCALHOST.to_string());
    }
    names.push("localhost".to_owned());
    if address.is_unspecified() {
        names.extend(own.addresses.iter().map(ToString::to_string));
    }
    if !address.is_loopback() && !names.contains(&own.name) {
        names.push(own.name.clone());
    }
    names
}

fn is_of_this_machine(name: &str) -> bool {
    name == "localhost"
        || name
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(address: &str, given: &[&str]) -> (String, Option<String>) {
        let own = OwnNames {
            addresses: ["192.0.2.10", "10.1.2.3"]
                .map(|address| address.parse().unwrap())
                .into(),
            name: "cloud-1".to_owned(),
        };
        let given: Vec<String> = given.iter().map(|name| (*name).to_owned()).collect();
        let reach = Reach::of(address.parse().unwrap(), &given, &own);
        (reach.names.join(" "), reach.outside)
    }

    #[test]
    fn a_certificate_is_for_every_name_by_which_nodes_may_come() {
        let some = |name: &str| Some(name.to_owned());
        for (address, given, names, outside) in [
            ("127.0.0.1", &[][..], "127.0.0.1 localhost", None),
            ("::1", &[], "::1 localhost", None),
            (
                "0.0.0.0",
                &[],
                "127.0.0.1 localhost 192.0.2.10 10.1.2.3 cloud-1",
                some("192.0.2.10"),
            ),
            (
                "10.1.2.3",
                &[],
                "10.1.2.3 localhost cloud-1",
                some("10.1.2.3"),
            ),
            (
                "::",
                &[],
                "::1 127.0.0.1 localhost 192.0.2.10 10.1.2.3 cloud-1",
                some("192.0.2.10"),
            ),
            (
                "0.0.0.0",
                &["cloud.example.com"],
                "cloud.example.com 127.0.0.1",
                some("cloud.example.com"),
            ),
            (
                "::",
                &["cloud.example.com"],
                "cloud.example.com ::1",
                some("cloud.example.com"),
            ),
            (
                "10.1.2.3",
                &["cloud.example.com"],
                "cloud.example.com 10.1.2.3",
                some("cloud.example.com"),
            ),
            (
                "0.0.0.0",
                &["localhost", "10.1.2.3"],
                "localhost 10.1.2.3 127.0.0.1",
                some("10.1.2.3"),
            ),
            ("0.0.0.0", &["localhost"], "localhost 127.0.0.1", None),
            ("127.0.0.1", &["cloud.test"], "cloud.test 127.0.0.1", None),
        ] {
            assert_eq!(
                reach(address, given),
                (names.to_owned(), outside),
                "{address} {given:?}"
            );
        }
    }

    #[test]
    fn printed_addresses_can_be_used() {
        let own = OwnNames {
            addresses: vec!["192.0.2.10".parse().unwrap()],
            name: "cloud-1".to_owned(),
        };
        for (address, given, at, shown) in [
            ("127.0.0.1", &[][..], "127.0.0.1:6443", "127.0.0.1:6443"),
            ("0.0.0.0", &[], "0.0.0.0:6443", "192.0.2.10:6443"),
            ("::", &[], "[::]:6443", "192.0.2.10:6443"),
            (
                "0.0.0.0",
                &["cloud.test"],
                "0.0.0.0:6443",
                "cloud.test:6443",
            ),
            ("::", &["2001:db8::7"], "[::]:6443", "[2001:db8::7]:6443"),
            ("0.0.0.0", &["localhost"], "0.0.0.0:6443", "127.0.0.1:6443"),
            ("0.0.0.0", &[], "127.0.0.1:9443", "127.0.0.1:9443"),
        ] {
            let given: Vec<String> = given.iter().map(|name| (*name).to_owned()).collect();
            let reach = Reach::of(address.parse().unwrap(), &given, &own);
            assert_eq!(
                reach.display_address(at.parse().unwrap()),
                shown,
                "{address} {given:?}"
            );
        }
    }

    #[tokio::test]
    async fn a_name_that_does_not_resolve_here_is_not_in_the_kubeconfig() {
        for (given, first, warned) in [
            (
                "no-such-host.invalid",
                "127.0.0.1",
                Some("no-such-host.invalid"),
            ),
            ("localhost", "localhost", None),
            ("192.0.2.10", "192.0.2.10", None),
        ] {
            let mut reach = Reach::of(
                [0, 0, 0, 0].into(),
                &[given.to_owned()],
                &OwnNames::default(),
            );
            assert_eq!(reach.prefer_reachable().await.as_deref(), warned, "{given}");
            assert_eq!(
                reach.names.first().map(String::as_str),
                Some(first),
                "{given}"
            );
            assert!(
                reach.names.iter().any(|name| name == given),
                "the certificate is for it"
            );
        }
    }

    #[test]
    fn an_address_of_another_machine_is_refused_with_the_own_ones() {
        let own = OwnNames {
            addresses: vec!["192.0.2.10".parse().unwrap()],
            name: "cloud-1".to_owned(),
        };
        let error = check_address("192.0.2.99".parse().unwrap(), &own)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("192.0.2.99") && error.contains("192.0.2.10, or to 0.0.0.0"),
            "{error}"
        );
        for address in ["127.0.0.1", "0.0.0.0"] {
            check_address(address.parse().unwrap(), &own).unwrap();
        }
    }
}
