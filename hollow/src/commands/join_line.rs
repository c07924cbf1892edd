//! The command that makes a machine a node of this cloud, ready to be pasted there.

use std::net::SocketAddr;

use super::{paste, screen::Line};
use crate::reach::Reach;
use cloudsim::{Addresses, kubeconfig::in_url};

/// KubeEdge's ports, which the command need not name.
const HUB_PORT: u16 = 10000;
const CERT_PORT: u16 = 10002;
const STREAM_PORT: u16 = 10004;

/// The word in the place of a token that is to be pasted on another machine.
const TOKEN: &str = "TOKEN";

/// The ports of a cloud that nodes dial.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ports {
    pub(super) hub: u16,
    pub(super) https: u16,
    pub(super) tunnel: Option<u16>,
}

impl From<Addresses> for Ports {
    fn from(at: Addresses) -> Self {
        Self {
            hub: at.websocket.port(),
            https: at.https.port(),
            tunnel: at.tunnel.map(|tunnel| tunnel.port()),
        }
    }
}

/// Returns the lines that explain how to join. `token` is the command that prints the join token, which is not printed itself: this may
/// be a log that more people read.
pub(super) fn lines(reach: &Reach, at: Addresses, token: &str) -> Vec<Line> {
    let here = vec![
        Line::Text("Join this machine as a node, as root:".to_owned()),
        Line::Command(line(
            &paste::agent(),
            reach.inside(),
            at.into(),
            &format!("\"$({token})\""),
        )),
    ];
    let others = match (&reach.outside, reach.is_loopback) {
        (Some(outside), _) => {
            return vec![
                Line::Text(format!(
                    "Join a machine that has edge-agent and a container runtime. First print {TOKEN} here:"
                )),
                Line::Command(token.to_owned()),
                Line::Text("Then run there, as root:".to_owned()),
                Line::Command(line("edge-agent", outside, at.into(), TOKEN)),
            ];
        }
        (None, false) => {
            "For other machines, start cloudsim with --name and a name by which they reach it."
        }
        (None, true) => "Loopback only; for other machines, start cloudsim with --address 0.0.0.0",
    };
    here.into_iter()
        .chain([Line::Note(others.to_owned())])
        .collect()
}

/// Returns the command that joins a cloud with these ports.
pub(super) fn line(program: &str, host: &str, at: Ports, token: &str) -> String {
    let (hub, cert) = (at.hub, at.https);
    let port = if hub == HUB_PORT {
        String::new()
    } else {
        format!(":{hub}")
    };
    let host = if port.is_empty() {
        host.to_owned()
    } else {
        in_url(host)
    };
    let cert = if cert == CERT_PORT {
        String::new()
    } else {
        format!(" --cert-port {cert}")
    };
    let tunnel = match at.tunnel {
        Some(tunnel) if tunnel != STREAM_PORT => format!(" --tunnel-port {tunnel}"),
        _ => String::new(),
    };
    format!("{program} join --cloud {host}{port}{cert}{tunnel} --token {token}")
}

/// Returns the line that explains how edge-agent uses QUIC at this address.
pub(super) fn quic(at: SocketAddr) -> String {
    format!(
        "with modules.edgeHub.websocket.enable: false and modules.edgeHub.quic: {{enable: true, server: {at}}} in edgecore.yaml"
    )
}

#[cfg(test)]
mod tests {
    use agent::cli::{Cli, Command};
    use clap::Parser;

    use super::*;

    #[test]
    fn the_line_is_one_that_the_agent_understands() {
        let at = |hub, https, tunnel| Ports {
            hub,
            https,
            tunnel: Some(tunnel),
        };
        for (host, at, cloud, cert, tunnel) in [
            (
                "192.0.2.10",
                at(10000, 10002, 10004),
                "192.0.2.10:10000",
                10002,
                None,
            ),
            (
                "cloud",
                at(7000, 7002, 7004),
                "cloud:7000",
                7002,
                Some(7004),
            ),
            (
                "2001:db8::7",
                at(10000, 10002, 10004),
                "[2001:db8::7]:10000",
                10002,
                None,
            ),
            (
                "2001:db8::7",
                at(7000, 10002, 10004),
                "[2001:db8::7]:7000",
                10002,
                None,
            ),
        ] {
            let words = shlex::split(&line("edge-agent", host, at, "a.b.c.d")).unwrap();
            let Some(Command::Join(join)) = Cli::try_parse_from(words).unwrap().command else {
                panic!()
            };
            assert_eq!(
                (
                    join.cloud.to_string(),
                    join.cert_port,
                    join.tunnel_port,
                    &*join.token
                ),
                (cloud.to_owned(), cert, tunnel, "a.b.c.d")
            );
        }
    }

    #[test]
    fn a_cloud_on_loopback_says_how_other_machines_reach_it() {
        let at = Addresses {
            api: None,
            health: None,
            https: ([127, 0, 0, 1], 10002).into(),
            websocket: ([127, 0, 0, 1], 10000).into(),
            quic: None,
            tunnel: None,
            relay: None,
            kubelets: None,
            router: None,
            replicas: None,
            metrics_api: None,
            page: None,
        };
        let reach = Reach {
            names: vec!["127.0.0.1".into()],
            outside: None,
            is_loopback: true,
            dialed: "127.0.0.1".into(),
        };
        let said = |reach: &Reach| format!("{:?}", lines(reach, at, "t"));
        let loopback = said(&reach);
        for part in [
            "join --cloud 127.0.0.1 --token",
            "$(t)",
            "--address 0.0.0.0",
        ] {
            assert!(loopback.contains(part), "{part}: {loopback}");
        }
        let reach = Reach {
            outside: Some("192.0.2.1".into()),
            is_loopback: false,
            ..reach
        };
        let outside = said(&reach);
        for part in [
            "Command(\"t\")",
            "Command(\"edge-agent join --cloud 192.0.2.1 --token TOKEN\")",
        ] {
            assert!(outside.contains(part), "{part}: {outside}");
        }
    }
}
