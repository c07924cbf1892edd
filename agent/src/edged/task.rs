//! The one task of EdgeD: it starts the parts and waits for them.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::runtime::reflector::{self, Store};
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Config, Error, Progress,
    convert::NodeDns,
    events::{self, Recorder},
    metrics::Metrics,
    names::Dirs,
    node, orphans, pleg,
    pods::{self, Context, MAX_TRIGGERS},
    probes::{self, Probes},
    runtime::Runtime,
    server::{self, Pages},
    static_pods::{self, StaticPods},
    stats::Stats,
};

/// All of EdgeD, not running yet.
pub struct Task {
    config: Config,
    dirs: Dirs,
    progress: watch::Sender<Progress>,
}

impl Task {
    pub(super) fn new(config: Config, dirs: Dirs, progress: watch::Sender<Progress>) -> Self {
        Self { config, dirs, progress }
    }

    /// Runs pods until `shutdown`. Containers keep running after that; the next run finds them by their labels.
    ///
    /// # Errors
    /// The server cannot listen.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Error> {
        Box::pin(self.drive(shutdown)).await
    }

    async fn drive(self, shutdown: CancellationToken) -> Result<(), Error> {
        let Self { config, dirs, progress } = self;
        let runtime = Runtime::new(config.runtime.clone());
        let (triggers, received) = mpsc::channel(MAX_TRIGGERS);
        let progress = Arc::new(progress);
        let machine = node::Machine::read(&dirs.root);
        let addresses = node::addresses(&config.node.addresses, &config.node_name);
        let background = TaskTracker::new();
        let (recorder, occurrences) = events::recorder();
        let events = if config.report_events { recorder } else { Recorder::none() };
        let told = events::run(config.client.clone(), config.node_name.clone(), occurrences);
        let context = Arc::new(Context {
            client: config.client.clone(),
            runtime: runtime.clone(),
            dirs,
            node_name: config.node_name.clone(),
            dns: NodeDns {
                servers: config.node.cluster_dns.clone(),
                domain: config.node.cluster_domain.clone(),
                ..NodeDns::default()
            },
            host_ips: node::internal_ips(&addresses),
            allocatable: machine.allocatable(),
            runtime_name: tokio::sync::OnceCell::new(),
            book: pods::Book::default(),
            probes: Probes::new(probes::Parts {
                runtime: runtime.clone(),
                events: events.clone(),
                triggers: triggers.clone(),
                background: background.clone(),
                shutdown: shutdown.clone(),
            }),
            events,
            metrics: Metrics::default(),
            orphaned: Notify::new(),
            gone: Notify::new(),
            pods_whole: config.pods_whole.clone(),
            triggers: triggers.clone(),
            shutdown: shutdown.clone(),
            background: background.clone(),
            resync: config.sync.resync,
        });
        let (reader, writer) = reflector::store::<Pod>();
        let pleg = pleg::run(runtime.clone(), triggers, context.metrics.clone(), config.sync.relist);
        let server = serve(&config, &context, &reader);
        let orphans =
            orphans::run(context.clone(), reader.clone(), progress.subscribe(), config.sync.orphans);
        let node = node::run(&config, addresses, machine, runtime, &progress);
        let static_pods = static_pods(context.clone(), config.static_pods.clone());
        let pods = pods::run(context, (reader, writer), received, config.sync.concurrency, &progress);
        tokio::select! {
            // Cancel-safe by design: each part is level-triggered and starts from what it finds.
            () = shutdown.cancelled() => {}
            // Whoever is told of an error cancels `shutdown`, and so ends what runs in the background.
            ended = Box::pin(server) => ended?,
            () = async { tokio::join!(Box::pin(pleg), Box::pin(orphans), Box::pin(node), Box::pin(pods), Box::pin(told), Box::pin(static_pods)); } => {}
        }
        background.close();
        background.wait().await;
        Ok(())
    }
}

/// The server, for ever where there is to be none.
fn serve(
    config: &Config,
    context: &Context,
    reader: &Store<Pod>,
) -> impl Future<Output = Result<(), Error>> + use<> {
    let Context { runtime, dirs, node_name, .. } = context;
    let pages = Pages::new(server::Parts {
        node_name: node_name.clone(),
        version: config.node.kubelet_version.clone(),
        reader: reader.clone(),
        stats: Stats::new(runtime.clone(), dirs.clone(), node_name.clone(), reader.clone()),
        metrics: context.metrics.clone(),
        probes: context.probes.clone(),
        runtime: runtime.clone(),
        triggers: context.triggers.clone(),
    });
    let (address, shutdown) = (config.server, context.shutdown.clone());
    async move {
        match address {
            Some(address) => Ok(server::run(address, pages, shutdown).await?),
            None => std::future::pending().await,
        }
    }
}

async fn static_pods(context: Arc<Context>, source: Option<StaticPods>) {
    if let Some(source) = source {
        static_pods::run(context, source).await;
    }
}
