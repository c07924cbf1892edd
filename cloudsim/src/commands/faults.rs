//! `cloudsim faults`: what is wrong with a running cloud, on purpose.

use std::path::Path;

use anyhow::{Context, bail};
use http::Method;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use serde_json::{Value, json};

use super::{nodes::sessions, remote::Remote, say, table::Table};
use crate::{
    cli::FaultsCommand,
    faults::{Conditions, Link, Profile, Shape, Whom},
};

pub(super) async fn run(kubeconfig: Option<&Path>, command: FaultsCommand) -> anyhow::Result<()> {
    match command {
        FaultsCommand::Profiles => return profiles(),
        FaultsCommand::Shapes => {
            shapes();
            return Ok(());
        }
        _ => {}
    }
    let cloud = Remote::of(kubeconfig).await?;
    let set = async |whom: &Whom, conditions: Conditions| {
        if let Whom::Node(node) = whom {
            known(&cloud, node).await?;
        }
        cloud.ask::<Value>(Method::PUT, &format!("faults/{whom}"), &conditions).await
    };
    let wrong = match command {
        FaultsCommand::List => cloud.ask(Method::GET, "faults", &()).await?,
        FaultsCommand::Set { whom, bad } => set(&whom, bad.conditions()).await?,
        FaultsCommand::Cut { whom } => set(&whom, Conditions::link(Link::Cut)).await?,
        FaultsCommand::HalfOpen { whom } => set(&whom, Conditions::link(Link::HalfOpen)).await?,
        FaultsCommand::Restore { whom } => {
            let path = whom.map_or_else(|| "faults".to_owned(), |whom| format!("faults/{whom}"));
            cloud.ask(Method::DELETE, &path, &()).await?
        }
        FaultsCommand::Certificate { certificate } => {
            cloud.ask(Method::PUT, "certificate", &json!({"certificate": certificate})).await?
        }
        FaultsCommand::Answers { answers } => {
            cloud.ask(Method::PUT, "answers", &json!({"answers": answers})).await?
        }
        FaultsCommand::Send { node, shapes } => return send(&cloud, &node, &shapes).await,
        FaultsCommand::Profiles | FaultsCommand::Shapes => return Ok(()),
    };
    say(serde_saphyr::to_string(&wrong)?.trim_end());
    Ok(())
}

/// A mistyped name would be a fault that nobody ever meets.
async fn known(cloud: &Remote, node: &str) -> anyhow::Result<()> {
    let registered = Api::<Node>::all(cloud.client.clone()).get_opt(node).await;
    let registered = registered.with_context(|| format!("{} tells of no nodes", cloud.server))?;
    if registered.is_some() || sessions(cloud).await?.iter().any(|session| session.node == node) {
        return Ok(());
    }
    bail!("this cloud has no node {node}; `cloudsim nodes` lists those that it has")
}

async fn send(cloud: &Remote, node: &str, shapes: &[Shape]) -> anyhow::Result<()> {
    known(cloud, node).await?;
    if !sessions(cloud).await?.iter().any(|session| session.node == node) {
        bail!("node {node} is not connected; `cloudsim nodes` shows who is");
    }
    let mut sent_any = false;
    for shape in if shapes.is_empty() { Shape::ALL } else { shapes } {
        let path = format!("hostile/{node}");
        let sent = cloud.ask::<Value>(Method::POST, &path, &json!({"shape": shape})).await;
        match sent {
            Ok(_) => {
                sent_any = true;
                say(&format!("{:<18} sent to {node}", shape.name()));
            }
            // a node ends its session over many of them, and is back in a moment
            Err(error) if shapes.len() != 1 => say(&format!("{:<18} not sent: {error:#}", shape.name())),
            Err(error) => return Err(error),
        }
    }
    if !sent_any {
        bail!("nothing was sent to {node}");
    }
    Ok(())
}

fn profiles() -> anyhow::Result<()> {
    for profile in Profile::ALL {
        let text = serde_json::to_string(&profile.conditions())?;
        say(&format!("{:<12} {}", profile.name(), text.replace(['{', '}', '"'], "").replace(',', "  ")));
    }
    Ok(())
}

fn shapes() {
    let mut table = Table::new(&["SHAPE", "WHAT"]);
    for shape in Shape::ALL {
        table.row(vec![shape.name().to_owned(), shape.about().to_owned()]);
    }
    say(table.to_string().trim_end());
}
