//! What is on a machine: container runtimes, an MQTT broker, processes.

use std::{net::Ipv4Addr, path::Path, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::{
    app,
    cli::Join,
    config::{CgroupDriver, HostPort},
    edged::{RuntimeInfo, RuntimeInfoError, runtime_info},
    edgehub::{Proxy, connect_tcp},
};

/// Where container runtimes listen that are there for nobody else: kubeadm's list.
const SOCKETS: [&str; 3] =
    ["/run/containerd/containerd.sock", "/var/run/crio/crio.sock", "/run/cri-dockerd.sock"];
/// Where MQTT brokers listen.
const MQTT_PORT: u16 = 1883;
/// Where the agent's own listens: EdgeCore's default.
const INTERNAL_PORT: u16 = 1884;
/// Where clouds take stream tunnels: CloudCore's default.
pub(super) const STREAM_PORT: u16 = 10004;
/// A broker on this machine answers within this.
const BROKER_TIMEOUT: Duration = Duration::from_secs(2);
/// CONNECT of MQTT 3.1.1, a clean session of client `join`.
const CONNECT: &[u8] = b"\x10\x10\x00\x04MQTT\x04\x02\x00\x0a\x00\x04join";
/// The first byte of its answer, CONNACK, and the second.
const CONNACK: [u8; 2] = [0x20, 0x02];

/// What was found at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broker {
    /// A broker that takes clients.
    Open,
    /// A broker that refuses clients without a name and a password; the code.
    Refuses(u8),
    /// Something that speaks another language.
    Other,
    /// Nothing.
    Nobody,
}

impl Broker {
    /// Whether it is a broker.
    pub(super) fn is_one(self) -> bool {
        matches!(self, Self::Open | Self::Refuses(_))
    }
}

/// A runtime and what it said.
pub(super) type RuntimeAnswer = (String, Result<RuntimeInfo, RuntimeInfoError>);

/// What is on this machine.
#[derive(Debug)]
pub(super) struct Machine {
    /// Runtimes that were asked, each by its endpoint.
    pub(super) runtimes: Vec<RuntimeAnswer>,
    /// The one to take; the usual one where there is none.
    pub(super) endpoint: String,
    /// What is at [`Self::broker_port`].
    pub(super) broker: Broker,
    /// Where the broker is, or is to be.
    pub(super) broker_port: u16,
    /// The port of the cloud's stream server, where one was named or listens.
    pub(super) tunnel_port: Option<u16>,
}

impl Machine {
    /// Looks, and changes nothing.
    pub(super) async fn inspect(join: &Join) -> Self {
        let endpoints: Vec<String> = match &join.runtime_endpoint {
            Some(endpoint) if endpoint.starts_with("unix://") => vec![endpoint.clone()],
            Some(path) => vec![format!("unix://{path}")],
            // the machine's own may be another agent's
            None if !join.place.is_machine() => Vec::new(),
            None => SOCKETS
                .iter()
                .filter(|path| Path::new(path).exists())
                .map(|path| format!("unix://{path}"))
                .collect(),
        };
        let mut runtimes = Vec::new();
        for endpoint in endpoints {
            let found = match app::connect(&endpoint) {
                Ok(channel) => runtime_info(channel).await,
                Err(error) => Err(RuntimeInfoError::NoAnswer(error.to_string())),
            };
            runtimes.push((endpoint, found));
        }
        let first = runtimes.iter().find(|(_, found)| found.is_ok()).or(runtimes.first());
        let endpoint =
            first.map_or_else(|| format!("unix://{}", SOCKETS[0]), |(endpoint, _)| endpoint.clone());
        let asked = join.mqtt_port.unwrap_or(MQTT_PORT);
        let broker = broker_at(asked).await;
        let broker_port = if broker.is_one() { asked } else { join.mqtt_port.unwrap_or(INTERNAL_PORT) };
        let tunnel_port = match join.tunnel_port {
            None => listens(join, STREAM_PORT).await.then_some(STREAM_PORT),
            named => named,
        };
        Self { runtimes, endpoint, broker, broker_port, tunnel_port }
    }

    /// Runtimes that answer.
    pub(super) fn answering(&self) -> impl Iterator<Item = (&str, &RuntimeInfo)> {
        self.runtimes.iter().filter_map(|(endpoint, found)| Some((endpoint.as_str(), found.as_ref().ok()?)))
    }

    /// Who makes control groups; directories, where nobody tells: EdgeCore's default.
    pub(super) fn driver(&self) -> CgroupDriver {
        self.answering().find_map(|(_, found)| found.driver).unwrap_or_default()
    }
}

/// Whether the cloud's machine has anything at this port.
async fn listens(join: &Join, port: u16) -> bool {
    let Ok(proxy) = Proxy::from_environment(|name| std::env::var(name).ok()) else { return false };
    let address = HostPort { port, ..join.cloud.clone() };
    timeout(BROKER_TIMEOUT, connect_tcp(&address, &proxy)).await.is_ok_and(|connected| connected.is_ok())
}

/// Asks whatever listens there.
async fn broker_at(port: u16) -> Broker {
    let asked = timeout(BROKER_TIMEOUT, async {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.map_err(|_| Broker::Nobody)?;
        let mut answer = [0; 4];
        let exchange = async {
            stream.write_all(CONNECT).await?;
            stream.read_exact(&mut answer).await.map(drop)
        };
        exchange.await.map_err(|_: std::io::Error| Broker::Other)?;
        Ok::<_, Broker>(answer)
    });
    match asked.await {
        Ok(Ok([first, second, _, code])) if [first, second] == CONNACK => {
            if code == 0 {
                Broker::Open
            } else {
                Broker::Refuses(code)
            }
        }
        Ok(Err(found)) => found,
        Ok(Ok(_)) | Err(_) => Broker::Other,
    }
}
