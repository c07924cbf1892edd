//! `cloudsim faults`: shows and changes the deliberate faults of a running cloud.

use anyhow::{Context, bail};
use cloudsim::faults::{Conditions, FaultTarget, Link, Profile, Shape};
use http::Method;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use serde_json::{Value, json};

use super::{nodes::sessions, print, print_line, remote::Remote, table::Table};
use crate::cli::{Access, Bad, FaultsCommand, Output};

pub(super) async fn run(
    access: &Access,
    output: Option<Output>,
    command: FaultsCommand,
) -> anyhow::Result<()> {
    match command {
        FaultsCommand::Profiles => return profiles(output),
        FaultsCommand::Shapes => return shapes(output),
        _ => {}
    }
    if let FaultsCommand::Set { bad, .. } = &command {
        given(bad)?;
    }
    let cloud = Remote::of(access).await?;
    if cloud.is_a_cluster().await? {
        bail!(
            "a cloud before a cluster has no faults: they are for a cloud with an API of its own, `cloudsim up` without --kube-context"
        );
    }
    let set = async |whom: &FaultTarget, conditions: Conditions| {
        if let FaultTarget::Node(node) = whom {
            known(&cloud, node).await?;
        }
        cloud
            .ask::<Value>(Method::PUT, &format!("faults/{whom}"), &conditions)
            .await
    };
    let wrong = match command {
        FaultsCommand::List => cloud.ask(Method::GET, "faults", &()).await?,
        FaultsCommand::Set { whom, bad } => set(&whom, given(&bad)?).await?,
        FaultsCommand::Cut { whom } => set(&whom, Conditions::link(Link::Cut)).await?,
        FaultsCommand::HalfOpen { whom } => set(&whom, Conditions::link(Link::HalfOpen)).await?,
        FaultsCommand::Restore { whom } => {
            if let Some(FaultTarget::Node(node)) = &whom {
                restorable(&cloud, node).await?;
            }
            let path = whom.map_or_else(|| "faults".to_owned(), |whom| format!("faults/{whom}"));
            cloud.ask(Method::DELETE, &path, &()).await?
        }
        FaultsCommand::Certificate { certificate } => {
            cloud
                .ask(
                    Method::PUT,
                    "certificate",
                    &json!({"certificate": certificate}),
                )
                .await?
        }
        FaultsCommand::Answers { answers } => {
            cloud
                .ask(Method::PUT, "answers", &json!({"answers": answers}))
                .await?
        }
        FaultsCommand::Send { node, shapes } => return send(&cloud, output, &node, &shapes).await,
        FaultsCommand::Profiles | FaultsCommand::Shapes => return Ok(()),
    };
    print(output.unwrap_or(Output::Yaml), &wrong)
}

/// Returns the conditions that were given; none at all would remove those that the link has.
fn given(bad: &Bad) -> anyhow::Result<Conditions> {
    let conditions = bad.conditions();
    if conditions.is_perfect() {
        bail!(
            "name a condition, as --delay 300ms or --drop 0.05; `cloudsim faults restore` removes them all"
        );
    }
    Ok(conditions)
}

/// Fails for a node that is unknown and has no conditions either, as one that was deleted may have.
async fn restorable(cloud: &Remote, node: &str) -> anyhow::Result<()> {
    let active: Value = cloud.ask(Method::GET, "faults", &()).await?;
    if active["nodes"].get(node).is_some() {
        Ok(())
    } else {
        known(cloud, node).await
    }
}

/// Fails for an unknown node: a mistyped name would be a fault that never takes effect.
async fn known(cloud: &Remote, node: &str) -> anyhow::Result<()> {
    let registered = Api::<Node>::all(cloud.client.clone()).get_opt(node).await;
    let registered = registered.context("cannot list nodes")?;
    if registered.is_some()
        || sessions(cloud)
            .await?
            .sessions
            .iter()
            .any(|session| session.node == node)
    {
        return Ok(());
    }
    bail!("this cloud has no node {node}; `cloudsim nodes` lists those that it has")
}

async fn send(
    cloud: &Remote,
    output: Option<Output>,
    node: &str,
    shapes: &[Shape],
) -> anyhow::Result<()> {
    known(cloud, node).await?;
    if !sessions(cloud)
        .await?
        .sessions
        .iter()
        .any(|session| session.node == node)
    {
        bail!("node {node} is not connected; `cloudsim nodes` shows who is");
    }
    let mut outcomes = Vec::new();
    for shape in if shapes.is_empty() {
        Shape::ALL
    } else {
        shapes
    } {
        let path = format!("hostile/{node}");
        let sent = cloud
            .ask::<Value>(Method::POST, &path, &json!({"shape": shape}))
            .await;
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
        return print(
            output,
            &json!({"profiles": Profile::ALL.iter().map(profile).collect::<Vec<_>>()}),
        );
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
        return print(
            output,
            &json!({"shapes": Shape::ALL.iter().map(shape).collect::<Vec<_>>()}),
        );
    }
    let mut table = Table::new(&["SHAPE", "WHAT"]);
    for shape in Shape::ALL {
        table.row(vec![shape.name().to_owned(), shape.about().to_owned()]);
    }
    print_line(table.to_string().trim_end());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestCloud;

    #[tokio::test]
    async fn a_link_gets_conditions_that_are_given_and_loses_those_of_a_node_that_is_known() {
        let cloud = TestCloud::builder().nodes(1).start().await.unwrap();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("kubeconfig");
        std::fs::write(&file, cloud.kubeconfig()).unwrap();
        let access = Access {
            kubeconfig: Some(file),
            context: None,
        };
        let order = async |command| run(&access, None, command).await;
        let whom = |name: &str| FaultTarget::Node(name.to_owned());
        let set = |bad| FaultsCommand::Set {
            whom: whom("edge-1"),
            bad,
        };
        let slow = Bad {
            delay: Some("10ms".parse().unwrap()),
            ..Bad::default()
        };
        order(set(slow)).await.unwrap();
        let refused = order(set(Bad::default())).await.unwrap_err().to_string();
        assert!(
            refused.contains("name a condition") && refused.contains("faults restore"),
            "{refused}"
        );
        let remote = Remote::of(&access).await.unwrap();
        let active = async || {
            remote
                .ask::<Value>(Method::GET, "faults", &())
                .await
                .unwrap()["nodes"]
                .clone()
        };
        assert_eq!(active().await, json!({"edge-1": {"delay": "10ms"}}));
        let restore = |name: &str| FaultsCommand::Restore {
            whom: Some(whom(name)),
        };
        for command in [
            restore("nosuch"),
            FaultsCommand::Cut {
                whom: whom("nosuch"),
            },
        ] {
            let refused = order(command).await.unwrap_err().to_string();
            assert!(refused.contains("no node nosuch"), "{refused}");
        }
        // the conditions of a node that is no more are removed like others
        let gone = json!({"delay": "10ms"});
        remote
            .ask::<Value>(Method::PUT, "faults/gone", &gone)
            .await
            .unwrap();
        order(restore("gone")).await.unwrap();
        order(restore("edge-1")).await.unwrap();
        assert_eq!(active().await, json!({}));
    }
}
