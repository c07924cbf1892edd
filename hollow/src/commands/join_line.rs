//! The command that makes a machine a node of this cloud, ready to be pasted there.

use super::paste;
use crate::reach::Reach;
use cloudsim::{Addresses, kubeconfig::in_url};

/// KubeEdge's ports, which the command need not name.
const HUB_PORT: u16 = 10000;
const CERT_PORT: u16 = 10002;
const STREAM_PORT: u16 = 10004;

/// What happens to the nodes of a cloud without a data directory.
const IN_MEMORY: &str = "This cloud is in memory: nodes must join again after its restart; --data-dir DIR keeps everything";

/// The word in the place of a token that is to be pasted on another machine.
const TOKEN: &str = "TOKEN";

/// Returns the lines that explain how to join. `token` is the command that prints the join token, which is not printed itself: this may
/// be a log that more people read. `is_kept` says that the cloud has a data directory.
pub(super) fn lines(reach: &Reach, at: Addresses, token: &str, is_kept: bool) -> Vec<String> {
    let mut all = how(reach, at, token);
    if !is_kept {
        all.push(IN_MEMORY.to_owned());
    }
    all
}

fn how(reach: &Reach, at: Addresses, token: &str) -> Vec<String> {
    let here = format!("\"$({token})\"");
    let line =
        |program: &str, host: &str, token: &str| format!("  {}", line(program, host, at, token));
    match (&reach.outside, reach.is_loopback) {
        (Some(outside), _) => vec![
            format!(
                "To join a machine, run this as root there, with the join token for {TOKEN}. The machine needs edge-agent and a container runtime:"
            ),
            line("edge-agent", outside, TOKEN),
        ],
        (None, false) => vec![
            "To join this machine, as root:".to_owned(),
            line(&paste::agent(), reach.inside(), &here),
            "Other machines have no name for this cloud: give one that they reach it by with --name".to_owned(),
        ],
        (None, true) => vec![
            "To join this machine, as root:".to_owned(),
            line(&paste::agent(), reach.inside(), &here),
            "Other machines do not reach this cloud, which listens on the loopback interface only: for them, start it with --address 0.0.0.0"
                .to_owned(),
        ],
    }
}

fn line(program: &str, host: &str, at: Addresses, token: &str) -> String {
    let (hub, cert) = (at.websocket.port(), at.https.port());
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
        Some(tunnel) if tunnel.port() != STREAM_PORT => format!(" --tunnel-port {}", tunnel.port()),
        _ => String::new(),
    };
    format!("{program} join --cloud {host}{port}{cert}{tunnel} --token {token}")
}

#[cfg(test)]
mod tests {
    use agent::cli::{Cli, Command};
    use clap::Parser;

    use super::*;

    #[test]
    fn the_line_is_one_that_the_agent_understands() {
        let at = |hub: u16, https: u16, tunnel: u16| Addresses {
            api: None,
            health: None,
            https: ([0, 0, 0, 0], https).into(),
            websocket: ([0, 0, 0, 0], hub).into(),
            quic: None,
            tunnel: Some(([0, 0, 0, 0], tunnel).into()),
            relay: None,
            kubelets: None,
            router: None,
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
    fn what_listens_to_this_machine_alone_says_so() {
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
        };
        let reach = Reach {
            names: vec!["127.0.0.1".into()],
            outside: None,
            is_loopback: true,
            dialed: "127.0.0.1".into(),
        };
        let said = lines(&reach, at, "t", false).join("\n");
        assert!(
            said.contains("join --cloud 127.0.0.1 --token \"$(t)\"")
                && said.contains("--address 0.0.0.0"),
            "{said}"
        );
        assert!(
            said.contains("in memory") && said.contains("--data-dir"),
            "{said}"
        );
        let reach = Reach {
            outside: Some("192.0.2.1".into()),
            is_loopback: false,
            ..reach
        };
        let said = lines(&reach, at, "t", true).join("\n");
        assert!(
            said.contains("  edge-agent join --cloud 192.0.2.1 --token TOKEN"),
            "{said}"
        );
        assert!(!said.contains("in memory"), "{said}");
    }
}
