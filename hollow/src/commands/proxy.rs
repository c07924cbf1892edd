//! The proxy of the environment, for connections to API servers. This program connects to them directly: what NO_PROXY and loopback
//! addresses exclude is reached, and anything else is refused with the cure.

use std::time::Duration;

use agent::edgehub::Proxy;
use anyhow::{Context, bail};
use kube::{Client, Config};

/// How long connecting to an API server may take.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Creates a client that connects directly.
///
/// # Errors
/// The server is behind a proxy, or the credentials cannot be used.
pub(super) fn client(config: Config) -> anyhow::Result<Client> {
    Ok(Client::try_from(directly(config)?)?)
}

/// Returns the configuration without the proxy, which does not apply.
///
/// # Errors
/// It applies.
pub(super) fn directly(config: Config) -> anyhow::Result<Config> {
    without_proxy(config, |name| std::env::var(name).ok())
}

fn without_proxy(
    mut config: Config,
    variable: impl Fn(&str) -> Option<String>,
) -> anyhow::Result<Config> {
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    let Some(url) = config.proxy_url.take() else {
        return Ok(config);
    };
    let (host, port) = (
        config.cluster_url.host().unwrap_or_default(),
        config.cluster_url.port_u16().unwrap_or(443),
    );
    let host = host.trim_start_matches('[').trim_end_matches(']');
    // as kube finds it: the kubeconfig's proxy-url, or else these variables
    let of_environment = ["HTTPS_PROXY", "https_proxy"]
        .into_iter()
        .find_map(|name| variable(name).filter(|text| !text.is_empty()));
    if of_environment.and_then(|text| text.parse().ok()).as_ref() != Some(&url) {
        bail!(
            "the kubeconfig has the proxy-url {} for this cluster; cloudsim connects to API servers directly: remove proxy-url, or run \
             cloudsim where {host} is reachable",
            url.host().unwrap_or_default()
        );
    }
    let proxy = Proxy::from_environment(&variable).context("cannot use the proxy")?;
    match proxy.address_for(host, port) {
        None => Ok(config),
        Some(address) => bail!(
            "{host} would be reached through the proxy {address} of HTTPS_PROXY; cloudsim connects to API servers directly: add {host} to \
             NO_PROXY"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_proxy_that_applies_is_refused_and_its_password_is_not_shown() {
        const URL: &str = "http://user:sekret@proxy.example.org:3128";
        let ready = |server: &str, proxy: Option<&str>, variables: &[(&str, &str)]| {
            let mut config = Config::new(server.parse().unwrap());
            config.proxy_url = proxy.map(|proxy| proxy.parse().unwrap());
            let found = without_proxy(config, |name| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            });
            found
                .map(|config| config.proxy_url.is_none())
                .map_err(|error| error.to_string())
        };
        let set = [("HTTPS_PROXY", URL)];
        assert_eq!(ready("https://192.0.2.1:6443", None, &[]), Ok(true));
        for server in [
            "https://127.0.0.1:6443",
            "https://localhost",
            "https://[::1]:6443",
        ] {
            assert_eq!(ready(server, Some(URL), &set), Ok(true), "{server}");
        }
        let excepted = [("HTTPS_PROXY", URL), ("NO_PROXY", "192.0.2.0/24")];
        assert_eq!(
            ready("https://192.0.2.1:6443", Some(URL), &excepted),
            Ok(true)
        );
        // the file's own proxy is not the one that NO_PROXY is about
        let other = [("HTTPS_PROXY", "http://other:3128"), excepted[1]];
        for (variables, part) in [
            (&set[..], "add 192.0.2.1 to NO_PROXY"),
            (&[], "remove proxy-url"),
            (&other, "remove proxy-url"),
        ] {
            let refused = ready("https://192.0.2.1:6443", Some(URL), variables).unwrap_err();
            assert!(refused.contains(part), "{refused}");
            assert!(!refused.contains("sekret"), "{refused}");
        }
    }
}
