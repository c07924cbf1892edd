//! The state of the running agent.

use std::{fmt, fs, path::PathBuf, sync::Arc, time::Duration};

use componentbase::Link;
use edged::{LocalKubelet, disk_space};
use http::{HeaderMap, Method};
use http_body_util::BodyExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kubeapi::{NodeAnswer, NodeRequest, NodeStreams};
use serde::Deserialize;
use tokio::{sync::watch, time::timeout};

use super::{
    history::LinkHistory,
    objects::Objects,
    pods,
    report::{
        CloudState, DeviceState, MapperState, MessageCount, QueueState, Resources, StatusReport,
    },
};
use crate::{
    config::{Config, Transport},
    devicetwin::{DeviceTwin, dmi::Dmi},
    edgehub::{Direction, Traffic},
    log::recent,
};

/// How long a page of EdgeD may take: the container runtime may not answer.
const PAGE_TIMEOUT: Duration = Duration::from_secs(5);
/// The page of health, in the kubelet's form.
const HEALTH_PAGE: &str = "/healthz";
/// The largest page, bytes.
const MAX_PAGE_BYTES: usize = 32 << 20;
/// The queues whose entries wait for the cloud.
const TO_CLOUD: [&str; 2] = ["edgehub/", "outbox/"];
/// The queue of messages from the cloud.
const FROM_CLOUD: &str = "edgehub/inbox";
/// The name of the metric of queues.
const QUEUES: &str = "edge_agent_queue_messages";

/// The parts of the agent whose state is shown; cheap to clone.
#[derive(Clone)]
pub(crate) struct StatusSource(Arc<Sources>);

struct Sources {
    node: String,
    servers: Vec<String>,
    transport: &'static str,
    directory: Option<PathBuf>,
    started: Timestamp,
    history: LinkHistory,
    traffic: Traffic,
    devices: Option<DeviceTwin>,
    dmi: Option<Dmi>,
    kubelet: Option<LocalKubelet>,
    objects: Option<Objects>,
    diagnostics: edged::Diagnostics,
}

impl fmt::Debug for StatusSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatusSource").finish_non_exhaustive()
    }
}

/// The parts of the agent that [`StatusSource`] reads.
pub(crate) struct Modules {
    /// The traffic with the cloud.
    pub(crate) traffic: Traffic,
    /// DeviceTwin, if it is enabled.
    pub(crate) devices: Option<DeviceTwin>,
    /// DMI, if it is enabled.
    pub(crate) dmi: Option<Dmi>,
    /// EdgeD, if it is enabled.
    pub(crate) kubelet: Option<LocalKubelet>,
    /// The API of the objects of this node.
    pub(crate) objects: Option<Objects>,
    /// The metrics of all modules but EdgeD.
    pub(crate) diagnostics: edged::Diagnostics,
}

impl Modules {
    /// Names the modules; EdgeD is added if it is enabled, and the API of objects.
    pub(crate) fn new(
        traffic: &Traffic,
        devices: Option<&DeviceTwin>,
        dmi: Option<Dmi>,
        diagnostics: &edged::Diagnostics,
    ) -> Self {
        Self {
            traffic: traffic.clone(),
            devices: devices.cloned(),
            dmi,
            kubelet: None,
            objects: None,
            diagnostics: diagnostics.clone(),
        }
    }
}

#[derive(Deserialize)]
struct PodList {
    items: Vec<Pod>,
}

impl StatusSource {
    /// Creates the source, which records changes of `link` from now on.
    pub(crate) fn new(config: &Config, link: watch::Receiver<Link>, modules: Modules) -> Self {
        let history = LinkHistory::new();
        componentbase::spawn(history.clone().record(link));
        let hub = &config.edge_hub;
        Self(Arc::new(Sources {
            node: config.node.name.clone(),
            servers: hub.servers.iter().map(ToString::to_string).collect(),
            transport: match hub.transport {
                Transport::WebSocket => "websocket",
                Transport::Quic => "quic",
            },
            directory: config.database.parent().map(ToOwned::to_owned),
            started: clock::now(),
            history,
            traffic: modules.traffic,
            devices: modules.devices,
            dmi: modules.dmi,
            kubelet: modules.kubelet,
            objects: modules.objects,
            diagnostics: modules.diagnostics,
        }))
    }

