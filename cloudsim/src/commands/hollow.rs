//! `cloudsim hollow`: nodes on the simulated runtime, for a cloud elsewhere.

use std::{io::ErrorKind, path::Path, time::Duration};

use anyhow::{Context, bail};
use serde_json::json;
use tokio::{io::AsyncReadExt, time::sleep};

use super::{Signals, say};
use crate::{
    cli::{Hollow, JoinArgs},
    fleet::{self, Endpoints, Fleet, HollowNode},
};

/// The pause between two looks for the token: a new cloud makes it, and a mounted Secret comes a while after that.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// A token's limit, bytes.
const LIMIT: u64 = 64 * 1024;

pub(super) async fn run(options: Hollow) -> anyhow::Result<()> {
    let mut signals = Signals::listen()?;
    let temporary = tempfile::tempdir().context("there is no temporary directory for the nodes")?;
    // nodes are configured with paths from the root
    let directory = match &options.data_dir {
        Some(directory) => std::path::absolute(directory)?,
        None => temporary.path().to_owned(),
    };
    let starting = async {
        let token = token(&options.join.token_file).await?;
        let of_fleet = fleet::Options {
            prefix: options.prefix.clone(),
            edged: taints(options.tainted),
            ..fleet::Options::new(usize::from(options.nodes), directory)
        };
        anyhow::Ok(Fleet::start(endpoints(&options.join), &token, &of_fleet).await?)
    };
    let mut fleet = tokio::select! {
        started = starting => started?,
        // cancel-safe: the program ends then
        () = signals.wait() => return Ok(()),
    };
    say(&format!("{} nodes run, and join the cloud at {}", options.nodes, options.join.cloud));
    let ended = tokio::select! {
        // cancel-safe, both: the program ends then
        () = signals.wait() => None,
        ended = futures::future::select_all(
            fleet.nodes_mut().iter_mut().map(|node| Box::pin(ended(node)))
        ) => Some(ended.0),
    };
    fleet.stop().await;
    match ended {
        None => Ok(()),
        Some((name, Ok(()))) => bail!("node {name} has ended"),
        Some((name, Err(error))) => {
            Err(anyhow::Error::new(error).context(format!("node {name} has given up")))
        }
    }
}

/// Keeps what does not ask for edge nodes off them.
fn taints(tainted: bool) -> serde_json::Value {
    if !tainted {
        return serde_json::Value::Null;
    }
    let taint = json!({"key": "node-role.kubernetes.io/edge", "effect": "NoSchedule"});
    json!({"tailoredKubeletConfig": {"registerWithTaints": [taint]}})
}

async fn ended(node: &mut HollowNode) -> (String, Result<(), fleet::Error>) {
    let ended = node.ended().await;
    (node.name.clone(), ended)
}

/// Where nodes find the cloud.
pub(super) fn endpoints(join: &JoinArgs) -> Endpoints {
    let ports = (join.https_port, join.ws_port, join.tunnel_port.0);
    Endpoints { node_ip: join.node_ip, ..Endpoints::at(&join.cloud, ports) }
}

/// The token in a file, which is waited for where the file is not there yet or empty.
pub(super) async fn token(file: &Path) -> anyhow::Result<String> {
    let mut told = false;
    loop {
        match tokio::fs::File::open(file).await {
            Ok(open) => {
                let mut text = String::new();
                open.take(LIMIT)
                    .read_to_string(&mut text)
                    .await
                    .with_context(|| format!("{} holds no token", file.display()))?;
                if !text.trim().is_empty() {
                    return Ok(text.trim().to_owned());
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                return Err(error)
                    .with_context(|| format!("{} cannot be read; check --token-file", file.display()));
            }
        }
        if !told {
            say(&format!("waiting for the join token in {}", file.display()));
            told = true;
        }
        sleep(POLL_INTERVAL).await;
    }
}
