//! Check `proxy`: the proxy of this shell and of the running agent.

use std::{collections::BTreeMap, path::Path};

use limits::read_regular_file;

use super::{
    dns::servers,
    inputs::Inputs,
    report::{CheckResult, Finding},
};
use crate::{
    config::{Config, Transport},
    edgehub::Proxy,
    systemd,
};

/// The variables that the agent reads.
const VARIABLES: [&str; 4] = ["HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"];
/// The largest environment that is read, bytes.
const MAX_ENVIRONMENT: u64 = 1024 * 1024;

/// The variables of a process that are set.
type Environment = BTreeMap<&'static str, String>;

pub(crate) fn check(inputs: &Inputs<'_>) -> Finding {
    let own = environment(|name| std::env::var(name).ok());
    let process = inputs.agent().and_then(|holder| holder.process);
    let agent = process.and_then(|process| environment_of(Path::new("/proc"), process));
    judge(inputs.config, &own, agent.as_ref())
}

fn environment(variable: impl Fn(&str) -> Option<String>) -> Environment {
    let set = VARIABLES
        .into_iter()
        .filter_map(|name| Some((name, variable(name)?)));
    set.filter(|(_, value)| !value.trim().is_empty()).collect()
}

/// Reads the environment of a process; `None` if this user may not.
fn environment_of(proc: &Path, process: u32) -> Option<Environment> {
    let file = proc.join(process.to_string()).join("environ");
    let text = read_regular_file(&file, MAX_ENVIRONMENT).ok()?;
    let text = String::from_utf8_lossy(&text);
    Some(environment(|name| {
        let mut pairs = text.split('\0').filter_map(|pair| pair.split_once('='));
        pairs
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value.to_owned())
    }))
}

/// Judges the variables of this command, and those of the agent if they are known. Values are not shown: they may have passwords.
fn judge(config: &Config, own: &Environment, agent: Option<&Environment>) -> Finding {
    let proxy = match Proxy::from_environment(|name| own.get(name).cloned()) {
        Ok(proxy) => proxy,
        Err(error) => {
            return CheckResult::bad(
                format!("{} is not usable: {}", error.variable, error.why),
                "set it to http://host:port, or remove it",
            )
            .into();
        }
    };
    let servers = servers(config);
    let mut parts: Vec<CheckResult> = servers
        .iter()
        .filter_map(|server| Some((server, proxy.address_for(&server.host, server.port)?)))
        .map(|(server, address)| {
            CheckResult::Passed(format!("{server} through the proxy {address}"))
        })
        .collect();
    if parts.is_empty() {
        let set: Vec<&str> = own.keys().copied().collect();
        parts.push(CheckResult::Passed(match set.is_empty() {
            true => "no proxy is set".to_owned(),
            false => format!(
                "{} set, but no server of the cloud uses the proxy",
                set.join(", ")
            ),
        }));
    } else if config.edge_hub.transport == Transport::Quic {
        parts.push(CheckResult::warning(
            "a proxy is set, but QUIC does not use it",
            "use modules.edgeHub.websocket if the cloud is only reachable through the proxy",
        ));
    }
    if let Some(agent) = agent {
        let differing: Vec<&str> = VARIABLES
            .into_iter()
            .filter(|name| own.get(name) != agent.get(name))
            .collect();
        if !differing.is_empty() {
            parts.push(CheckResult::warning(
                format!("{} of the agent differs from this shell's", differing.join(", ")),
                format!(
                    "the checks use the variables of this shell; set those of the service in {}, as HTTPS_PROXY=…, and restart it: \
                     systemctl restart edge-agent",
                    systemd::environment_file().display()
                ),
            ));
        }
    }
    Finding::combine(parts, CheckResult::Passed("no proxy is set".into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::tests::node_config;

    #[test]
    fn invalid_proxy_and_differences_from_the_agent_are_reported_without_values() {
        let directory = tempfile::tempdir().unwrap();
        let config = node_config(&directory, "192.0.2.10");
        let set = |text: &str| environment(|name| (name == "HTTPS_PROXY").then(|| text.to_owned()));
        let (none, secret) = (Environment::new(), "http://me:secret7@proxy:3128");
        for (own, agent, expected) in [
            (none.clone(), None, "no proxy is set"),
            (none.clone(), Some(none.clone()), "no proxy is set"),
            (set(secret), None, "through the proxy proxy:3128"),
            (
                set(secret),
                Some(set(secret)),
                "through the proxy proxy:3128",
            ),
            (
                set(secret),
                Some(none.clone()),
                "HTTPS_PROXY of the agent differs",
            ),
            (none, Some(set(secret)), "HTTPS_PROXY of the agent differs"),
            (
                set("socks5://secret7"),
                None,
                "SOCKS proxies are not supported",
            ),
        ] {
            let found = judge(&config, &own, agent.as_ref());
            let text = format!("{found:?}");
            assert!(found.result.texts().0.contains(expected), "{text}");
            assert!(!text.contains("secret7"), "{text}");
        }
    }
}
