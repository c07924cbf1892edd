//! The join token: whether the cloud accepts it for the node's name.

use tokio::time::timeout;

use super::{cloud_answer::SERVER_TIMEOUT, report::CheckResult};
use crate::{
    app,
    cli::Join,
    config::Config,
    edgehub::{self, EnrollError, NodeStatus},
};

/// Checks the cloud's HTTPS server, the token and the name. Also returns the cloud's CA, if the server has proved it.
pub(crate) async fn check(config: &Config, join: &Join) -> (CheckResult, Option<Vec<u8>>) {
    if config.edge_hub.token.is_none() {
        let cure = "use the one that `cloudsim token` or `keadm gettoken` prints";
        return (CheckResult::bad("no token", cure), None);
    }
    let config = match app::hub_config(config) {
        Ok(config) => config,
        Err(error) => {
            let cure = "correct HTTPS_PROXY in the environment";
            return (CheckResult::bad(error.to_string(), cure), None);
        }
    };
    let (known, ca) = match edgehub::probe(&config).await {
        Ok(found) => found,
        Err(error) => return (CheckResult::bad(error.what(), error.join_remedy()), None),
    };
    let name = &config.node_name;
    let conflict = name_conflict(name, known, join.rejoin);
    let found = conflict.unwrap_or_else(|| name_is_free(name, known));
    (found, Some(ca))
}

/// What is known of a node that has not started yet.
pub(crate) const NO_CERTIFICATE: &str =
    "no certificate yet: the agent requests one with the join token when it starts";

/// Checks whether the cloud accepts the join token of a node that has no certificate yet: it may have expired, or be of another cloud.
pub(crate) async fn check_of_node(config: &Config) -> CheckResult {
    let unknown = |why: &str| {
        CheckResult::Remark(format!(
            "{NO_CERTIFICATE}; the token was not checked: {why}"
        ))
    };
    let hub = match app::hub_config(config) {
        Ok(hub) => hub,
        Err(error) => return unknown(&error.to_string()),
    };
    match timeout(SERVER_TIMEOUT, edgehub::probe(&hub)).await {
        Err(_) => unknown("the cloud does not answer"),
        Ok(Err(error @ EnrollError::Unreachable { .. })) => unknown(&error.what()),
        Ok(Err(error)) => CheckResult::bad(
            format!(
                "no certificate, and the join token is not accepted: {}",
                error.what()
            ),
            format!("{} (modules.edgeHub.token)", error.join_remedy()),
        ),
        Ok(Ok((NodeStatus::Taken | NodeStatus::Connected, _))) => CheckResult::bad(
            format!(
                "no certificate, and the cloud already has a node {}",
                hub.node_name
            ),
            "set another name in modules.edged.hostnameOverride; or, if this machine was that node, ask an administrator to run \
             `cloudsim node reset NAME`",
        ),
        Ok(Ok(_)) => CheckResult::Remark(format!("{NO_CERTIFICATE}; the cloud accepts the token")),
    }
}

/// Returns the failure for a name that is in use, unless taking it over was requested and the cloud gives it.
pub(crate) fn name_conflict(name: &str, known: NodeStatus, rejoin: bool) -> Option<CheckResult> {
    let exists = format!("the cloud already has a node {name}");
    let (what, cure) = match known {
        NodeStatus::Unknown => return None,
        NodeStatus::Exists | NodeStatus::Free if rejoin => return None,
        NodeStatus::Exists | NodeStatus::Free => (
            exists,
            "choose another name with --name; or, if this machine was that node, run the same command with --rejoin".to_owned(),
        ),
        NodeStatus::Taken => (
            format!("{exists}, and does not release its name"),
            format!(
                "choose another name with --name; or, if this machine was that node: ask an administrator to run `cloudsim node reset \
                 {name}`, then run the same command with --rejoin; after `kubectl delete node {name}`, neither is needed"
            ),
        ),
        NodeStatus::Connected => (
            format!("{exists}, and its agent is connected now"),
            format!(
                "choose another name with --name; or remove that agent first (edge-agent reset, on its machine), ask an administrator \
                 to run `cloudsim node reset {name}`, and use --rejoin"
            ),
        ),
    };
    Some(CheckResult::bad(what, cure))
}

/// Returns the success, which says what becomes of the name.
pub(crate) fn name_is_free(name: &str, known: NodeStatus) -> CheckResult {
    CheckResult::Passed(match known {
        NodeStatus::Unknown => "token matches; the name is free".to_owned(),
        _ => format!("token matches; this machine takes over the name of node {name}"),
    })
}