    /// Reads the state.
    pub(crate) async fn read(&self) -> StatusReport {
        let sources = &*self.0;
        let (queues, queued_messages) = sources.queues();
        let (pods, failed) = match sources.pods().await {
            Ok(pods) => (pods, Vec::new()),
            Err(why) => (Vec::new(), vec![format!("pods: {why}")]),
        };
        let mappers = sources.mappers();
        let now = clock::now();
        StatusReport {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            node: sources.node.clone(),
            process: std::process::id(),
            started: format!("{:.0}", sources.started),
            time: format!("{now:.0}"),
            cloud: sources.cloud(now),
            queued_messages,
            queues,
            messages: sources.messages(),
            pods: pods.iter().map(pods::state).collect(),
            devices: sources.devices(&mappers),
            mappers,
            resources: sources.resources(),
            errors: recent::lines(),
            unhealthy: sources.unhealthy().await,
            failed,
        }
    }

    /// Returns the API of the objects of this node.
    pub(super) fn objects(&self) -> Option<&Objects> {
        self.0.objects.as_ref()
    }

    /// Returns the page of metrics.
    ///
    /// # Errors
    /// EdgeD is disabled or does not answer in time.
    pub(crate) async fn metrics(&self) -> Result<Vec<u8>, String> {
        self.0.page("/metrics").await
    }
}

impl Sources {
    fn cloud(&self, now: Timestamp) -> CloudState {
        let link = self.history.read();
        CloudState {
            servers: self.servers.clone(),
            transport: self.transport.to_owned(),
            connected: link.is_up,
            since: format!("{:.0}", link.since),
            seconds: u64::try_from(now.duration_since(link.since).as_secs()).unwrap_or_default(),
            connections: link.connections,
        }
    }

    /// Returns the queues with entries, and the number of messages that wait for the cloud.
    fn queues(&self) -> (Vec<QueueState>, u64) {
        let metrics = self.diagnostics.metrics.collect(Vec::new());
        let queues = metrics.into_iter().find(|metric| metric.name == QUEUES);
        let samples = queues.into_iter().flat_map(|metric| metric.samples);
        let mut all: Vec<QueueState> = samples
            .filter_map(|(labels, waiting)| {
                let (_, name) = labels.into_iter().next()?;
                Some(QueueState { name, waiting })
            })
            .collect();
        all.retain(|queue| queue.waiting > 0);
        let to_cloud = all.iter().filter(|queue| {
            queue.name != FROM_CLOUD && TO_CLOUD.iter().any(|part| queue.name.starts_with(part))
        });
        let count = to_cloud.map(|queue| queue.waiting).sum();
        (all, count)
    }

    fn messages(&self) -> Vec<MessageCount> {
        let count = |flow: crate::edgehub::Flow| MessageCount {
            kind: flow.kind.as_str().to_owned(),
            direction: match flow.direction {
                Direction::Up => "up",
                Direction::Down => "down",
            }
            .to_owned(),
            messages: flow.messages,
            bytes: flow.bytes,
        };
        self.traffic.flows().into_iter().map(count).collect()
    }

    fn mappers(&self) -> Vec<MapperState> {
        let mappers = self.dmi.iter().flat_map(Dmi::mappers);
        let state = |mapper: crate::devicetwin::dmi::MapperView| MapperState {
            name: mapper.name,
            version: mapper.version,
            protocol: mapper.protocol,
            socket: mapper.socket.display().to_string(),
        };
        mappers.map(state).collect()
    }

