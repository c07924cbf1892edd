//! Inspects a machine: container runtimes, an MQTT broker, processes.

use std::{path::Path, time::Duration};

use edged::{CgroupDriver, RuntimeInfo, RuntimeInfoError, SIMULATED_RUNTIME, runtime_info};
use tokio::time::timeout;

use super::mqtt_client::{Broker, BrokerAddress, connect};
use crate::{
    app,
    cli::{InstallPaths, Join},
    config::{Config, HostPort},
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
pub(crate) const STREAM_PORT: u16 = 10004;
/// How long a port of the cloud may take to open.
const PORT_TIMEOUT: Duration = Duration::from_secs(2);

/// The endpoint of a runtime, and its answer.
pub(crate) type RuntimeAnswer = (String, Result<RuntimeInfo, RuntimeInfoError>);

/// The state of this machine.
#[derive(Debug)]
pub(crate) struct Machine {
    /// The runtimes that were asked, with their answers.
    pub(crate) runtimes: Vec<RuntimeAnswer>,
    /// The endpoint of the runtime to use; the default one if there is none.
    pub(crate) endpoint: String,
    /// What listens at [`Self::broker_port`].
    pub(crate) broker: Broker,
    /// The port of the MQTT broker, present or future.
    pub(crate) broker_port: u16,
    /// The port of the cloud's stream server, if one was given or listens.
    pub(crate) tunnel_port: Option<u16>,
}

impl Machine {
    /// Returns a machine about which nothing is known but the options.
    pub(crate) fn assumed(join: &Join) -> Self {
        let endpoint = join.runtime_endpoint.as_deref();
        Self {
            runtimes: Vec::new(),
            endpoint: endpoint.map_or_else(|| format!("unix://{}", SOCKETS[0]), socket_url),
            broker: Broker::None,
            broker_port: join.mqtt_port.unwrap_or(INTERNAL_PORT),
            tunnel_port: join.tunnel_port,
        }
    }

    /// Returns a machine without any runtime.
    #[cfg(test)]
    pub(crate) fn unknown() -> Self {
        Self {
            runtimes: Vec::new(),
            endpoint: format!("unix://{}", SOCKETS[0]),
            broker: Broker::None,
            broker_port: INTERNAL_PORT,
            tunnel_port: None,
        }
    }

    /// Inspects the machine and the cloud before `edge-agent join`, without changing anything.
    pub(crate) async fn inspect(join: &Join) -> Self {
        let mut machine = Self::search(
            join.runtime_endpoint.as_deref(),
            join.mqtt_port,
            &join.paths,
        )
        .await;
        machine.tunnel_port = match join.tunnel_port {
            None => is_port_open(join, STREAM_PORT).await.then_some(STREAM_PORT),
            named => named,
        };
        machine
    }

    /// Searches for the runtime and the broker of a machine that is no node yet.
    pub(crate) async fn search(
        runtime: Option<&str>,
        mqtt_port: Option<u16>,
        paths: &InstallPaths,
    ) -> Self {
        let endpoints: Vec<String> = match runtime {
            Some(endpoint) => vec![socket_url(endpoint)],
            // the machine's default runtime may be used by another agent
            None if !paths.is_system_wide() => Vec::new(),
            None => SOCKETS
                .iter()
                .filter(|path| Path::new(path).exists())
                .map(|path| format!("unix://{path}"))
                .collect(),
        };
        let mut runtimes = Vec::new();
        for endpoint in endpoints {
            let found = ask_runtime(&endpoint).await;
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
        let asked = mqtt_port.unwrap_or(MQTT_PORT);
        let broker = connect(&BrokerAddress::plain(&format!("127.0.0.1:{asked}"))).await;
        let broker_port = if broker.is_broker() {
            asked
        } else {
            mqtt_port.unwrap_or(INTERNAL_PORT)
        };
        Self {
            runtimes,
            endpoint,
            broker,
            broker_port,
            tunnel_port: None,
        }
    }

    /// Inspects the machine of a node: only what its configuration names.
    pub(crate) async fn of_node(config: &Config) -> Self {
        let endpoint = config.edged.runtime_endpoint.clone();
        let found = ask_runtime(&endpoint).await;
        Self {
            runtimes: vec![(endpoint.clone(), found)],
            endpoint,
            broker: Broker::None,
            broker_port: INTERNAL_PORT,
            tunnel_port: None,
        }
    }

    /// Returns the runtimes that answer.
    pub(crate) fn answering(&self) -> impl Iterator<Item = (&str, &RuntimeInfo)> {
        self.runtimes
            .iter()
            .filter_map(|(endpoint, found)| Some((endpoint.as_str(), found.as_ref().ok()?)))
    }

    /// Reports whether the runtime is cloudsim's, whose containers use neither disk nor memory.
    pub(crate) fn is_simulated(&self) -> bool {
        self.answering()
            .any(|(_, found)| found.name == SIMULATED_RUNTIME)
    }

    /// Returns the cgroup driver; cgroupfs if no runtime reports one, as is EdgeCore's default.
    pub(crate) fn driver(&self) -> CgroupDriver {
        self.answering()
            .find_map(|(_, found)| found.driver)
            .unwrap_or_default()
    }
}

async fn ask_runtime(endpoint: &str) -> Result<RuntimeInfo, RuntimeInfoError> {
    match app::connect(endpoint) {
        Ok(channel) => runtime_info(channel).await,
        Err(error) => Err(RuntimeInfoError::NoAnswer(error.to_string())),
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
    timeout(PORT_TIMEOUT, connect_tcp(&address, &proxy))
        .await
        .is_ok_and(|connected| connected.is_ok())
}
