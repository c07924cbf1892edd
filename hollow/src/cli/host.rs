//! Host names and addresses on the command line.

use std::net::IpAddr;

/// The longest host name and the longest label in it, bytes (RFC 1123).
const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;

/// Parses a host name or an IP address, without a port.
pub(super) fn host(text: &str) -> Result<String, String> {
    if let Some((_, rest)) = text.split_once("://") {
        let host = rest.split(['/', ':']).next().unwrap_or_default();
        return Err(format!(
            "a URL; give only the host name or IP address, such as {}",
            example(host)
        ));
    }
    if text.parse::<IpAddr>().is_ok() {
        return Ok(text.to_owned());
    }
    if let Some(address) = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        && address.parse::<IpAddr>().is_ok()
    {
        return Err(format!("an address in brackets; write {address}"));
    }
    if let Some((host, port)) = text.rsplit_once(':')
        && port.parse::<u16>().is_ok()
    {
        let host = host.trim_matches(['[', ']']);
        return Err(format!(
            "a host with a port; write {host}, and set ports with options such as --api-port"
        ));
    }
    if text.contains('*') {
        return Err("a wildcard; give each host name with an option of its own".to_owned());
    }
    if is_name(text) {
        return Ok(text.to_owned());
    }
    if is_name(text.trim_end_matches('.')) && text.ends_with('.') {
        return Err(format!(
            "a name with a dot at its end; write {}",
            text.trim_end_matches('.')
        ));
    }
    Err("neither an IP address nor a host name: letters, digits, `-` and `.` (RFC 1123)".to_owned())
}

/// Parses the address at which a server listens.
pub(super) fn listen_address(text: &str) -> Result<IpAddr, String> {
    match text.parse::<IpAddr>() {
        Ok(address) if !address.is_multicast() => Ok(address),
        Ok(_) => Err("a multicast address; give an address of this machine, or 0.0.0.0 for all".to_owned()),
        Err(_) => Err(
            "not an IP address; give one of this machine, or 0.0.0.0 for all; a host name for certificates is set with --name"
                .to_owned(),
        ),
    }
}

fn example(host: &str) -> &str {
    if is_name(host) {
        host
    } else {
        "cloud.example.com"
    }
}

/// Reports whether a text is a host name. A name whose last label is a number would be read as an address.
fn is_name(text: &str) -> bool {
    let is_label = |label: &str| {
        (1..=MAX_LABEL).contains(&label.len())
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last = text.rsplit('.').next().unwrap_or_default();
    text.len() <= MAX_NAME
        && text.split('.').all(is_label)
        && !last.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::cli::Cli;

    /// Returns the error of a command line, `None` if it is accepted.
    fn refusal(words: &[&str], option: &str, value: &str) -> Option<String> {
        let words = words.iter().map(|word| (*word).to_owned());
        let given = [format!("{option}={value}")];
        let parsed = Cli::try_parse_from(
            ["cloudsim".to_owned()]
                .into_iter()
                .chain(words)
                .chain(given),
        );
        parsed.err().map(|error| error.to_string())
    }

    #[test]
    fn options_for_hosts_and_addresses_refuse_everything_else_with_the_cure() {
        let hollow = &["hollow", "--token-file", "t"];
        let selftest = &["selftest", "--token-file", "t"];
        let hosts: [(&[&str], &str); 3] = [
            (&["up"], "--name"),
            (hollow, "--cloud"),
            (selftest, "--cloud"),
        ];
        for (command, option) in hosts {
            for good in [
                "cloud",
                "cloud.example.com",
                "192.0.2.10",
                "::1",
                "2001:db8::7",
                "a-1.b2",
                "Cloud",
                "1.example",
            ] {
                assert_eq!(refusal(command, option, good), None, "{option} {good}");
            }
            for (bad, cure) in [
                ("", "host name"),
                ("bad name", "host name"),
                ("foo:8443", "write foo,"),
                ("[::1]:8443", "write ::1,"),
                ("[::1]", "write ::1"),
                ("https://cloud.example", "such as cloud.example"),
                ("https://cloud.example:6443/x", "such as cloud.example"),
                ("wss://", "such as cloud.example.com"),
                ("*.example", "each host name"),
                ("cloud.example.", "write cloud.example"),
                ("256.1.1.1", "neither an IP address"),
                ("1.2.3", "neither an IP address"),
                ("a..b", "host name"),
                ("-a", "host name"),
                ("a_b", "host name"),
                ("a/b", "host name"),
                ("k\u{f6}ln", "host name"),
            ] {
                let refused =
                    refusal(command, option, bad).unwrap_or_else(|| panic!("{option} {bad}"));
                assert!(
                    refused.contains(option) && refused.contains(cure),
                    "{bad}: {refused}"
                );
            }
        }
    }

    #[test]
    fn addresses_and_node_names_are_checked_when_they_are_read() {
        let hollow = &["hollow", "--token-file", "t", "--cloud", "c"];
        let refused: [(&[&str], &str, &str, &str); 9] = [
            (&["up"], "--address", "localhost", "--name"),
            (&["up"], "--address", "0.0.0.0:6443", "not an IP address"),
            (&["up"], "--address", "", "not an IP address"),
            (&["up"], "--address", "224.0.0.1", "multicast"),
            (hollow, "--node-ip", "0.0.0.0", "address of the node"),
            (hollow, "--node-ip", "ff02::1", "address of the node"),
            (hollow, "--node-ip", "edge-1", "address of the node"),
            (hollow, "--prefix", "Edge node", "RFC 1123"),
            (&["token"], "--node", "Edge_1", "RFC 1123"),
        ];
        for (command, option, bad, cure) in refused {
            let refused = refusal(command, option, bad).unwrap_or_else(|| panic!("{option} {bad}"));
            assert!(
                refused.contains(option) && refused.contains(cure),
                "{bad}: {refused}"
            );
        }
        let accepted: [(&[&str], &str, &str); 6] = [
            (&["up"], "--address", "::"),
            (&["up"], "--address", "0.0.0.0"),
            (&["up"], "--address", "192.0.2.1"),
            (hollow, "--node-ip", "127.0.0.1"),
            (hollow, "--prefix", "edge"),
            (&["token"], "--node", "edge-1.site"),
        ];
        for (command, option, good) in accepted {
            assert_eq!(refusal(command, option, good), None, "{option} {good}");
        }
    }
}
