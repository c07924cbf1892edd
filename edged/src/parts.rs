//! The dependencies that the parts of EdgeD share, and those that each part is given. All wiring of EdgeD is here.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use k8s_openapi::{
    api::core::v1::{NodeStatus, Pod},
    apimachinery::pkg::api::resource::Quantity,
};
use kube::runtime::reflector::Store;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use super::{
    Config,
    admit::{self, NodeInfo},
    background::Background,
    cgroups::Cgroups,
    convert::NodeDns,
    device_manager::{self, DeviceManager},
    events::Recorder,
    eviction::Evictor,
    gc::{missing_pods, orphans},
    housekeeping::{self, Keeper},
    metrics::Metrics,
    names::Dirs,
    node::{self, Addresses, Description, Machine, resources},
    node_shutdown, pleg,
    pods::{
        Admitter, AdmitterDeps, Context, ImagePuller, NodeContext, PodCache, SandboxLimit, Sources,
    },
    pressure::{self, Pressure, Signals},
    probes::{self, Probes},
    removals::RemovalsInProgress,
    runtime::Runtime,
    server::{self, Pages},
    shutdown_status::ShutdownStatus,
    static_pods,
    stats::Stats,
    trigger::Trigger,
};

/// The resolv.conf that runtimes give to pods without a DNS configuration.
const DEFAULT_RESOLV_CONF: &str = "/etc/resolv.conf";

/// What several parts of EdgeD use.
pub(super) struct EdgedParts {
    config: Config,
    dirs: Dirs,
    machine: Machine,
    allocatable: BTreeMap<String, Quantity>,
    pub(super) runtime: Runtime,
    groups: Cgroups,
    addresses: Addresses,
    pub(super) pods: Store<Pod>,
    pub(super) pod_cache: PodCache,
    events: Recorder,
    metrics: Metrics,
    probes: Arc<Probes>,
    pressure: Pressure,
    pub(super) devices: DeviceManager,
    shutdown: ShutdownStatus,
    removing: RemovalsInProgress,
    pub(super) sandbox_limit: Arc<SandboxLimit>,
    pub(super) triggers: mpsc::Sender<Trigger>,
    pub(super) background: Background,
    /// Wakes PLEG when a container or sandbox was started or has ended.
    runtime_changed: Arc<Notify>,
    /// Wakes the garbage collection of deleted pods.
    orphaned: Arc<Notify>,
    /// Wakes the tasks that wait for a pod's removal from the API.
    pod_deleted: Arc<Notify>,
}

/// The channels through which parts find pods and report.
pub(super) struct Channels {
    pub(super) pods: Store<Pod>,
    pub(super) events: Recorder,
    pub(super) triggers: mpsc::Sender<Trigger>,
    pub(super) shutdown: CancellationToken,
}

impl EdgedParts {
    /// Reads the machine's properties and creates the shared parts. Nothing runs yet.
    pub(super) fn new(config: Config, dirs: Dirs, channels: Channels) -> Self {
        let Channels {
            pods,
            events,
            triggers,
            shutdown,
        } = channels;
        let runtime = Runtime::new(config.runtime.clone(), config.images.clone())
            .with_network(config.pod_network.clone());
        let machine = Machine::read(&dirs.root).with_capacity(config.node.capacity);
        let allocatable = resources::allocatable(&machine, &config.node);
        let cpu = resources::as_limits(&allocatable).cpu_millis;
        let background = Background::new(shutdown);
        let devices = DeviceManager::new(device_manager::Deps {
            root: config.device_plugins.then(|| dirs.root.clone()),
            client: config.client.clone(),
            runtime: runtime.clone(),
            pods: pods.clone(),
            pods_complete: config.pods_complete.clone(),
            background: background.clone(),
        });
        let probes = Probes::new(probes::Deps {
            runtime: runtime.clone(),
            events: events.clone(),
            triggers: triggers.clone(),
            background: background.clone(),
        });
        Self {
            groups: Cgroups::new(config.groups.clone(), runtime.clone(), cpu),
            addresses: Addresses::new(config.node.address.clone()),
            dirs,
            machine,
            allocatable,
            runtime,
            pods,
            pod_cache: PodCache::default(),
            events,
            metrics: Metrics::default(),
            probes,
            pressure: Pressure::none(),
            devices,
            shutdown: ShutdownStatus::default(),
            removing: RemovalsInProgress::default(),
            sandbox_limit: Arc::new(SandboxLimit::of_machine()),
            triggers,
            background,
            runtime_changed: Arc::default(),
            orphaned: Arc::default(),
            pod_deleted: Arc::default(),
            config,
        }
    }

