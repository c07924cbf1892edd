//! Converts single values from text and whole numbers to Rust's types; an invalid one adds an error and gets a placeholder.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use crate::config::{
    duration,
    host::is_of_node,
    report::{Report, WarningKind},
    typed::{HostPort, Secret},
};

/// The path of the kubelet's own settings.
pub(super) const KUBELET: &str = "modules.edged.tailoredKubeletConfig";

/// Converts values and collects their errors.
pub(super) struct Values<'a> {
    report: &'a mut Report,
}

impl<'a> Values<'a> {
    pub(super) fn new(report: &'a mut Report) -> Self {
        Self { report }
    }

    pub(super) fn error(&mut self, path: &str, message: impl Into<String>) {
        self.report.error(path, message);
    }

    /// Warns of a setting that has no effect.
    pub(super) fn warn_unused(&mut self, path: String) {
        self.report.warn(WarningKind::NotUsed { path });
    }

    /// Warns of a setting that has no effect because of another one.
    pub(super) fn no_effect(&mut self, path: String, cause: &'static str) {
        self.report.warn(WarningKind::NoEffect { path, cause });
    }

    /// Warns of an unknown key where only `known` is one.
    pub(super) fn unknown(&mut self, path: String, known: &str) {
        let name = path.rsplit('.').next().unwrap_or_default();
        let near = wire::nearest(name, std::iter::once(known));
        self.report.warn(WarningKind::UnknownKey { path, near });
    }

    /// Converts a whole number between `low` and `high`, which fit into `T`.
    pub(super) fn number<T: TryFrom<i64> + Default>(
        &mut self,
        path: &str,
        value: i64,
        low: i64,
        high: i64,
    ) -> T {
        if (low..=high).contains(&value)
            && let Ok(value) = T::try_from(value)
        {
            return value;
        }
        self.error(
            path,
            format!("is {value}, but must be from {low} to {high}"),
        );
        T::default()
    }

    /// Converts whole seconds, at least `low`.
    pub(super) fn seconds(&mut self, path: &str, value: i64, low: i64) -> Duration {
        Duration::from_secs(self.number(path, value, low, i64::from(i32::MAX)))
    }

    /// Converts a duration that is used as an interval: 0 is invalid.
    pub(super) fn frequency(&mut self, path: &str, text: &str) -> Duration {
        let found = self.duration(path, text);
        if found.is_zero() && text.starts_with('0') {
            self.error(path, "is 0, but must be longer");
        }
        found
    }

    /// Converts a duration in Go's notation.
    pub(super) fn duration(&mut self, path: &str, text: &str) -> Duration {
        duration::parse(text).unwrap_or_else(|| {
            self.error(
                path,
                format!("is {text:?}, but must be a duration such as 10s, 1m30s or 500ms"),
            );
            Duration::ZERO
        })
    }

    /// Converts a required absolute path: the agent's working directory is arbitrary.
    pub(super) fn path(&mut self, path: &str, text: String) -> PathBuf {
        if !text.starts_with('/') {
            self.error(
                path,
                format!("is {text:?}, but must be a path from the root, such as /etc/kubeedge/…"),
            );
        }
        PathBuf::from(text)
    }

    /// Converts an optional path.
    pub(super) fn optional_path(&mut self, path: &str, text: String) -> Option<PathBuf> {
        (!text.is_empty()).then(|| self.path(path, text))
    }

    pub(super) fn address(&mut self, path: &str, text: &str) -> IpAddr {
        text.parse().unwrap_or_else(|_| {
            self.error(path, format!("is {text:?}, but must be an IP address"));
            Ipv4Addr::LOCALHOST.into()
        })
    }

    /// Converts the address that the node reports.
    pub(super) fn node_address(&mut self, path: &str, text: &str) -> IpAddr {
        let address = self.address(path, text);
        if !is_of_node(address) {
            self.error(
                path,
                format!("is {text:?}, but must be an address by which the node is reached"),
            );
        }
        address
    }

    /// Converts an address of this machine with a port.
    pub(super) fn socket(&mut self, path: &str, text: &str) -> SocketAddr {
        text.parse().unwrap_or_else(|_| {
            self.error(
                path,
                format!(
                    "is {text:?}, but must be an IP address and a port, such as 127.0.0.1:10550"
                ),
            );
            SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
        })
    }

    /// Converts a server by name or address.
    pub(super) fn host_port(&mut self, path: &str, text: &str) -> HostPort {
        match parse_host_port(text) {
            Ok(server) => server,
            Err(why) => {
                self.error(path, format!("is {text:?}: {why}"));
                HostPort {
                    host: String::new(),
                    port: 0,
                }
            }
        }
    }

    /// Converts a required text.
    pub(super) fn text(&mut self, path: &str, text: String) -> String {
        if text.trim().is_empty() {
            self.error(path, "is empty; remove the line to get the default value");
        }
        text
    }
}

/// Returns `None` for an empty text.
pub(super) fn optional(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

/// Returns `None` for an empty text; the value is not shown.
pub(super) fn secret(text: String) -> Option<Secret> {
    optional(text).map(Secret::new)
}

/// Parses `host:port`, with an IPv6 address in brackets.
pub(in crate::config) fn parse_host_port(text: &str) -> Result<HostPort, &'static str> {
    if text.contains("://") {
        return Err("write host:port without a scheme");
    }
    let (host, port) = text
        .rsplit_once(':')
        .ok_or("the port is missing, write host:port")?;
    let port: u16 = port
        .parse()
        .map_err(|_| "the part after the last colon must be a port from 1 to 65535")?;
    if port == 0 {
        return Err("port 0 cannot be dialled");
    }
    let host = match host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
    {
        Some(inner) if inner.parse::<std::net::Ipv6Addr>().is_ok() => inner,
        Some(_) => return Err("the part in brackets must be an IPv6 address"),
        None if host.contains(':') => {
            return Err("an IPv6 address must be in brackets: [::1]:10000");
        }
        None => host,
    };
    let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    if host.is_empty() || !host.chars().all(letter) {
        return Err("the host must be a name or an IP address");
    }
    Ok(HostPort {
        host: host.to_owned(),
        port,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers() {
        for good in [
            "cloud:10000",
            "10.0.0.1:1",
            "[::1]:65535",
            "a-b.example.com:443",
            "docker_host:80",
        ] {
            assert_eq!(parse_host_port(good).unwrap().to_string(), good);
        }
        for bad in [
            "",
            "cloud",
            ":10000",
            "cloud:",
            "cloud:0",
            "cloud:65536",
            "::1:10000",
            "[x]:1",
            "wss://cloud:10000",
            "a b:1",
            "cloud/x:1",
            "[::1]",
        ] {
            assert!(parse_host_port(bad).is_err(), "{bad}");
        }
    }
}
