//! Inspects a machine: container runtimes, an MQTT broker, processes.

use std::{net::Ipv4Addr, path::Path, time::Duration};

use edged::{CgroupDriver, RuntimeInfo, RuntimeInfoError, SIMULATED_RUNTIME, runtime_info};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::{
    app,
    cli::Join,
    config::HostPort,
    edgehub::{Proxy, connect_tcp},
};

/// The default sockets of container runtimes: kubeadm's list.
const SOCKETS: [&str; 3] = [
    "/run/containerd/containerd.sock",
    "/var/run/crio/crio.sock",
    "/run/cri-dockerd.sock",
];
/// The default port of MQTT brokers.
const MQTT_PORT: u16 = 1883;
/// The default port of EdgeCore's internal broker.
const INTERNAL_PORT: u16 = 1884;
/// The default port of CloudCore's stream server.
pub(super) const STREAM_PORT: u16 = 10004;
/// How long a broker on this machine may take to answer.
const BROKER_TIMEOUT: Duration = Duration::from_secs(2);
/// CONNECT of MQTT 3.1.1, a clean session of client `join`.
const CONNECT: &[u8] = b"\x10\x10\x00\x04MQTT\x04\x02\x00\x0a\x00\x04join";
/// The first two bytes of its answer, CONNACK.
const CONNACK: [u8; 2] = [0x20, 0x02];

/// What listens at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broker {
    /// A broker that accepts anonymous clients.
    Anonymous,
    /// A broker that requires a user name and password; the code of its answer.
    RequiresPassword(u8),
    /// A server of another protocol.
    OtherProtocol,
    /// Nothing listens.
    None,
}

impl Broker {
    /// Reports whether it is a broker.
    pub(super) fn is_broker(self) -> bool {
        matches!(self, Self::Anonymous | Self::RequiresPassword(_))
    }
}

/// The endpoint of a runtime, and its answer.
pub(super) type RuntimeAnswer = (String, Result<RuntimeInfo, RuntimeInfoError>);

/// The state of this machine.
#[derive(Debug)]
pub(super) struct Machine {
    /// The runtimes that were asked, with their answers.
    pub(super) runtimes: Vec<RuntimeAnswer>,
    /// The endpoint of the runtime to use; the default one if there is none.
    pub(super) endpoint: String,
    /// What listens at [`Self::broker_port`].
    pub(super) broker: Broker,
    /// The port of the MQTT broker, present or future.
    pub(super) broker_port: u16,
    /// The port of the cloud's stream server, if one was given or listens.
    pub(super) tunnel_port: Option<u16>,
}

impl Machine {
    /// Returns a machine about which nothing is known but the options.
    pub(super) fn assumed(join: &Join) -> Self {
        let endpoint = join.runtime_endpoint.as_deref();
        Self {
            runtimes: Vec::new(),
            endpoint: endpoint.map_or_else(|| format!("unix://{}", SOCKETS[0]), socket_url),
            broker: Broker::None,
            broker_port: join.mqtt_port.unwrap_or(INTERNAL_PORT),
            tunnel_port: join.tunnel_port,
        }
    }

    /// Inspects the machine without changing it.
    pub(super) async fn inspect(join: &Join) -> Self {
        let endpoints: Vec<String> = match &join.runtime_endpoint {
            Some(endpoint) => vec![socket_url(endpoint)],
            // the machine's default runtime may be used by another agent
            None if !join.paths.is_system_wide() => Vec::new(),
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
        let first = runtimes
            .iter()
            .find(|(_, found)| found.is_ok())
            .or(runtimes.first());
        let endpoint = first.map_or_else(
            || format!("unix://{}", SOCKETS[0]),
            |(endpoint, _)| endpoint.clone(),
        );
        let asked = join.mqtt_port.unwrap_or(MQTT_PORT);
        let broker = broker_at(asked).await;
        let broker_port = if broker.is_broker() {
            asked
        } else {
            join.mqtt_port.unwrap_or(INTERNAL_PORT)
        };
        let tunnel_port = match join.tunnel_port {
            None => is_port_open(join, STREAM_PORT).await.then_some(STREAM_PORT),
            named => named,
        };
        Self {
            runtimes,
            endpoint,
            broker,
            broker_port,
            tunnel_port,
        }
    }

    /// Returns the runtimes that answer.
    pub(super) fn answering(&self) -> impl Iterator<Item = (&str, &RuntimeInfo)> {
        self.runtimes
            .iter()
            .filter_map(|(endpoint, found)| Some((endpoint.as_str(), found.as_ref().ok()?)))
    }

    /// Reports whether the runtime is cloudsim's, whose containers use neither disk nor memory.
    pub(super) fn is_simulated(&self) -> bool {
        self.answering()
            .any(|(_, found)| found.name == SIMULATED_RUNTIME)
    }

    /// Returns the cgroup driver; cgroupfs if no runtime reports one, as is EdgeCore's default.
    pub(super) fn driver(&self) -> CgroupDriver {
        self.answering()
            .find_map(|(_, found)| found.driver)
            .unwrap_or_default()
    }
}

/// Returns the URL of a socket, which may be given as a path.
fn socket_url(endpoint: &str) -> String {
    match endpoint.starts_with("unix://") {
        true => endpoint.to_owned(),
        false => format!("unix://{endpoint}"),
    }
}

/// Reports whether something on the cloud's machine listens at this port.
async fn is_port_open(join: &Join, port: u16) -> bool {
    let Ok(proxy) = Proxy::from_environment(|name| std::env::var(name).ok()) else {
        return false;
    };
    let address = HostPort {
        port,
        ..join.cloud.clone()
    };
    timeout(BROKER_TIMEOUT, connect_tcp(&address, &proxy))
        .await
        .is_ok_and(|connected| connected.is_ok())
}

/// Probes the port with a CONNECT.
async fn broker_at(port: u16) -> Broker {
    let asked = timeout(BROKER_TIMEOUT, async {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))
            .await
            .map_err(|_| Broker::None)?;
        let mut answer = [0; 4];
        let exchange = async {
            stream.write_all(CONNECT).await?;
            stream.read_exact(&mut answer).await.map(drop)
        };
        exchange
            .await
            .map_err(|_: std::io::Error| Broker::OtherProtocol)?;
        Ok::<_, Broker>(answer)
    });
    match asked.await {
        Ok(Ok([first, second, _, code])) if [first, second] == CONNACK => {
            if code == 0 {
                Broker::Anonymous
            } else {
                Broker::RequiresPassword(code)
            }
        }
        Ok(Err(found)) => found,
        Ok(Ok(_)) | Err(_) => Broker::OtherProtocol,
    }
}
