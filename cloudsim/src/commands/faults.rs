//! `cloudsim faults`: what is wrong with a running cloud, on purpose.

use std::path::Path;

use http::Method;
use serde_json::{Value, json};

use super::{remote::Remote, say, table::Table};
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

async fn send(cloud: &Remote, node: &str, shapes: &[Shape]) -> anyhow::Result<()> {
    for shape in if shapes.is_empty() { Shape::ALL } else { shapes } {
        let path = format!("hostile/{node}");
        let sent = cloud.ask::<Value>(Method::POST, &path, &json!({"shape": shape})).await;
        match sent {
            Ok(_) => say(&format!("{:<18} sent to {node}", shape.name())),
            // a node ends its session over many of them, and is back in a moment
            Err(error) if shapes.len() != 1 => say(&format!("{:<18} not sent: {error:#}", shape.name())),
            Err(error) => return Err(error),
        }
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
