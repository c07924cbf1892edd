//! Check `clean`: files of an earlier node.

use std::path::{Path, PathBuf};

use super::{inputs::Inputs, report::CheckResult};
use crate::app;

/// Checks that there are no files of an earlier agent.
pub(crate) fn check(inputs: &Inputs<'_>) -> CheckResult {
    let (config, hub) = (inputs.config, &inputs.config.edge_hub);
    let all = [
        inputs.path,
        &hub.tls.cert,
        &hub.tls.key,
        &app::database(config),
    ]
    .map(Path::to_owned);
    let here = |path: &PathBuf| path.exists();
    if !here(&all[0]) && config.database.exists() {
        return CheckResult::bad(
            format!(
                "EdgeCore's database {} exists, and its pods would start",
                config.database.display()
            ),
            "remove EdgeCore with `keadm reset edge`; or run edge-agent with EdgeCore's edgecore.yaml instead of joining, to keep the \
             node",
        );
    }
    let found: Vec<String> = all
        .iter()
        .filter(|path| here(path))
        .map(|path| path.display().to_string())
        .collect();
    if found.is_empty() {
        return CheckResult::Passed("no earlier node on this machine".into());
    }
    let cure = if config.database.exists() {
        "`keadm reset edge` removes EdgeCore's node; to take over from EdgeCore, stop it and run edge-agent without joining"
    } else {
        "`edge-agent reset` removes the earlier node; to keep it, start edge-agent without joining"
    };
    CheckResult::bad(
        format!("this machine is already a node: {}", found.join(", ")),
        cure,
    )
}
