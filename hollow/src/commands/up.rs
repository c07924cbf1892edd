//! `cloudsim up`: runs a cloud until Ctrl-C.

use std::{
    path::Path,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use anyhow::Context;
use clock::Instant;
use cloudsim::{
    Cloud, Options,
    hub::Limits,
    kubeconfig::{Destination, Entries},
    router::RouterOptions,
    streams::{ClientCa, KubeletOptions, StreamService},
};
use objectstore::MemoryStore;
use record::{Recorder, Recording};
use wire::text::count;

use super::{
    Nodes, Signals, cluster, destination, detach,
    process::Process,
    ready_screen,
    running::{RecordError, Records, Registration, RunningCloud},
    screen::{Line, Screen},
    stop, warn,
};

use crate::{
    cli::{Links, NodeProperties, Up},
    dump::Dump,
    fleet::{self, Fleet, Machine},
    origin::Origin,
    reach::{OwnNames, Reach, check_address},
    snapshot::Source,
};

pub(super) async fn run(up: Up) -> anyhow::Result<ExitCode> {
    let records = Records::of_user();
    let origin = up.from.as_deref().map(Origin::read).transpose()?;
    let origin = origin.unwrap_or_default();
    if matches!(origin, Origin::Snapshot(_)) && up.data_dir.is_some() {
        anyhow::bail!("a snapshot is restored into memory: remove --data-dir");
    }
    let nodes = up.nodes + origin.machines().len();
    if up.max_nodes.is_some_and(|limit| nodes > limit) {
        anyhow::bail!(
            "{} are more than --max-nodes {} allows; give it a larger number",
            count(nodes, "simulated node"),
            up.max_nodes.unwrap_or_default()
        );
    }
    up.properties.check(nodes)?;
    if up.from.is_some() && up.properties != NodeProperties::default() {
        anyhow::bail!(
            "--from has the properties of its nodes; remove --node-cpu, --node-memory, --node-labels and --node-taints, or start such nodes with `cloudsim hollow`"
        );
    }
    if up.detach {
        return detach::run(&up, nodes, &records).await;
    }
    if up.detached.is_some() {
        detach::leave_terminal();
    }
    let signals = Signals::listen()?;
    let own = OwnNames::of_machine();
    check_address(up.address, &own)?;
    let reach = Reach::of(up.address, &up.names, &own);
    let recording = start_recording(up.record.as_deref(), up.record_secrets)?;
    let run = Run {
        recorder: recording
            .as_ref()
            .map(Recording::recorder)
            .unwrap_or_default(),
        screen: Screen::of_stdout(),
        begun: Instant::now(),
        cluster_url: String::new(),
        registration: None,
        up,
        records,
        reach,
        signals,
        is_data_new: false,
        origin,
        snapshots: Source::default(),
    };
    let ended = if run.up.cluster.is_given() {
        Box::pin(run.with_cluster()).await
    } else {
        Box::pin(run.standalone()).await
    };
    if let Some(recording) = recording {
        recording.finish();
    }
    ended.map(|()| ExitCode::SUCCESS)
}

/// Starts the recording of a cloud of this process, if there is to be one.
pub(super) fn start_recording(
    path: Option<&Path>,
    has_secrets: bool,
) -> Result<Option<Recording>, record::StartError> {
    let options = |path: &Path| record::Options {
        path: path.to_owned(),
        limits: record::Limits::default(),
        program: format!("cloudsim {}", env!("CARGO_PKG_VERSION")),
        side: record::Side::Cloud,
        redact: !has_secrets,
    };
    path.map(options).map(Recording::start).transpose()
}

/// A cloud that is started and runs until a signal.
struct Run {
    recorder: Recorder,
    screen: Screen,
    begun: Instant,
    /// The API server in cluster mode.
    cluster_url: String,
    /// The record of this cloud; `None` if it cannot be recorded.
    registration: Option<Registration>,
    up: Up,
    records: Records,
    reach: Reach,
    signals: Signals,
    /// Whether the data directory is created.
    is_data_new: bool,
    /// The cluster to start from.
    origin: Origin,
    /// Takes snapshots of a cloud in memory.
    snapshots: Source,
}

impl Run {
    fn options(&self) -> Options {
        Options {
            recorder: self.recorder.clone(),
            ..options(&self.up, &self.reach)
        }
    }

    async fn standalone(mut self) -> anyhow::Result<()> {
        if self.up.stream_port.is_some() && self.up.stream_client_ca.is_none() {
            anyhow::bail!(
                "--stream-port needs --stream-client-ca FILE in standalone mode: the CA of the other API server's client certificate"
            );
        }
        let mut options = self.options();
        if let Some(name) = self.reach.prefer_reachable().await {
            let dialed = &self.reach.dialed;
            warn(&format!(
                "{name} does not resolve on this machine; the kubeconfig has the server {dialed} instead"
            ));
            options.names.clone_from(&self.reach.names);
        }
        // before anything is created
        if let Some(file) = &self.up.key_file {
            cloudsim::seal(Some(file)).context("cannot use --key-file")?;
        }
        let destination = destination::of(&self.up, std::env::var_os("KUBECONFIG"));
        self.registration = self.register(Some(&destination)).await?;
        destination::check(&destination).await?;
        let directory = self.up.data_dir.as_deref();
        self.is_data_new = directory.is_some_and(|directory| !directory.exists());
        let has_objects = directory.is_some() && !self.is_data_new;
        if has_objects && self.origin.dump().is_some_and(|dump| dump.objects() > 0) {
            warn(
                "the data directory exists; of --from, only the nodes are started, and no object is created",
            );
        }
        options.kubeconfig = Some(destination);
        if self.up.data_dir.is_none() {
            let store = self.origin.store().unwrap_or_else(MemoryStore::new);
            self.snapshots = Source::new(store.clone());
            options.snapshots = Some(Arc::new(self.snapshots.clone()));
            options.store = Some(store);
        }
        let step = match &self.up.data_dir {
            Some(directory) => format!("opening the database in {}", directory.display()),
            None => "starting the cloud".to_owned(),
        };
        let Some(cloud) = self.start(step, options).await? else {
            return Ok(());
        };
        let temporary =
            tempfile::tempdir().context("cannot create a temporary directory for the nodes")?;
        let mut fleet = None;
        let starting = async {
            let of_cloud = (&cloud, temporary.path());
            let machines = self.origin.machines();
            start_nodes(&self.up, machines, self.screen, of_cloud, &mut fleet).await?;
            self.snapshots.set_nodes(fleet.as_ref());
            match self.origin.dump() {
                Some(dump) if !has_objects => load(dump, &cloud, self.screen).await,
                _ => Ok(()),
            }
        };
        let nodes_ready = clock::select! {
            // cancel-safe: the program ends then.
            started = starting => Some(started),
            () = self.signals.wait() => None,
            // `stop` reports the panic.
            _ = cloud.wait_panicked() => None,
        };
        let ended = match nodes_ready {
            Some(Ok(())) => self.serve(&cloud, fleet.as_mut()).await,
            Some(Err(error)) => Err(error),
            None => Ok(()),
        };
        ended.and(self.stop(fleet, cloud).await)
    }

    /// Runs a cloud with a cluster's API server until Ctrl-C.
    async fn with_cluster(mut self) -> anyhow::Result<()> {
        let mut options = self.options();
        let cluster = cluster::options(&self.up.cluster, self.up.address).await?;
        self.cluster_url = cluster.config.cluster_url.to_string();
        options.cluster = Some(cluster);
        self.registration = self.register(None).await?;
        let Some(cloud) = self
            .start("connecting to the cluster".to_owned(), options)
            .await?
        else {
            anyhow::bail!("stopped by a signal before it was ready");
        };
        let ended = self.serve(&cloud, None).await;
        ended.and(self.stop(None, cloud).await)
    }

    /// Starts the cloud; `None` if a signal came first.
    async fn start(&mut self, step: String, options: Options) -> anyhow::Result<Option<Cloud>> {
        let starting = Box::pin(Cloud::start(options));
        clock::select! {
            started = self.screen.wait(|| step.clone(), starting) => Ok(Some(started?)),
            // cancel-safe: the program ends then.
            () = self.signals.wait() => Ok(None),
        }
    }

    /// Shows that the cloud is ready, and waits for its end.
    async fn serve(&mut self, cloud: &Cloud, fleet: Option<&mut Fleet>) -> anyhow::Result<()> {
        let api = match cloud.addresses().api {
            Some(api) => format!("https://{}", self.reach.display_address(api)),
            None => self.cluster_url.clone(),
        };
        let took = self.begun.elapsed();
        let nodes = self.up.nodes + self.origin.machines().len();
        let data = ready_screen::data(&self.up, self.is_data_new);
        let lines = ready_screen::lines(&self.up, &self.reach, (&api, data, nodes), cloud, took);
        let entries = cloud.kubeconfig_entries().map(Entries::file);
        let file = entries.map(std::path::absolute).transpose()?;
        if let Some(registration) = &mut self.registration {
            registration.set_ready(api, file)?;
        }
        self.screen.write(&lines);
        if self.up.detached.is_some() {
            detach::report_ready()?;
        }
        // outside of systemd this does nothing
        if let Err(error) = sd_notify::notify(&[sd_notify::NotifyState::Ready]) {
            tracing::warn!(%error, "failed to report to systemd that the cloud is ready");
        }
        let rejoin = async {
            match fleet {
                Some(fleet) => fleet.rejoin_revoked(cloud).await,
                None => std::future::pending().await,
            }
        };
        clock::select! {
            // cancel-safe: the program ends then.
            () = self.signals.wait() => {}
            () = rejoin => {}
            // `stop` reports the panic.
            _ = cloud.wait_panicked() => {}
        }
        Ok(())
    }

    /// Writes the record by which other commands find this cloud, as one that starts. Only a detached one fails if there can be none:
    /// nothing else could stop that. In a pod, the cluster has the records.
    ///
    /// # Errors
    /// Another cloud has the same entries of a kubeconfig.
    async fn register(
        &self,
        destination: Option<&Destination>,
    ) -> anyhow::Result<Option<Registration>> {
        if self.up.cluster.in_cluster {
            return Ok(None);
        }
        let context = match destination {
            Some(destination) => Some(destination.context.clone()),
            None => self.up.cluster.kube_context.clone(),
        };
        let file = match destination {
            Some(destination) => (destination.find_cluster()?)
                .or_else(|| destination.default_file().map(Path::to_owned)),
            None => None,
        };
        let cloud = RunningCloud {
            process: Process::own()?,
            since: clock::now(),
            is_starting: true,
            api: None,
            kubeconfig: file.map(std::path::absolute).transpose()?,
            context,
            data_dir: (self.up.data_dir.as_deref().map(std::path::absolute)).transpose()?,
            log: self.up.detached.clone(),
        };
        match self.records.add(cloud).await {
            Ok(added) => Ok(Some(added)),
            Err(RecordError::Unusable(error)) if self.up.detached.is_none() => {
                let error: &dyn std::error::Error = error.as_ref();
                tracing::warn!(
                    error,
                    "cannot record this cloud; `cloudsim status` and `down` do not find it"
                );
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Stops the nodes and the cloud, and says so.
    async fn stop(&mut self, fleet: Option<Fleet>, cloud: Cloud) -> anyhow::Result<()> {
        let begun = Instant::now();
        self.screen
            .write(&[Line::Blank, Line::Note("Stopping cloudsim".to_owned())]);
        let nodes = match fleet {
            None => Nodes::None,
            Some(fleet) if self.up.data_dir.is_none() => Nodes::Temporary(fleet),
            Some(fleet) => Nodes::Kept(fleet),
        };
        let stopping = Box::pin(stop(nodes, cloud, &mut self.signals));
        self.screen
            .wait(|| "stopping cloudsim".to_owned(), stopping)
            .await?;
        let kept = match &self.up.data_dir {
            Some(directory) => format!("; its data is in {}", directory.display()),
            None => String::new(),
        };
        self.screen.write(&[Line::Title(format!(
            "cloudsim stopped after {:.1} s{kept}",
            begun.elapsed().as_secs_f64()
        ))]);
        Ok(())
    }
}

/// Creates the objects of a dump.
async fn load(dump: &Dump, cloud: &Cloud, screen: Screen) -> anyhow::Result<()> {
    if dump.objects() == 0 {
        return Ok(());
    }
    let step = || format!("creating {}", count(dump.objects(), "object"));
    let client = cloud.client();
    let skipped = screen.wait(step, Box::pin(dump.load(&client))).await?;
    if !skipped.is_empty() {
        warn(&format!("--from skips, or warns of:\n{skipped}"));
    }
    Ok(())
}

/// Starts the nodes of this process, and waits until they are Ready.
async fn start_nodes(
    up: &Up,
    machines: &[Machine],
    screen: Screen,
    (cloud, temporary): (&Cloud, &Path),
    fleet: &mut Option<Fleet>,
) -> anyhow::Result<()> {
    let nodes = up.nodes + machines.len();
    if nodes == 0 {
        return Ok(());
    }
    // Nodes are configured with absolute paths.
    let directory = match &up.data_dir {
        Some(directory) => std::path::absolute(directory)?.join("nodes"),
        None => temporary.to_owned(),
    };
    let key_file = up
        .key_file
        .as_deref()
        .map(std::path::absolute)
        .transpose()?;
    let mut options = fleet::Options {
        key_file,
        machines: machines.to_vec(),
        edged: up.properties.settings(),
        capacity: up.properties.capacity(),
        in_memory: up.data_dir.is_none(),
        // nobody knows the temporary directory
        is_reachable: up.data_dir.is_some(),
        ..fleet::Options::new(up.nodes, directory)
    }
    .beside(cloud);
    if up.links == Links::Tls {
        options.in_process = None;
    }
    let ready = AtomicUsize::new(0);
    let starting = Box::pin(async {
        fleet::forget_useless(cloud, &options).await?;
        let started = Fleet::start(cloud.addresses(), cloud.token(), &options).await?;
        fleet
            .insert(started)
            .ready_counting(cloud.client(), &ready)
            .await?;
        anyhow::Ok(())
    });
    let step = || {
        let ready = ready.load(Ordering::Relaxed);
        format!("starting {}, {ready} Ready", count(nodes, "node"))
    };
    screen.wait(step, starting).await
}

/// Returns the limits of CloudHub.
fn limits(up: &Up) -> Limits {
    Limits {
        max_message: up.max_message,
        nodes: up.max_nodes.unwrap_or(usize::MAX),
        ..Limits::default()
    }
}

fn options(up: &Up, reach: &Reach) -> Options {
    Options {
        address: up.address,
        names: reach.names.clone(),
        api_port: up.api_port,
        https_port: up.https_port,
        ws_port: up.ws_port,
        quic_port: up.quic_port,
        tunnel_port: up.tunnel_port.0,
        relay_port: up.relay_port,
        kubelets: up.stream_port.map(|port| KubeletOptions {
            port,
            client_ca: match &up.stream_client_ca {
                Some(file) => ClientCa::File(file.clone()),
                None => ClientCa::Cluster,
            },
            client_names: up.stream_client_names.clone(),
            service: up.stream_service.clone().map(|name| StreamService {
                name,
                address_type: up.stream_address_type.clone(),
            }),
        }),
        router: up.router_port.map(|port| RouterOptions {
            port,
            anonymous: up.router_anonymous,
        }),
        data_dir: up.data_dir.clone(),
        store: None,
        snapshots: None,
        key_file: up.key_file.clone(),
        kubeconfig: None,
        lease_grace: up.node_grace,
        controllers: up.controllers.clone(),
        rbac: up.rbac,
        limits: limits(up),
        hubs: usize::from(up.hubs),
        renewal_grace: up.renewal_grace.get(),
        max_token_lifetime: up.service_account_max_token_expiration,
        cluster: None,
        reserved: up.names.clone(),
        seed: up.fault_seed,
        faults: None,
        recorder: Recorder::default(),
        page: up.ui || (!up.no_ui && up.address.is_loopback()),
    }
}
