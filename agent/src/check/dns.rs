//! Check `dns`: the host names of the cloud have addresses.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use tokio::{net::lookup_host, time::timeout};

use super::{
    inputs::Inputs,
    report::{CheckResult, Finding},
};
use crate::{app, config::Config, config::HostPort};

/// How long a name server may take.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

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
    let why = match timeout(LOOKUP_TIMEOUT, lookup_host((host, 0))).await {
        Ok(Ok(found)) => {
            let found: BTreeSet<String> = found.map(|address| address.ip().to_string()).collect();
            if !found.is_empty() {
                let all: Vec<String> = found.into_iter().collect();
                return CheckResult::Passed(format!("{host} is {}", all.join(", ")));
            }
            "the name has no address".to_owned()
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {} s", LOOKUP_TIMEOUT.as_secs()),
    };
    CheckResult::bad(
        format!("cannot resolve {host}: {why}"),
        format!(
            "connect this machine to its network, and check the name servers in /etc/resolv.conf (getent hosts {host}); or name the \
             cloud by its address"
        ),
    )
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
            let (_, cure) = found.texts();
            assert!(is_good || cure.is_some_and(|cure| cure.contains("/etc/resolv.conf")));
        }
    }
}
