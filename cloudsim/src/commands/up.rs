//! `cloudsim up`: a cloud until Ctrl-C.

use std::time::Instant;

use anyhow::Context;

use super::{Signals, join_line, paste, say, stop, written};
use crate::{
    Cloud, Options,
    cli::Up,
    fleet::{self, Fleet},
    hub::Limits,
    reach::{OwnNames, Reach},
    router::RouterOptions,
    streams::KubeletOptions,
};

pub(super) async fn run(up: Up) -> anyhow::Result<()> {
    let mut signals = Signals::listen()?;
    let begun = Instant::now();
    let reach = Reach::of(up.address, &up.names, &OwnNames::of_machine());
    written::permit(&up.kubeconfig).await?;
    let cloud = Cloud::start(options(&up, &reach)).await?;
    let addresses = cloud.addresses();
    say(&format!("cloudsim is ready after {} ms", begun.elapsed().as_millis()));
    say(&format!("  API        https://{}", addresses.api));
    say(&format!("  enrolment  https://{}", addresses.https));
    say(&format!("  CloudHub   wss://{}", addresses.websocket));
    if let Some(quic) = addresses.quic {
        say(&format!("  QUIC       {quic}"));
    }
    if let Some(tunnel) = addresses.tunnel {
        say(&format!("  streams    wss://{tunnel}"));
    }
    if let Some(kubelets) = addresses.kubelets {
        say(&format!("  kubelets   https://{kubelets}"));
    }
    if let Some(router) = addresses.router {
        let scheme = if router.ip().is_loopback() { "http" } else { "https" };
        say(&format!("  router     {scheme}://{router}"));
    }
    let (program, kubeconfig) = (paste::program(), paste::path(&up.kubeconfig));
    say("For kubectl:");
    say(&format!("  export KUBECONFIG={kubeconfig}"));
    say("The join token for nodes:");
    say(&format!("  {program} token --kubeconfig {kubeconfig}"));
    for line in join_line::lines(&reach, addresses, cloud.token(), up.data_dir.is_some()) {
        say(&line);
    }
    let temporary = tempfile::tempdir().context("there is no temporary directory for the nodes")?;
    // nodes are configured with paths from the root
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
        // cancel-safe, both: the program ends then
        () = signals.wait() => {}
        // told by `stop`
        _ = cloud.panicked() => {}
    }
    stop(fleet, cloud, &mut signals).await
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
        reserved: up.names.clone(),
        seed: up.fault_seed,
    }
}
