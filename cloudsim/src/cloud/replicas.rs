//! The hub with its replicas: building, binding and running them.

use std::{net::SocketAddr, time::Duration};

use kube::Client;
use tokio::{sync::watch, time::timeout};
use tracing::warn;

use super::{Options, StartError};
use crate::{
    controllers::{
        certificates::Approver, device::Devices, dynamic::Dynamic, edge::Edge, events::Recorder,
        node_jobs::NodeJobs, rules::Rules, sync::SyncRecords,
    },
    faults::Faults,
    hub::{Hub, Replica},
    mailbox::Mailboxes,
    pki::{NodeCertificates, Trust},
    sessions::Sessions,
    streams::KubeletEndpoint,
    tasks::Tasks,
};

/// How long accepting nodes waits for the rules to be read.
const RULES_TIMEOUT: Duration = Duration::from_secs(10);
/// How nodes' pods verify the API server, and how the API reaches nodes.
pub(super) struct ApiAccess {
    /// The CA (PEM) with which pods verify the API server.
    pub(super) root_ca: String,
    /// Where an external API server reaches the kubelets of all nodes.
    pub(super) kubelets: Option<KubeletEndpoint>,
    /// Approves nodes' certificate requests that are made in this cloud's name.
    pub(super) approver: Option<Approver>,
    /// A client whose lists fail if one of their objects is damaged.
    pub(super) complete: Client,
}

/// Builds the replicas of the hub; their controllers do not run yet.
pub(super) fn replicas(
    options: &Options,
    client: &Client,
    events: &Recorder,
    certificates: &NodeCertificates,
    reached: &ApiAccess,
    (rules, node_jobs, records): (&Rules, &NodeJobs, &SyncRecords),
) -> Vec<Replica> {
    let replica = |_| {
        let mailboxes = Mailboxes::default();
        let edge = Edge::new(client.clone(), mailboxes.clone(), &reached.root_ca);
        let edge = edge
            .with_certificates(certificates.clone())
            .with_kubelets(reached.kubelets.clone());
        let edge = edge.with_approver(reached.approver.clone());
        let edge = edge.with_complete_client(reached.complete.clone());
        let edge = edge.with_node_jobs(node_jobs.clone());
        let dynamic = Dynamic::new(client.clone(), edge.clone());
        let devices = Devices::new(client.clone(), mailboxes.clone(), events.clone());
        let records = records.clone();
        Replica {
            edge,
            dynamic,
            devices,
            rules: rules.clone(),
            node_jobs: node_jobs.clone(),
            records,
            mailboxes,
        }
    };
    (0..options.hubs.max(1)).map(replica).collect()
}

/// Binds the hub; returns its QUIC address as well.
pub(super) async fn bind_hub(
    options: &Options,
    trust: &Trust,
    faults: &Faults,
    sessions: &Sessions,
    replicas: Vec<Replica>,
) -> Result<(Hub, Option<SocketAddr>), StartError> {
    let at = |port| SocketAddr::new(options.address, port);
    let limits = options.limits.clone();
    let mut hub = Hub::bind(
        at(options.ws_port),
        trust.clone(),
        replicas,
        limits,
        faults,
        sessions.clone(),
    )
    .await?;
    let quic = options
        .quic_port
        .map(|port| hub.bind_quic(at(port)))
        .transpose()?;
    Ok((hub, quic))
}

/// Runs the hub and the controllers of its replicas; `ready` is set when nodes are accepted.
pub(super) fn run_hub(hub: Hub, replicas: Vec<Replica>, ready: watch::Sender<bool>, tasks: &Tasks) {
    for Replica { edge, devices, .. } in &replicas {
        tasks.spawn("edge controller", edge.clone().run(tasks.child_token()));
        tasks.spawn(
            "device controller",
            devices.clone().run(tasks.child_token()),
        );
    }
    let (stopping, all) = (tasks.child_token(), tasks.clone());
    tasks.spawn("CloudHub", async move {
        // what a node lacks is not known before all devices are
        for Replica { devices, .. } in &replicas {
            if stopping.run_until_cancelled(devices.complete()).await.is_none() {
                return;
            }
        }
        // a message that comes earlier would not be handled
        for Replica { rules, .. } in &replicas {
            let read = timeout(RULES_TIMEOUT, rules.complete());
            match stopping.run_until_cancelled(read).await {
                None => return,
                Some(Ok(())) => {}
                Some(Err(_)) => {
                    warn!("failed to read rules in time; serving nodes without rules until they are read")
                }
            }
        }
        ready.send_replace(true);
        hub.run(stopping.clone()).await;
        if !stopping.is_cancelled() {
            all.fail("CloudHub", "it does not listen any more".into());
        }
    });
}
