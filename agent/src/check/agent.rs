//! Check `agent`: the agent runs.

use super::{inputs::Inputs, report::CheckResult};
use crate::{app, systemd};

pub(crate) fn check(inputs: &Inputs<'_>) -> CheckResult {
    if let Some(holder) = inputs.agent() {
        return CheckResult::Passed(match holder.process {
            Some(process) => format!("runs as process {process}"),
            None => "runs".to_owned(),
        });
    }
    let database = app::database(inputs.config);
    let what = format!("no agent uses {}", database.display());
    if inputs.paths.is_system_wide() && systemd::is_running() {
        return CheckResult::bad(
            what,
            format!(
                "start it: systemctl start {unit}; if it stops again, journalctl -u {unit} -n 50 shows the error",
                unit = systemd::UNIT_NAME
            ),
        );
    }
    CheckResult::bad(
        what,
        format!(
            "start it: edge-agent --config {}; as root if this command does not run as root, run the command as root",
            inputs.path.display()
        ),
    )
}
