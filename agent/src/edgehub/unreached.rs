//! The cure if a server of the cloud cannot be reached. Pure.

use std::io::{self, ErrorKind};

use super::dial::tcp::ProxyFailure;

/// Returns the cure of an error of a TCP connection to this server, `HOST:PORT`, which is in this setting or option.
pub(crate) fn unreached_cure(error: &io::Error, server: &str, setting: &str) -> String {
    let port = server.rsplit_once(':').map_or(server, |(_, port)| port);
    let inner = error.get_ref();
    if inner.is_some_and(|inner| inner.is::<ProxyFailure>()) {
        return format!(
            "check HTTPS_PROXY (for the service: /etc/default/edge-agent), and that this proxy allows connections to port {port}"
        );
    }
    match error.kind() {
        ErrorKind::NotFound => {
            format!("correct the name in {setting}, or the name servers in /etc/resolv.conf")
        }
        ErrorKind::ConnectionRefused => format!(
            "nothing listens at TCP port {port} there: check that the cloud runs and listens for other machines (cloudsim up --address \
             0.0.0.0), and check {setting}"
        ),
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => format!(
            "check that the machine of the cloud runs, and the route to it; if it has another address now, correct {setting}"
        ),
        _ => format!("open TCP port {port} of the cloud in firewalls, and check {setting}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cure_depends_on_the_cause() {
        for (kind, part) in [
            (ErrorKind::NotFound, "correct the name in modules.x"),
            (
                ErrorKind::ConnectionRefused,
                "nothing listens at TCP port 10004",
            ),
            (ErrorKind::HostUnreachable, "the route to it"),
            (ErrorKind::NetworkUnreachable, "the route to it"),
            (ErrorKind::TimedOut, "open TCP port 10004"),
            (ErrorKind::ConnectionReset, "open TCP port 10004"),
        ] {
            let error = io::Error::from(kind);
            let cure = unreached_cure(&error, "[fd00::1]:10004", "modules.x");
            assert!(cure.contains(part), "{kind}: {cure}");
            let proxied = ProxyFailure::new("127.0.0.1:3128", error);
            let cure = unreached_cure(&io::Error::new(kind, proxied), "a:10004", "modules.x");
            assert!(cure.contains("HTTPS_PROXY"), "{kind}: {cure}");
        }
    }
}
