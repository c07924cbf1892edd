//! Finds the cluster that `cloudsim up` serves, and the cloud's identity there, from a kubeconfig or from the pod that it runs in.

use std::net::IpAddr;

use anyhow::{Context, bail};
use cloudsim::{ClusterOptions, PeerOptions};
use kube::{
    Config,
    config::{KubeConfigOptions, Kubeconfig},
};

use super::{
    connect::unread,
    environment::{self, Unusable},
    nearest, proxy,
};
use crate::{cli::ClusterArgs, reach::OwnNames};

/// Returns the options with which the cloud is started.
pub(super) async fn options(args: &ClusterArgs, address: IpAddr) -> anyhow::Result<ClusterOptions> {
    let peer = peer(args, address)?;
    let config = if args.in_cluster {
        Config::incluster().context(
            "not running in a pod: KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT or the service account's files are missing; outside \
             of a cluster, use --kube-context",
        )?
    } else {
        of_context(args).await?
    };
    Ok(ClusterOptions {
        installation: args.installation.clone(),
        install_crds: args.install_crds,
        node_groups: args.node_groups,
        health_port: args.health_port,
        metrics_api_port: args.metrics_api_port,
        page_port: args.ui_port,
        peer,
        ..ClusterOptions::new(config, &replica())
    })
}

/// Returns how other replicas reach this one, which listens at `address`.
fn peer(args: &ClusterArgs, address: IpAddr) -> anyhow::Result<Option<PeerOptions>> {
    let Some(port) = args.replica_port else {
        return Ok(None);
    };
    let address = args.replica_address.unwrap_or(address);
    if address.is_unspecified() {
        bail!(
            "other replicas cannot dial {address}: --replica-port needs --replica-address with the address of this machine or pod"
        );
    }
    Ok(Some(PeerOptions { port, address }))
}

/// Reads `~/.kube/config`.
fn of_home() -> Result<Kubeconfig, Unusable> {
    let home = std::env::home_dir().ok_or(Unusable::NoHome)?;
    environment::read_file(&home.join(".kube/config"))
}

async fn of_context(args: &ClusterArgs) -> anyhow::Result<Config> {
    let read = match &args.cluster_kubeconfig {
        Some(file) => environment::read_file(file),
        None => environment::read().and_then(|read| read.map_or_else(of_home, Ok)),
    };
    let read = read.map_err(|error| {
        unread(
            error,
            "name the cluster's kubeconfig with --cluster-kubeconfig or in $KUBECONFIG",
        )
    })?;
    let known: Vec<String> = read
        .contexts
        .iter()
        .map(|context| context.name.clone())
        .collect();
    if let Some(wanted) = args
        .kube_context
        .as_ref()
        .filter(|wanted| !known.contains(wanted))
    {
        bail!(
            "there is no context {wanted:?} for --kube-context{}; the kubeconfig has: {}",
            nearest(wanted, known.iter().map(String::as_str)),
            known.join(", ")
        );
    }
    let options = KubeConfigOptions {
        context: args.kube_context.clone(),
        ..KubeConfigOptions::default()
    };
    let config = Config::from_custom_kubeconfig(read, &options)
        .await
        .with_context(|| {
            let wanted = args.kube_context.as_deref().unwrap_or("the current one");
            format!(
                "the context of --kube-context ({wanted}) cannot be used; the kubeconfig has: {}",
                known.join(", ")
            )
        })?;
    proxy::directly(config)
}

/// Returns this process's name among the replicas: unique, also after a restart.
fn replica() -> String {
    let number = clock::uuid().simple().to_string();
    format!(
        "{}-{}",
        OwnNames::of_machine().name,
        number.get(..8).unwrap_or(&number)
    )
}
