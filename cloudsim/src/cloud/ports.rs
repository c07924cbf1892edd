//! Checks the ports of a cloud before it starts, so that all that are in use are reported together.

use std::{
    fmt,
    io::{self, ErrorKind},
    net::{SocketAddr, TcpListener, UdpSocket},
};

use super::Options;

/// A port that another program uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusyPort {
    /// The address with the port.
    address: SocketAddr,
    /// The server that would listen there.
    server: &'static str,
    /// The option for its port.
    option: &'static str,
}

impl fmt::Display for BusyPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            address,
            server,
            option,
        } = self;
        write!(f, "{address} ({server}, {option})")
    }
}

/// The transport of a port.
#[derive(Clone, Copy)]
enum Transport {
    Tcp,
    Udp,
}

/// Returns the ports that are in use. Other reasons for which a server cannot listen are reported by the server.
pub(super) fn find_busy(options: &Options) -> Vec<BusyPort> {
    let all = ports(options).into_iter();
    all.filter(|(transport, busy)| is_in_use(*transport, busy.address))
        .map(|(_, busy)| busy)
        .collect()
}

/// Returns the ports that were chosen, except 0, which is a free one.
fn ports(options: &Options) -> Vec<(Transport, BusyPort)> {
    use Transport::{Tcp, Udp};
    let api = options.cluster.is_none().then_some(options.api_port);
    let kubelets = options.kubelets.as_ref().map(|kubelets| kubelets.port);
    let router = options.router.as_ref().map(|router| router.port);
    let peer = options.cluster.as_ref().and_then(|cluster| cluster.peer);
    let replicas = peer.map(|peer| peer.port);
    let cluster = options.cluster.as_ref();
    let metrics_api = cluster.and_then(|cluster| cluster.metrics_api_port);
    let page = cluster.and_then(|cluster| cluster.page_port);
    let all = [
        (Tcp, api, "API", "--api-port"),
        (
            Tcp,
            Some(options.https_port),
            "certificates",
            "--https-port",
        ),
        (Tcp, Some(options.ws_port), "CloudHub", "--ws-port"),
        (Udp, options.quic_port, "QUIC", "--quic-port"),
        (Tcp, options.tunnel_port, "logs and exec", "--tunnel-port"),
        (Udp, options.relay_port, "relay", "--relay-port"),
        (Tcp, kubelets, "kubelets", "--stream-port"),
        (Tcp, replicas, "replicas", "--replica-port"),
        (Tcp, metrics_api, "metrics API", "--metrics-api-port"),
        (Tcp, page, "live page", "--ui-port"),
        (Tcp, router, "router", "--router-port"),
    ];
    all.into_iter()
        .filter_map(|(transport, port, server, option)| {
            let port = port.filter(|port| *port != 0)?;
            Some((
                transport,
                BusyPort {
                    address: SocketAddr::new(options.address, port),
                    server,
                    option,
                },
            ))
        })
        .collect()
}

fn is_in_use(transport: Transport, at: SocketAddr) -> bool {
    let bound: io::Result<()> = match transport {
        Transport::Tcp => TcpListener::bind(at).map(drop),
        Transport::Udp => UdpSocket::bind(at).map(drop),
    };
    bound.is_err_and(|error| error.kind() == ErrorKind::AddrInUse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ports_in_use_are_reported_together() {
        let (one, two) = (listener(), listener());
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let options = |ws_port, quic_port| Options {
            api_port: port(&one),
            ws_port,
            quic_port,
            ..Options::default().any_ports()
        };
        assert_eq!(find_busy(&options(0, Some(0))).len(), 1);
        let quic = udp.local_addr().unwrap().port();
        let busy = find_busy(&options(port(&two), Some(quic)));
        let shown = busy.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            shown,
            [
                format!("127.0.0.1:{} (API, --api-port)", port(&one)),
                format!("127.0.0.1:{} (CloudHub, --ws-port)", port(&two)),
                format!("127.0.0.1:{quic} (QUIC, --quic-port)"),
            ]
        );
    }

    fn listener() -> TcpListener {
        TcpListener::bind("127.0.0.1:0").unwrap()
    }

    fn port(listener: &TcpListener) -> u16 {
        listener.local_addr().unwrap().port()
    }
}