    /// Returns the context of pod syncs.
    pub(super) fn context(&self) -> Context {
        Context {
            client: self.config.client.clone(),
            runtime: self.runtime.clone(),
            groups: self.groups.clone(),
            dirs: self.dirs.clone(),
            node: self.node_context(),
            pods: self.pods.clone(),
            pod_cache: self.pod_cache.clone(),
            events: self.events.clone(),
            metrics: self.metrics.clone(),
            probes: self.probes.clone(),
            admitter: self.admitter(),
            devices: self.devices.clone(),
            images: self.image_puller(),
            sandbox_limit: self.sandbox_limit.clone(),
            removing: self.removing.clone(),
            runtime_changed: self.runtime_changed.clone(),
            triggers: self.triggers.clone(),
            background: self.background.clone(),
            resync: self.config.sync.resync,
        }
    }

    fn node_context(&self) -> NodeContext {
        let config = &self.config;
        NodeContext {
            name: config.node_name.clone(),
            addresses: self.addresses.clone(),
            dns: NodeDns {
                servers: config.node.cluster_dns.clone(),
                domain: config.node.cluster_domain.clone(),
                is_custom: config.resolv_conf != Path::new(DEFAULT_RESOLV_CONF),
                ..NodeDns::default()
            },
            resolv_conf: config.resolv_conf.clone(),
            services: config.services.clone(),
            api_ca: config.api_ca.clone(),
            allocatable: resources::as_limits(&self.allocatable),
            machine_resources: self.machine.machine_resources(),
        }
    }

    fn admitter(&self) -> Admitter {
        let deps = AdmitterDeps {
            client: self.config.client.clone(),
            node_name: self.config.node_name.clone(),
            pods: self.pods.clone(),
            pod_cache: self.pod_cache.clone(),
            pressure: self.pressure.clone(),
            devices: self.devices.clone(),
            shutdown: self.shutdown.clone(),
            events: self.events.clone(),
            triggers: self.triggers.clone(),
        };
        Admitter::new(deps, self.unregistered_node())
    }

    /// Returns what admission knows of the node until the API has it.
    fn unregistered_node(&self) -> NodeInfo {
        let description = Description {
            name: &self.config.node_name,
            config: &self.config.node,
            addresses: Vec::new(),
            machine: self.machine.clone(),
            pressure: Pressure::none(),
            devices: self.devices.subscribe(),
        };
        NodeInfo {
            node: description.node(NodeStatus::default()),
            allocatable: admit::amounts(&self.allocatable),
            unsafe_sysctls: self.config.allowed_sysctls.clone(),
            apparmor: self.machine.apparmor,
        }
    }

    fn image_puller(&self) -> ImagePuller {
        let permits =
            |most: u32| Arc::new(Semaphore::new(usize::try_from(most).unwrap_or(usize::MAX)));
        ImagePuller {
            client: self.config.client.clone(),
            runtime: self.runtime.clone(),
            pod_cache: self.pod_cache.clone(),
            events: self.events.clone(),
            triggers: self.triggers.clone(),
            background: self.background.clone(),
            permits: self.config.sync.pulls.map(permits),
        }
    }

    /// Returns what the pod controller's triggers come from.
    pub(super) fn sources(&self) -> Sources {
        Sources {
            client: self.config.client.clone(),
            node_name: self.config.node_name.clone(),
            pod_cache: self.pod_cache.clone(),
            pod_deleted: self.pod_deleted.clone(),
            orphaned: self.orphaned.clone(),
        }
    }

    /// Returns what PLEG needs.
    pub(super) fn pleg(&self) -> pleg::Deps {
        pleg::Deps {
            runtime: self.runtime.clone(),
            groups: self.groups.clone(),
            pods: self.pods.clone(),
            pod_cache: self.pod_cache.clone(),
            triggers: self.triggers.clone(),
            metrics: self.metrics.clone(),
            runtime_changed: self.runtime_changed.clone(),
            orphaned: self.orphaned.clone(),
        }
    }

