//! `cloudsim faults`: shows and changes the deliberate faults of a running cloud.

use std::path::Path;

use anyhow::{Context, bail};
use cloudsim::faults::{Conditions, FaultTarget, Link, Profile, Shape};
use http::Method;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use serde_json::{Value, json};

use super::{nodes::sessions, print, print_line, remote::Remote, table::Table};
use crate::cli::{FaultsCommand, Output};

pub(super) async fn run(
    kubeconfig: Option<&Path>,
    output: Option<Output>,
    command: FaultsCommand,
) -> anyhow::Result<()> {
    match command {
        FaultsCommand::Profiles => return profiles(output),
        FaultsCommand::Shapes => return shapes(output),
        _ => {}
    }
    let cloud = Remote::of(kubeconfig).await?;
    if cloud.is_a_cluster().await? {
        bail!(
            "a cloud before a cluster has no faults: they are for a cloud with an API of its own, `cloudsim up` without --kube-context"
        );
    }
    let set = async |whom: &FaultTarget, conditions: Conditions| {
        if let FaultTarget::Node(node) = whom {
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
        FaultsCommand::Send { node, shapes } => return send(&cloud, output, &node, &shapes).await,
        FaultsCommand::Profiles | FaultsCommand::Shapes => return Ok(()),
    };
    print(output.unwrap_or(Output::Yaml), &wrong)
}

/// Fails for an unknown node: a mistyped name would be a fault that never takes effect.
async fn known(cloud: &Remote, node: &str) -> anyhow::Result<()> {
    let registered = Api::<Node>::all(cloud.client.clone()).get_opt(node).await;
    let registered = registered.with_context(|| format!("{} tells of no nodes", cloud.server))?;
    if registered.is_some() || sessions(cloud).await?.iter().any(|session| session.node == node) {
        return Ok(());
    }
    bail!("this cloud has no node {node}; `cloudsim nodes` lists those that it has")
}

async fn send(cloud: &Remote, output: Option<Output>, node: &str, shapes: &[Shape]) -> anyhow::Result<()> {
    known(cloud, node).await?;
    if !sessions(cloud).await?.iter().any(|session| session.node == node) {
        bail!("node {node} is not connected; `cloudsim nodes` shows who is");
    }
    let mut outcomes = Vec::new();
    for shape in if shapes.is_empty() { Shape::ALL } else { shapes } {
        let path = format!("hostile/{node}");
        let sent = cloud.ask::<Value>(Method::POST, &path, &json!({"shape": shape})).await;
        let name = shape.name();
        match sent {
            Ok(_) => {
                outcomes.push(json!({"shape": name, "sent": true}));
                print_outcome(output, &format!("{name:<18} sent to {node}"));
            }
            // Many of these messages make a node end its session; it is connected again in a moment.
            Err(error) if shapes.len() != 1 => {
                outcomes.push(json!({"shape": name, "sent": false, "error": format!("{error:#}")}));
                print_outcome(output, &format!("{name:<18} not sent: {error:#}"));
            }
            Err(error) => return Err(error),
        }
    }
    let sent_any = outcomes.iter().any(|outcome| outcome["sent"] == true);
    if let Some(output) = output {
        print(output, &json!({"node": node, "messages": outcomes}))?;
    }
    if !sent_any {
        bail!("nothing was sent to {node}");
    }
    Ok(())
}

/// Prints a line for people; programs get a document at the end.
fn print_outcome(output: Option<Output>, line: &str) {
    if output.is_none() {
        print_line(line);
    }
}

fn profiles(output: Option<Output>) -> anyhow::Result<()> {
    if let Some(output) = output {
        let profile = |profile: &Profile| json!({"name": profile.name(), "conditions": Conditions::of_profile(*profile)});
        return print(output, &json!({"profiles": Profile::ALL.iter().map(profile).collect::<Vec<_>>()}));
    }
    for profile in Profile::ALL {
        let text = serde_json::to_string(&Conditions::of_profile(profile))?;
        print_line(&format!(
            "{:<12} {}",
            profile.name(),
            text.replace(['{', '}', '"'], "").replace(',', "  ")
        ));
    }
    Ok(())
}

fn shapes(output: Option<Output>) -> anyhow::Result<()> {
    if let Some(output) = output {
        let shape = |shape: &Shape| json!({"name": shape.name(), "about": shape.about()});
        return print(output, &json!({"shapes": Shape::ALL.iter().map(shape).collect::<Vec<_>>()}));
    }
    let mut table = Table::new(&["SHAPE", "WHAT"]);
    for shape in Shape::ALL {
        table.row(vec![shape.name().to_owned(), shape.about().to_owned()]);
    }
    print_line(table.to_string().trim_end());
    Ok(())
}
