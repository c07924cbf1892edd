//! `cloudsim up`: runs a cloud until Ctrl-C.

use std::time::Instant;

use anyhow::Context;
use cloudsim::{Addresses, Cloud, Options, hub::Limits, router::RouterOptions, streams::KubeletOptions};

use super::{Signals, cluster, join_line, paste, print_line, stop, written};
use crate::{
    cli::Up,
    fleet::{self, Fleet},
    reach::{OwnNames, Reach},
};

pub(super) async fn run(up: Up) -> anyhow::Result<()> {
    let mut signals = Signals::listen()?;
    let begun = Instant::now();
    let reach = Reach::of(up.address, &up.names, &OwnNames::of_machine());
    let mut options = options(&up, &reach);
    if up.cluster.is_given() {
        options.cluster = Some(cluster::options(&up.cluster).await?);
        options.kubeconfig = None;
        return serve_cluster(options, begun, signals).await;
    }
    written::permit(&up.kubeconfig).await?;
    let cloud = Cloud::start(options).await?;
    let addresses = cloud.addresses();
    print_line(&format!("cloudsim is ready after {} ms", begun.elapsed().as_millis()));
    if let Some(api) = addresses.api {
        print_line(&format!("  API        https://{api}"));
    }
    print_servers(addresses);
    let (program, kubeconfig) = (paste::program(), paste::path(&up.kubeconfig));
    print_line("For kubectl:");
    print_line(&format!("  export KUBECONFIG={kubeconfig}"));
    print_line("The join token for nodes:");
    print_line(&format!("  {program} token --kubeconfig {kubeconfig}"));
    for line in join_line::lines(&reach, addresses, cloud.token(), up.data_dir.is_some()) {
        print_line(&line);
    }
    let temporary = tempfile::tempdir().context("there is no temporary directory for the nodes")?;
    // Nodes are configured with absolute paths.
    let directory = match &up.data_dir {
        Some(directory) => std::path::absolute(directory)?.join("nodes"),
        None => temporary.path().to_owned(),
    };
    let fleet = match up.nodes {
        0 => None,
        count => {
            let key_file = up.key_file.as_deref().map(std::path::absolute).transpose()?;
            let options = fleet::Options { key_file, ..fleet::Options::new(count, directory) };
            fleet::forget_useless(&cloud, &options).await?;
            Some(Fleet::start(addresses, cloud.token(), &options).await?)
        }
    };
    tokio::select! {
        // Both are cancel-safe: the program ends then.
        () = signals.wait() => {}
        // `stop` reports the panic.
        _ = cloud.panicked() => {}
    }
    stop(fleet, cloud, &mut signals).await
}

/// Prints the servers that every cloud has.
fn print_servers(addresses: Addresses) {
    print_line(&format!("  enrolment  https://{}", addresses.https));
    print_line(&format!("  CloudHub   wss://{}", addresses.websocket));
    if let Some(quic) = addresses.quic {
        print_line(&format!("  QUIC       {quic}"));
    }
    if let Some(tunnel) = addresses.tunnel {
        print_line(&format!("  streams    wss://{tunnel}"));
    }
    if let Some(relay) = addresses.relay {
        print_line(&format!("  relay      {relay}"));
    }
    if let Some(kubelets) = addresses.kubelets {
        print_line(&format!("  kubelets   https://{kubelets}"));
    }
    if let Some(router) = addresses.router {
        let scheme = if router.ip().is_loopback() { "http" } else { "https" };
        print_line(&format!("  router     {scheme}://{router}"));
    }
}

/// Runs a cloud with a cluster's API server until Ctrl-C.
async fn serve_cluster(options: Options, begun: Instant, mut signals: Signals) -> anyhow::Result<()> {
    let server = options.cluster.as_ref().map(|cluster| cluster.config.cluster_url.to_string());
    let starting = Box::pin(Cloud::start(options));
    let cloud = tokio::select! {
        started = starting => started?,
        // Both are cancel-safe: the program ends then.
        () = signals.wait() => anyhow::bail!("ended by a signal before it had started"),
    };
    let addresses = cloud.addresses();
    print_line(&format!("cloudsim is ready after {} ms", begun.elapsed().as_millis()));
    print_line(&format!("  cluster    {}", server.unwrap_or_default()));
    print_servers(addresses);
    if let Some(health) = addresses.health {
        print_line(&format!("  health     http://{health}"));
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
        kubelets: up.stream_port.zip(up.stream_client_ca.clone()).map(|(port, client_ca)| KubeletOptions {
            port,
            client_ca,
            client_names: up.stream_client_names.clone(),
        }),
        router: up.router_port.map(|port| RouterOptions { port, anonymous: up.router_anonymous }),
        data_dir: up.data_dir.clone(),
        key_file: up.key_file.clone(),
        kubeconfig: Some(up.kubeconfig.clone()),
        lease_grace: up.node_grace,
        controllers: up.controllers.clone(),
        rbac: up.rbac,
        limits: Limits { max_message: up.max_message, ..Limits::default() },
        hubs: usize::from(up.hubs),
        renewal_grace: up.renewal_grace.get(),
        max_token_lifetime: up.service_account_max_token_expiration,
        cluster: None,
        reserved: up.names.clone(),
        seed: up.fault_seed,
    }
}
