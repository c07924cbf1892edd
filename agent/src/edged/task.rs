//! The one task of EdgeD: it starts the parts and waits for them.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use k8s_openapi::{
    api::core::v1::{NodeStatus, Pod},
    apimachinery::pkg::api::resource::Quantity,
};
use kube::runtime::reflector::{self, Store};
use tokio::{
    sync::{Notify, Semaphore, mpsc, watch},
    time::sleep,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Config, Error, Progress,
    admit::{self, NodeInfo},
    api,
    convert::NodeDns,
    events::{self, Occurrence, Recorder},
    gc::{missing_pods, orphans, removing::Removing},
    groups::Groups,
    housekeeping::{self, Keeper},
    metrics::Metrics,
    names::Dirs,
    node::{self, Description, Machine, resources},
    pleg,
    pods::{self, Admitter, Context, MAX_TRIGGERS, SandboxLimit, Trigger},
    pressure::{self, Evictor, Pressure, Signals},
    probes::{self, Probes},
    runtime::Runtime,
    server::{self, Pages},
    static_pods::{self, StaticPods},
    stats::Stats,
};
use crate::rt::{Heart, Part, PartError};

/// What every runtime gives to a pod that is given nothing else.
const NODES_RESOLV_CONF: &str = "/etc/resolv.conf";
/// Time between two questions to the controller of pods, whether it still takes triggers.
const ASK: Duration = Duration::from_secs(15);

/// What is known of EdgeD from outside: how far it is, and its API.
type Ends = (watch::Sender<Progress>, watch::Sender<Option<Arc<api::Deps>>>);

/// All of EdgeD, not running yet.
pub struct Task {
    config: Config,
    dirs: Dirs,
    progress: Arc<watch::Sender<Progress>>,
    api: watch::Sender<Option<Arc<api::Deps>>>,
}

impl Task {
    pub(super) fn new(config: Config, dirs: Dirs, (progress, api): Ends) -> Self {
        Self { config, dirs, progress: Arc::new(progress), api }
    }

    /// Runs pods until `shutdown`. Containers keep running after that; the next run finds them by their labels.
    ///
    /// # Errors
    /// The server cannot listen.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Error> {
        Box::pin(self.run_again(&Heart::unheard(), shutdown)).await
    }

    /// The same for whoever may drop it in its middle, and call it again: containers keep running.
    async fn run_again(&self, heart: &Heart, shutdown: CancellationToken) -> Result<(), Error> {
        let (config, dirs, progress) = (self.config.clone(), self.dirs.clone(), self.progress.clone());
        let runtime = runtime(&config);
        // Dropped at the end, or where this program is given up.
        let _cut = runtime.cut_when_dropped();
        let ((triggers, received), background) = (mpsc::channel(MAX_TRIGGERS), TaskTracker::new());
        let machine = node::Machine::read(&dirs.root);
        let ((events, occurrences), (reader, writer)) = (events_of(&config), reflector::store::<Pod>());
        let allocatable = resources::allocatable(&machine, &config.node);
        let (root, signals) = (dirs.root.clone(), config.signals.clone());
        let signals = signals.unwrap_or_else(|| Arc::new(pressure::Machine::new(runtime.clone(), root)));
        let limits = resources::as_limits(&allocatable);
        let context = Arc::new(Context {
            client: config.client.clone(),
            services: config.services.clone(),
            api_ca: config.api_ca.clone(),
            groups: Groups::new(config.groups.clone(), runtime.clone(), limits.cpu_millis),
            runtime: runtime.clone(),
            dirs,
            node_name: config.node_name.clone(),
            dns: dns(&config),
            resolv_conf: config.resolv_conf.clone(),
            pulls: config.sync.pulls.map(permits),
            sandbox_limit: SandboxLimit::of_machine(),
            addresses: node::Addresses::new(config.node.address.clone()),
            allocatable: limits,
            means: machine.means(),
            admitter: Admitter::new(place(&config, &machine, &allocatable)),
            pods: reader.clone(),
            pod_cache: pods::PodCache::default(),
            probes: Probes::new(probes::Deps {
                runtime: runtime.clone(),
                events: events.clone(),
                triggers: triggers.clone(),
                background: background.clone(),
                shutdown: shutdown.clone(),
            }),
            events,
            metrics: Metrics::default(),
            pressure: Pressure::none(),
            moved: Notify::new(),
            orphaned: Notify::new(),
            removing: Removing::default(),
            gone: Notify::new(),
            pods_whole: config.pods_whole.clone(),
            triggers,
            shutdown: shutdown.clone(),
            background: background.clone(),
            resync: config.sync.resync,
        });
        let told = tell(&config, context.clone(), occurrences);
        let pleg = pleg::run(context.clone(), config.sync.relist);
        let server = self.serve(&config, &context, &reader);
        let orphans =
            orphans::run(context.clone(), reader.clone(), progress.subscribe(), config.sync.orphans);
        let missing_pods = missing_pods::run(context.clone(), reader.clone(), progress.subscribe());
        let upkeep = upkeep(&config, context.clone(), reader.clone(), signals, progress.subscribe());
        let node = node::run(&config, context.clone(), machine, (&progress, heart));
        let asked = ask(context.triggers.clone(), heart.another("pods"));
        let retried = pods::retry::when_connected(context.clone(), config.online.clone());
        let static_pods = static_pods(context.clone(), config.static_pods.clone());
        let pods = pods::run(context, (reader, writer), received, config.sync.concurrency, &progress);
        tokio::select! {
            // Cancel-safe by design: each part is level-triggered and starts from what it finds.
            () = shutdown.cancelled() => {}
            // Whoever is told of an error cancels `shutdown`, and so ends what runs in the background.
            ended = Box::pin(server) => ended?,
            () = async { tokio::join!(Box::pin(pleg), Box::pin(orphans), Box::pin(missing_pods), Box::pin(node), Box::pin(pods), Box::pin(told), Box::pin(static_pods), Box::pin(upkeep), Box::pin(asked), Box::pin(retried)); } => {}
        }
        background.close();
        tokio::join!(background.wait(), runtime.finish());
        Ok(())
    }

    /// Has the API answer from now on. Then the server of this node, for ever where there is to be none.
    fn serve(
        &self,
        config: &Config,
        context: &Context,
        reader: &Store<Pod>,
    ) -> impl Future<Output = Result<(), Error>> + use<> {
        let pages = pages(config, context, reader);
        let (pods, runtime) = (reader.clone(), context.runtime.clone());
        self.api.send_replace(Some(Arc::new(api::Deps { pods, runtime, pages: pages.clone() })));
        let (address, shutdown) = (config.server, context.shutdown.clone());
        async move {
            match address {
                Some(address) => Ok(server::run(address, pages, shutdown).await?),
                None => std::future::pending().await,
            }
        }
    }
}

