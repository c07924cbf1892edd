//! The join token: whether the cloud accepts it for the node's name.

use super::report::CheckResult;
use crate::{
    app,
    cli::Join,
    config::Config,
    edgehub::{self, NodeStatus},
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