    fn devices(&self, mappers: &[MapperState]) -> Vec<DeviceState> {
        let catalogue = self.devices.as_ref().and_then(|twin| twin.devices().now());
        let devices = catalogue.iter().flat_map(|catalogue| &catalogue.devices);
        devices
            .map(|(id, entry)| {
                let protocol = entry.protocol.as_deref().unwrap_or_default();
                DeviceState {
                    name: id.to_string(),
                    model: entry
                        .model
                        .as_ref()
                        .map(ToString::to_string)
                        .unwrap_or_default(),
                    mapper: mappers.iter().any(|mapper| mapper.protocol == protocol),
                    protocol: protocol.to_owned(),
                }
            })
            .collect()
    }

    fn resources(&self) -> Resources {
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let disk = self.directory.as_deref().and_then(disk_space);
        let bytes = |value: i64| u64::try_from(value).unwrap_or_default();
        Resources {
            agent_memory: kibibytes(&own, "VmRSS:"),
            memory_available: kibibytes(&meminfo, "MemAvailable:"),
            memory_total: kibibytes(&meminfo, "MemTotal:"),
            load: load.split(' ').next().and_then(|load| load.parse().ok()),
            disk_free: disk.map(|(space, _)| bytes(space.available)),
            disk_total: disk.map(|(space, _)| bytes(space.capacity)),
        }
    }

    /// Returns the pods of this node, static ones too.
    async fn pods(&self) -> Result<Vec<Pod>, String> {
        if self.kubelet.is_none() {
            return Ok(Vec::new());
        }
        let page = self.page("/pods").await?;
        let list: PodList = serde_json::from_slice(&page).map_err(|error| error.to_string())?;
        Ok(list.items)
    }

    /// Returns the health checks that fail; none if EdgeD is disabled.
    async fn unhealthy(&self) -> Vec<String> {
        match self.page(HEALTH_PAGE).await {
            Ok(page) => failed_checks(&page),
            Err(_) => Vec::new(),
        }
    }

    /// Returns a page of EdgeD.
    async fn page(&self, path: &str) -> Result<Vec<u8>, String> {
        let Some(kubelet) = &self.kubelet else {
            return Err("modules.edged is disabled".to_owned());
        };
        let late = |_| Err(format!("no answer within {} s", PAGE_TIMEOUT.as_secs()));
        let read = request_page(kubelet, &self.node, path);
        timeout(PAGE_TIMEOUT, read).await.unwrap_or_else(late)
    }
}

async fn request_page(kubelet: &LocalKubelet, node: &str, path: &str) -> Result<Vec<u8>, String> {
    let request = NodeRequest {
        method: Method::GET,
        path_and_query: path.to_owned(),
        headers: HeaderMap::new(),
    };
    let response = match kubelet.ask(node, request).await {
        Ok(NodeAnswer::Response(response)) => response,
        Ok(NodeAnswer::Upgraded(..)) => return Err("unexpected upgrade".to_owned()),
        Err(error) => return Err(error.to_string()),
    };
    let status = response.status();
    let (mut body, mut page) = (response.into_body(), Vec::new());
    while let Some(frame) = body.frame().await {
        let frame = match frame {
            Ok(frame) => frame,
            Err(error) => return Err(error.to_string()),
        };
        page.extend(frame.data_ref().into_iter().flatten());
        if page.len() > MAX_PAGE_BYTES {
            return Err(format!("{path} has more than {MAX_PAGE_BYTES} bytes"));
        }
    }
    // the page of health has a body when checks fail, too
    match status.is_success() || path == HEALTH_PAGE {
        true => Ok(page),
        false => Err(format!("{path} answered {status}")),
    }
}

/// Returns the checks that failed, from the page of health.
fn failed_checks(page: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(page);
    let failed = text.lines().filter_map(|line| line.strip_prefix("[-]"));
    failed.map(wire::text::printable).collect()
}

/// Returns the value of a line of a file of /proc, which is in KiB, in bytes.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let number: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(number << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_checks_are_those_with_a_minus() {
        let page = b"[+]ping ok\n[-]storage failed: disk full\n[+]log ok\nhealthz check failed\n";
        assert_eq!(failed_checks(page), ["storage failed: disk full"]);
        assert!(failed_checks(b"ok").is_empty());
    }
}
