//! Check `dns`: the host names of the cloud have addresses.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use tokio::time::timeout;

use super::{
    inputs::Inputs,
    report::{CheckResult, Finding},
};
use crate::{app, config::Config, config::HostPort, edgehub};

/// How long a name server may take.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// How errors of a name without an address end: that of this program, of glibc and of musl.
const UNKNOWN_NAME: [&str; 4] = [
    "the name has no address",
    "Name or service not known",
    "No address associated with hostname",
    "Name does not resolve",
];

pub(crate) async fn check(inputs: &Inputs<'_>) -> Finding {
    let proxy = app::hub_config(inputs.config).map(|config| config.proxy);
    let mut seen = BTreeSet::new();
    let mut parts = Vec::new();
    for server in servers(inputs.config) {
        if !seen.insert(server.host.clone()) {
            continue;
        }
        let proxy = proxy.as_ref().ok();
        let is_proxied =
            proxy.is_some_and(|one| one.address_for(&server.host, server.port).is_some());
        parts.push(match is_proxied {
            true => CheckResult::Passed(format!("{} is resolved by the proxy", server.host)),
            false => resolve(&server.host).await,
        });
    }
    let none = CheckResult::NotApplicable("no server is configured".into());
    Finding::combine(parts, none)
}

/// Returns all servers of the cloud.
pub(crate) fn servers(config: &Config) -> Vec<HostPort> {
    let hub = &config.edge_hub;
    let streams = config
        .edge_stream
        .iter()
        .map(|stream| &stream.endpoint.server);
    hub.http_servers
        .iter()
        .chain(&hub.servers)
        .chain(streams)
        .cloned()
        .collect()
}

async fn resolve(host: &str) -> CheckResult {
    if host.parse::<IpAddr>().is_ok() {
        return CheckResult::Passed(format!("{host} is an address"));
    }
    let why = match timeout(LOOKUP_TIMEOUT, edgehub::resolve(&format!("{host}:0"))).await {
        Ok(Ok(found)) => {
            let found: BTreeSet<String> = found.map(|address| address.ip().to_string()).collect();
            if !found.is_empty() {
                let all: Vec<String> = found.into_iter().collect();
                return CheckResult::Passed(format!("{host} is {}", all.join(", ")));
            }
            format!("cannot resolve {host}: {}", UNKNOWN_NAME[0])
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!(
            "cannot resolve {host}: no answer within {} s",
            LOOKUP_TIMEOUT.as_secs()
        ),
    };
    let cure = cure(host, &why);
    CheckResult::bad(why, cure)
}

/// Returns the cure of an error of a lookup.
fn cure(host: &str, why: &str) -> String {
    match UNKNOWN_NAME.iter().any(|text| why.ends_with(text)) {
        true => format!(
            "no name server knows this name: correct it in edgecore.yaml, or add it to DNS or to /etc/hosts; `getent hosts {host}` tests it"
        ),
        false => format!(
            "connect this machine to its network, and check the name servers in /etc/resolv.conf (getent hosts {host}); or name the \
             cloud by its address"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn name_without_address_is_an_error() {
        for (host, is_good) in [
            ("127.0.0.1", true),
            ("::1", true),
            ("localhost", true),
            ("no-such-cloud.invalid", false),
        ] {
            let found = resolve(host).await;
            assert_eq!(
                matches!(found, CheckResult::Passed(_)),
                is_good,
                "{found:?}"
            );
        }
    }

    #[test]
    fn unknown_name_and_silent_name_server_have_different_cures() {
        for (why, part) in [
            (
                "Name or service not known",
                "no name server knows this name",
            ),
            (
                "No address associated with hostname",
                "no name server knows this name",
            ),
            ("Name does not resolve", "no name server knows this name"),
            ("Temporary failure in name resolution", "/etc/resolv.conf"),
            ("Try again", "/etc/resolv.conf"),
            ("no answer within 5 s", "/etc/resolv.conf"),
        ] {
            let cure = cure("cloud.test", &format!("cannot resolve cloud.test: {why}"));
            assert!(cure.contains(part), "{why}: {cure}");
        }
    }
}
