//! `cloudsim node reset`: a node's certificates end, and its name is free for another machine.

use std::path::Path;

use http::Method;
use serde::Deserialize;

use super::{remote::Remote, say};
use crate::cli::NodeCommand;

#[derive(Deserialize)]
struct Done {
    reset: bool,
}

pub(super) async fn run(kubeconfig: Option<&Path>, command: NodeCommand) -> anyhow::Result<()> {
    let NodeCommand::Reset { name } = command;
    let cloud = Remote::of(kubeconfig).await?;
    let done: Done = cloud.ask(Method::POST, &format!("reset/{name}"), &()).await?;
    say(&if done.reset {
        format!("{name}: its certificates count no more; a machine may join with a token under this name")
    } else {
        format!("{name}: it had no certificate; a machine may join with a token under this name")
    });
    Ok(())
}
