//! `cloudsim selftest`: tests a cloud with a cluster as its users would use it, with a node in this process.

mod cleanup;
mod manifests;

use std::process::ExitCode;

use anyhow::Context;
use clock::Instant;
use componentbase::Link;
use kube::{Client, Config};
use wire::text::with_causes;

use super::{Signals, connect, hollow, print_line, proxy};
use crate::{
    cli::{Access, Selftest},
    demo::Steps,
    fleet,
    fleet::HollowNode,
};

/// The prefix of the names of the node and all objects of a test.
const PREFIX: &str = "cloudsim-selftest";

pub(super) async fn run(options: Selftest) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::listen()?;
    let begun = Instant::now();
    let progress =
        |text: &str| print_line(&format!("{:>7.3} s  {text}", begun.elapsed().as_secs_f64()));
    let client = client(&options.access).await?;
    let number = clock::uuid().simple().to_string();
    let name = format!("{PREFIX}-{}", number.get(..8).unwrap_or(&number));
    let temporary =
        tempfile::tempdir().context("cannot create a temporary directory for the node")?;
    let manifests = manifests::read(&name, &options.namespace)?;

    let testing = async {
        let token = hollow::token(&options.join.token_file).await?;
        let of_fleet = fleet::Options::new(1, temporary.path());
        let cloud = hollow::endpoints(&options.join);
        let mut node = HollowNode::prepare(&name, cloud, &token, &of_fleet).await?;
        node.start().await?;
        let steps = Steps {
            client: client.clone(),
            connected: None,
            node: &node,
            manifests,
            progress: &progress,
        };
        let mut seen = Box::pin(steps.walk()).await;
        if seen.is_err() && node.link().is_none_or(|link| *link.borrow() == Link::Down) {
            let why = hollow::unreachable(&options.join).await;
            seen = seen.with_context(|| format!("the node is not connected: {why}"));
        }
        cleanup::objects(&client, &name, &options.namespace, &progress).await?;
        node.stop().await;
        seen.map(drop)
    };
    let outcome = clock::select! {
        outcome = testing => outcome,
        // cancel-safe: what was created is removed below.
        () = signals.wait() => Err(anyhow::anyhow!("stopped by a signal")),
    };
    // What is gone already is not searched for; the node comes last, when nothing reports it any more.
    let cleaned = async {
        cleanup::objects(&client, &name, &options.namespace, &|_| {}).await?;
        cleanup::node(&client, &name, &progress).await
    };
    Ok(match outcome.and(cleaned.await) {
        Ok(()) => {
            print_line(&format!(
                "self-test passed after {:.1} s",
                begun.elapsed().as_secs_f64()
            ));
            ExitCode::SUCCESS
        }
        Err(error) => {
            print_line(&format!(
                "self-test failed: {}",
                with_causes(error.as_ref())
            ));
            ExitCode::FAILURE
        }
    })
}

/// Returns a client of the cluster that the options name, or of the one that is known here.
async fn client(access: &Access) -> anyhow::Result<Client> {
    if *access != Access::default() {
        return connect::connect(access).await;
    }
    let config = Config::infer().await.context(
        "no cluster is configured; name its kubeconfig with --kubeconfig or $KUBECONFIG, or run the command in a pod of the cluster",
    )?;
    proxy::client(config)
}
