//! Reports to the cloud that this machine no longer runs its node; otherwise the Node would be Ready until its Lease expires.

use std::{io::Write, time::Duration};

use componentbase::{Heartbeat, Link, Part};
use futures::TryStreamExt;
use jiff::Timestamp;
use objectstore::{Inspection, Resource};
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use wire::{Operation, Upstream, session::RESET_MESSAGE};

use crate::{
    app,
    config::Config,
    edgehub::{self},
    terminal::Terminal,
};

/// How long the cloud may take to accept a session, and to answer.
const CLOUD_TIMEOUT: Duration = Duration::from_secs(5);

/// Reports the node as not ready, if it has ever joined. The reset continues if the cloud is not reached.
pub(super) async fn run(
    config: &Config,
    out: &mut impl Write,
    terminal: Terminal,
) -> anyhow::Result<()> {
    let Some(node) = stored_node(config).await else {
        return Ok(());
    };
    let reported = report(config, not_ready(node, clock::now()));
    match terminal
        .wait(
            out,
            || "Reporting the node as NotReady".to_owned(),
            reported,
        )
        .await
    {
        Ok(()) => writeln!(
            out,
            "The cloud shows node {} as NotReady.",
            config.node.name
        )?,
        Err(why) => writeln!(
            out,
            "Cannot reach the cloud ({why}): node {} stays Ready there until its Lease expires.",
            config.node.name
        )?,
    }
    Ok(())
}

/// Returns the status of this node with the condition Ready False.
fn not_ready(mut node: Value, now: Timestamp) -> Value {
    let condition = json!({
        "type": "Ready", "status": "False", "reason": "KubeletNotReady",
        "message": RESET_MESSAGE,
        "lastHeartbeatTime": now.to_string(), "lastTransitionTime": now.to_string(),
    });
    let mut status = node["status"].take();
    match status["conditions"].as_array_mut() {
        Some(all) => {
            all.retain(|one| one["type"] != "Ready");
            all.push(condition);
        }
        None => status = json!({"conditions": [condition]}),
    }
    status
}

/// Returns this node as the database has it; `None` if there is none, or it cannot be read.
async fn stored_node(config: &Config) -> Option<Value> {
    let path = app::database(config);
    if !path.exists() || !config.edge_hub.tls.cert.exists() {
        return None;
    }
    let mut database = Inspection::open(&path, app::seal(config).ok()?)
        .await
        .ok()?;
    let nodes = Resource::new("", "nodes");
    let mut objects = std::pin::pin!(database.objects());
    while let Ok(Some(object)) = objects.try_next().await {
        if object.key.resource == nodes && object.key.name == config.node.name {
            return object.value().ok();
        }
    }
    None
}

/// Sends the status over a session of its own. The error says why it did not arrive.
async fn report(config: &Config, status: Value) -> Result<(), String> {
    let (hub, _inbound, mut task) =
        edgehub::new(app::hub_config(config).map_err(|error| error.to_string())?);
    let (mut link, stop) = (hub.link(), CancellationToken::new());
    let reported = async {
        timeout(CLOUD_TIMEOUT, link.wait_for(|link| *link != Link::Down))
            .await
            .map_err(|_| format!("not connected within {} s", CLOUD_TIMEOUT.as_secs()))?
            .map_err(|_| "no connection".to_owned())?;
        let patch = Upstream::node_patch(&config.node.name, json!({"status": status}).to_string());
        let answer = hub
            .request(patch.into_message(clock::unix_millis()), CLOUD_TIMEOUT)
            .await;
        match answer {
            Ok(answer) if answer.route.operation == Operation::Error => {
                Err("it refused".to_owned())
            }
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    };
    clock::select! {
        // cancel-safe: the program drops both
        reported = reported => reported,
        ended = Box::pin(Part::run(&mut task, Heartbeat::unmonitored(), stop.clone())) => {
            Err(ended.err().map_or_else(|| "the connection ended".to_owned(), |error| error.to_string()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_condition_ready_changes() {
        let now = "2026-01-02T03:04:05Z".parse().unwrap();
        let node = json!({"status": {"capacity": {"cpu": "1"}, "conditions": [
            {"type": "DiskPressure", "status": "False"}, {"type": "Ready", "status": "True"},
        ]}});
        let status = not_ready(node, now);
        assert_eq!(status["capacity"], json!({"cpu": "1"}));
        let conditions = status["conditions"].as_array().unwrap();
        assert_eq!(
            (conditions.len(), &conditions[1]["status"]),
            (2, &json!("False")),
            "{status}"
        );
        assert_eq!(not_ready(json!({}), now)["conditions"][0]["type"], "Ready");
    }
}
