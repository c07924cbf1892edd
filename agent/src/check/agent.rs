//! Check `agent`: the agent runs.

use super::{inputs::Inputs, report::CheckResult};
use crate::{app, cli::shell_word, systemd};

pub(crate) fn check(inputs: &Inputs<'_>) -> CheckResult {
    if let Some(holder) = inputs.agent() {
        return CheckResult::Passed(match holder.process {
            Some(process) => format!("runs as process {process}"),
            None => "runs".to_owned(),
        });
    }
    let database = app::database(inputs.config);
    let what = format!(
        "the agent is not running: no process uses {}",
        database.display()
    );
    if inputs.paths.is_system_wide() && systemd::is_running() {
        return CheckResult::bad(
            what,
            format!(
                "start it: systemctl start {unit}; if it stops again, journalctl -u {unit} -n 50 shows the error",
                unit = systemd::UNIT_NAME
            ),
        );
    }
    let as_root = match nix::unistd::geteuid().is_root() {
        true => "",
        false => "; if it runs, run this command as root",
    };
    let cure = format!(
        "start it: edge-agent --config {}{as_root}",
        shell_word(inputs.path)
    );
    CheckResult::bad(what, cure)
}
