//! `cloudsim up`: runs a cloud until Ctrl-C.

use std::{path::Path, time::Instant};

use anyhow::Context;
use cloudsim::{
    Addresses, Cloud, Options, hub::Limits, router::RouterOptions, streams::KubeletOptions,
};
use wire::text::count;

use super::{Signals, cluster, destination, directories, join_line, paste, print_line, stop, warn};

use crate::{
    cli::Up,
    fleet::{self, Fleet},
    reach::{OwnNames, Reach, check_address},
};

pub(super) async fn run(up: Up) -> anyhow::Result<()> {
    let mut signals = Signals::listen()?;
    let begun = Instant::now();
    let own = OwnNames::of_machine();
    check_address(up.address, &own)?;
    let mut reach = Reach::of(up.address, &up.names, &own);
    let mut options = options(&up, &reach);
    if up.cluster.is_given() {
        options.cluster = Some(cluster::options(&up.cluster).await?);
        return serve_cluster(options, &reach, begun, signals).await;
    }
    if let Some(name) = reach.prefer_reachable().await {
        let dialed = &reach.dialed;
        warn(&format!(
            "{name} does not resolve on this machine; the kubeconfig has the server {dialed} instead"
        ));
        options.names.clone_from(&reach.names);
    }
    let destination = destination::of(&up, std::env::var_os("KUBECONFIG"));
    destination::check(&destination).await?;
    directories::announce(destination.directory());
    directories::announce(up.data_dir.as_deref());
    options.kubeconfig = Some(destination);
    let cloud = Cloud::start(options).await?;
    let temporary = tempfile::tempdir().context("there is no temporary directory for the nodes")?;
    let mut fleet = None;
    let nodes_ready = tokio::select! {
        // All are cancel-safe: the program ends then.
        started = start_nodes(&up, &cloud, temporary.path(), &mut fleet) => Some(started),
        () = signals.wait() => None,
        // `stop` reports the panic.
        _ = cloud.panicked() => None,
    };
    let started = match nodes_ready {
        Some(Ok(())) => {
            print_ready(&up, &reach, &cloud, begun);
            let rejoin = async {
                match &mut fleet {
                    Some(fleet) => fleet.rejoin_revoked(&cloud).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // All are cancel-safe: the program ends then.
                () = signals.wait() => {}
                () = rejoin => {}
                // `stop` reports the panic.
                _ = cloud.panicked() => {}
            }
            Ok(())
        }
        Some(Err(error)) => Err(error),
        None => Ok(()),
    };
    let stopped = stop(fleet, cloud, &mut signals).await;
    started.and(stopped)
}

/// Starts the nodes of this process, and waits until they are Ready.
async fn start_nodes(
    up: &Up,
    cloud: &Cloud,
    temporary: &Path,
    fleet: &mut Option<Fleet>,
) -> anyhow::Result<()> {
    if up.nodes == 0 {
        return Ok(());
    }
    print_line(&format!("starting {}", count(up.nodes, "node")));
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
    let options = fleet::Options {
        key_file,
        ..fleet::Options::new(up.nodes, directory)
    };
    fleet::forget_useless(cloud, &options).await?;
    let started = Fleet::start(cloud.addresses(), cloud.token(), &options).await?;
    fleet.insert(started).ready(cloud.client()).await?;
    Ok(())
}

/// Prints that the cloud is ready, where it is, and how it is used.
fn print_ready(up: &Up, reach: &Reach, cloud: &Cloud, begun: Instant) {
    let addresses = cloud.addresses();
    let took = begun.elapsed().as_millis();
    match up.nodes {
        0 => print_line(&format!("cloudsim is ready after {took} ms")),
        nodes => print_line(&format!(
            "cloudsim is ready after {took} ms, with {} Ready",
            count(nodes, "node")
        )),
    }
    if let Some(api) = addresses.api {
        print_line(&format!("  API        https://{}", reach.shown(api)));
    }
    print_servers(addresses, reach);
    let Some(entries) = cloud.kubeconfig_entries() else {
        return;
    };
    print_line("For kubectl:");
    for line in paste::for_kubectl(entries) {
        print_line(&line);
    }
    let token = format!("{} token {}", paste::program(), paste::access(entries));
    print_line("The join token for nodes:");
    print_line(&format!("  {token}"));
    for line in join_line::lines(reach, addresses, &token, up.data_dir.is_some()) {
        print_line(&line);
    }
}

/// Prints the servers that every cloud has.
fn print_servers(addresses: Addresses, reach: &Reach) {
    let shown = |at| reach.shown(at);
    print_line(&format!("  enrolment  https://{}", shown(addresses.https)));
    print_line(&format!(
        "  CloudHub   wss://{}",
        shown(addresses.websocket)
    ));
    if let Some(quic) = addresses.quic {
        print_line(&format!("  QUIC       {}", shown(quic)));
    }
    if let Some(tunnel) = addresses.tunnel {
        print_line(&format!("  streams    wss://{}", shown(tunnel)));
    }
    if let Some(relay) = addresses.relay {
        print_line(&format!("  relay      {}", shown(relay)));
    }
    if let Some(kubelets) = addresses.kubelets {
        print_line(&format!("  kubelets   https://{}", shown(kubelets)));
    }
    if let Some(router) = addresses.router {
        let scheme = if router.ip().is_loopback() {
            "http"
        } else {
            "https"
        };
        print_line(&format!("  router     {scheme}://{}", shown(router)));
    }
}

/// Runs a cloud with a cluster's API server until Ctrl-C.
async fn serve_cluster(
    options: Options,
    reach: &Reach,
    begun: Instant,
    mut signals: Signals,
) -> anyhow::Result<()> {
    let server = options
        .cluster
        .as_ref()
        .map(|cluster| cluster.config.cluster_url.to_string());
    let starting = Box::pin(Cloud::start(options));
    let cloud = tokio::select! {
        started = starting => started?,
        // Both are cancel-safe: the program ends then.
        () = signals.wait() => anyhow::bail!("ended by a signal before it had started"),
    };
    let addresses = cloud.addresses();
    print_line(&format!(
        "cloudsim is ready after {} ms",
        begun.elapsed().as_millis()
    ));
    print_line(&format!("  cluster    {}", server.unwrap_or_default()));
    print_servers(addresses, reach);
    if let Some(health) = addresses.health {
        print_line(&format!("  health     http://{}", reach.shown(health)));
    }
    // The token itself is not printed: this may be a pod's log, which more people read than Secrets.
    print_line("The join token for nodes, with a kubeconfig of the cluster:");
    print_line(&format!("  {} token --kubeconfig FILE", paste::program()));
    tokio::select! {
        // Both are cancel-safe: the program ends then.
        () = signals.wait() => {}
        // `stop` reports the panic.
        _ = cloud.panicked() => {}
    }
    stop(None, cloud, &mut signals).await
}

/// Returns the limits of CloudHub, which has room for the nodes of this process in any case.
fn limits(up: &Up) -> Limits {
    let default = Limits::default();
    Limits {
        max_message: up.max_message,
        nodes: default.nodes.max(up.nodes),
        ..default
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
        kubelets: up
            .stream_port
            .zip(up.stream_client_ca.clone())
            .map(|(port, client_ca)| KubeletOptions {
                port,
                client_ca,
                client_names: up.stream_client_names.clone(),
            }),
        router: up.router_port.map(|port| RouterOptions {
            port,
            anonymous: up.router_anonymous,
        }),
        data_dir: up.data_dir.clone(),
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
    }
}