impl Part for Task {
    async fn run(&mut self, heart: Heart, shutdown: CancellationToken) -> Result<(), PartError> {
        Ok(Box::pin(self.run_again(&heart, shutdown)).await?)
    }
}

/// Has the controller of pods answer now and then.
async fn ask(triggers: mpsc::Sender<Trigger>, heart: Heart) {
    loop {
        let rest = heart.rest();
        sleep(ASK).await;
        drop(rest);
        let echo = Arc::new(Notify::new());
        if triggers.send(Trigger::Echo(echo.clone())).await.is_err() {
            // the controller has ended, and with it all of EdgeD
            return std::future::pending().await;
        }
        echo.notified().await;
    }
}

fn runtime(config: &Config) -> Runtime {
    Runtime::new(config.runtime.clone(), config.images.clone()).with_network(config.pod_network.clone())
}

/// Events, behind the sandboxes that are to be made.
fn tell(
    config: &Config,
    context: Arc<Context>,
    occurrences: mpsc::Receiver<Occurrence>,
) -> impl Future<Output = ()> + use<> {
    let wait_for_room = move || {
        let context = context.clone();
        async move { context.sandbox_limit.wait_for_room().await }
    };
    events::run(config.client.clone(), config.node_name.clone(), occurrences, wait_for_room)
}

/// To do so many things at the same time.
/// Where events go, and those that are to be told.
fn events_of(config: &Config) -> (Recorder, mpsc::Receiver<Occurrence>) {
    let (recorder, occurrences) = events::recorder();
    (if config.report_events { recorder } else { Recorder::none() }, occurrences)
}

fn permits(most: u32) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(usize::try_from(most).unwrap_or(usize::MAX)))
}

/// How pods resolve names.
fn dns(config: &Config) -> NodeDns {
    NodeDns {
        servers: config.node.cluster_dns.clone(),
        domain: config.node.cluster_domain.clone(),
        own: config.resolv_conf != Path::new(NODES_RESOLV_CONF),
        ..NodeDns::default()
    }
}

/// What the node is shown of its pods and itself.
fn pages(config: &Config, context: &Context, reader: &Store<Pod>) -> Arc<Pages> {
    let Context { runtime, dirs, node_name, .. } = context;
    Pages::new(server::Deps {
        node_name: node_name.clone(),
        version: config.node.kubelet_version.clone(),
        settings: config.settings.clone(),
        reader: reader.clone(),
        stats: Stats::new(runtime.clone(), dirs.clone(), node_name.clone(), reader.clone()),
        metrics: context.metrics.clone(),
        probes: context.probes.clone(),
        runtime: runtime.clone(),
        triggers: context.triggers.clone(),
        shown: config.shown.clone(),
    })
}

/// The node as pods find it before the API knows it.
fn place(config: &Config, machine: &Machine, allocatable: &BTreeMap<String, Quantity>) -> NodeInfo {
    let (name, addresses) = (&config.node_name, Vec::new());
    let (of, pressure) = (machine.clone(), Pressure::none());
    let description = Description { name, config: &config.node, addresses, machine: of, pressure };
    NodeInfo {
        node: description.node(NodeStatus::default()),
        allocatable: admit::amounts(allocatable),
        unsafe_sysctls: config.allowed_sysctls.clone(),
        apparmor: machine.apparmor,
    }
}

async fn static_pods(context: Arc<Context>, source: Option<StaticPods>) {
    if let Some(source) = source {
        static_pods::run(context, source).await;
    }
}

/// What keeps the node from running full.
async fn upkeep(
    config: &Config,
    context: Arc<Context>,
    pods: Store<Pod>,
    signals: Arc<dyn Signals>,
    progress: watch::Receiver<Progress>,
) {
    let (limits, sandbox_image) = (config.housekeeping.clone(), config.sandbox_image.clone());
    let keeper = Arc::new(Keeper::new(context.clone(), pods.clone(), limits, sandbox_image));
    let config = config.eviction.clone();
    let evictor = Evictor { context, pods, keeper: keeper.clone(), signals, config };
    tokio::join!(housekeeping::run(keeper, progress), pressure::run(evictor));
}