    /// Returns what the node's status and lease need.
    pub(super) fn node(&self) -> node::Deps {
        node::Deps {
            machine: self.machine.clone(),
            addresses: self.addresses.clone(),
            pressure: self.pressure.clone(),
            devices: self.devices.subscribe(),
            shutdown: self.shutdown.clone(),
            runtime: self.runtime.clone(),
            triggers: self.triggers.clone(),
        }
    }

    /// Returns what the garbage collection of deleted pods needs.
    pub(super) fn orphans(&self) -> orphans::Deps {
        orphans::Deps {
            client: self.config.client.clone(),
            runtime: self.runtime.clone(),
            groups: self.groups.clone(),
            dirs: self.dirs.clone(),
            pods: self.pods.clone(),
            pods_complete: self.config.pods_complete.clone(),
            pod_cache: self.pod_cache.clone(),
            probes: self.probes.clone(),
            removing: self.removing.clone(),
            triggers: self.triggers.clone(),
            background: self.background.clone(),
            orphaned: self.orphaned.clone(),
        }
    }

    /// Returns what the search for pods that the API has lost needs.
    pub(super) fn missing_pods(&self) -> missing_pods::Deps {
        missing_pods::Deps {
            client: self.config.client.clone(),
            runtime: self.runtime.clone(),
            dirs: self.dirs.clone(),
            pods: self.pods.clone(),
            pods_complete: self.config.pods_complete.clone(),
        }
    }

    /// Returns what static pods need.
    pub(super) fn static_pods(&self) -> static_pods::Deps {
        static_pods::Deps {
            client: self.config.client.clone(),
            node_name: self.config.node_name.clone(),
            events: self.events.clone(),
            pod_deleted: self.pod_deleted.clone(),
        }
    }

    /// Creates the housekeeping of containers, images and logs.
    pub(super) fn keeper(&self) -> Arc<Keeper> {
        let deps = housekeeping::Deps {
            runtime: self.runtime.clone(),
            dirs: self.dirs.clone(),
            pods: self.pods.clone(),
            node_name: self.config.node_name.clone(),
            events: self.events.clone(),
            sandbox_image: self.config.sandbox_image.clone(),
        };
        Arc::new(Keeper::new(deps, self.config.housekeeping.clone()))
    }

    /// Creates the evictor, which evicts pods after `keeper` has freed what it can.
    pub(super) fn evictor(&self, keeper: Arc<Keeper>) -> Evictor {
        let (runtime, root) = (self.runtime.clone(), self.dirs.root.clone());
        let signals = self.config.signals.clone();
        let signals: Arc<dyn Signals> =
            signals.unwrap_or_else(|| Arc::new(pressure::MachineSignals::new(runtime, root)));
        Evictor {
            node_name: self.config.node_name.clone(),
            pressure: self.pressure.clone(),
            pods: self.pods.clone(),
            pod_cache: self.pod_cache.clone(),
            triggers: self.triggers.clone(),
            events: self.events.clone(),
            runtime: self.runtime.clone(),
            dirs: self.dirs.clone(),
            keeper,
            signals,
            config: self.config.eviction.clone(),
        }
    }

    /// Returns what a shutdown of the machine needs.
    pub(super) fn node_shutdown(&self) -> node_shutdown::Deps {
        node_shutdown::Deps {
            node_name: self.config.node_name.clone(),
            settings: self.config.shutdown.clone(),
            status: self.shutdown.clone(),
            pods: self.pods.clone(),
            pod_cache: self.pod_cache.clone(),
            triggers: self.triggers.clone(),
            events: self.events.clone(),
            dirs: self.dirs.clone(),
        }
    }

    /// Creates the pages of the node's HTTP server.
    pub(super) fn pages(&self) -> Arc<Pages> {
        let (config, pods) = (&self.config, &self.pods);
        let node_name = config.node_name.clone();
        Pages::new(server::Deps {
            node_name: node_name.clone(),
            version: config.node.kubelet_version.clone(),
            settings: config.settings.clone(),
            reader: pods.clone(),
            stats: Stats::new(
                self.runtime.clone(),
                self.dirs.clone(),
                node_name,
                pods.clone(),
            ),
            metrics: self.metrics.clone(),
            probes: self.probes.clone(),
            runtime: self.runtime.clone(),
            triggers: self.triggers.clone(),
            diagnostics: config.diagnostics.clone(),
        })
    }
}
