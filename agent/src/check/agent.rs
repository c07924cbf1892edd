//! Check `agent`: the agent runs, is the installed program, and may open enough files.

use std::{fs, path::Path};

use limits::read_regular_text;

use super::{
    inputs::Inputs,
    report::{CheckResult, Finding},
};
use crate::{app, cli::shell_word, service::FailedService, status::ClientError, systemd};

/// The least limit of open files with which all connections of a node work.
const LEAST_OPEN_FILES: u64 = 4096;
/// The most bytes of `/proc/PID/limits`.
const MAX_BYTES: u64 = 64 * 1024;
/// What Linux adds to the path of a program whose file was removed or replaced.
const DELETED: &str = " (deleted)";

pub(crate) async fn check(inputs: &Inputs<'_>) -> Finding {
    let Some(holder) = inputs.agent() else {
        return not_running(inputs).await.into();
    };
    let Some(process) = holder.process else {
        return CheckResult::Passed("runs".into()).into();
    };
    let folder = Path::new("/proc").join(process.to_string());
    let version = match inputs.agent_answer().await {
        Ok(status) => status.version.clone(),
        Err(ClientError::Failed(_, why)) => {
            return CheckResult::bad(
                format!("the agent does not answer: process {process} runs, but {why}"),
                "restart it: systemctl restart edge-agent; containers continue to run",
            )
            .into();
        }
        Err(_) => "unknown".to_owned(),
    };
    let mut parts = vec![CheckResult::Passed(format!("runs as process {process}"))];
    parts.extend(replaced_program(&folder, &version));
    parts.extend(open_files(&folder));
    Finding::combine(parts, CheckResult::NotApplicable(String::new()))
}

async fn not_running(inputs: &Inputs<'_>) -> CheckResult {
    let database = app::database(inputs.config);
    let what = format!(
        "the agent is not running: no process uses {}",
        database.display()
    );
    let is_root = nix::unistd::geteuid().is_root();
    let as_root = match is_root {
        true => "",
        false => "; if it runs, run this command as root",
    };
    if inputs.paths.is_system_wide() && systemd::is_running() {
        let unit = systemd::UNIT_NAME;
        // other users cannot see whether the agent runs
        if is_root && let Some(failed) = FailedService::find(unit).await {
            let (what, cure) = failed.texts("the agent", unit);
            return CheckResult::bad(what, cure);
        }
        return CheckResult::bad(what, format!("start it: systemctl start {unit}{as_root}"));
    }
    let cure = format!(
        "start it: edge-agent --config {}{as_root}",
        shell_word(inputs.path)
    );
    CheckResult::bad(what, cure)
}

/// Returns a warning if the program's file was replaced since the process in this folder of `/proc` started.
fn replaced_program(folder: &Path, version: &str) -> Option<CheckResult> {
    let program = fs::read_link(folder.join("exe")).ok()?;
    let path = program.to_str()?.strip_suffix(DELETED)?;
    let here = env!("CARGO_PKG_VERSION");
    Some(CheckResult::warning(
        format!(
            "upgrade pending: {path} was replaced after the agent started (running: {version}, this command: {here})"
        ),
        "restart the agent (systemctl restart edge-agent); containers continue to run",
    ))
}

/// Returns a warning if the process may open few files, or has nearly reached its limit.
fn open_files(folder: &Path) -> Option<CheckResult> {
    let limits = read_regular_text(&folder.join("limits"), MAX_BYTES).ok()?;
    let row = limits
        .lines()
        .find(|line| line.starts_with("Max open files"))?;
    // an unlimited number is no number
    let limit: u64 = row.split_whitespace().nth(3)?.parse().ok()?;
    let open = fs::read_dir(folder.join("fd")).map_or(0, |files| files.count() as u64);
    let is_near = open.saturating_mul(10) >= limit.saturating_mul(9);
    (is_near || limit < LEAST_OPEN_FILES).then(|| {
        CheckResult::warning(
            format!("the agent has {open} open files and may open {limit}; more connections fail"),
            "raise the limit: `systemctl edit edge-agent`, add LimitNOFILE=65536 below [Service], and restart the agent",
        )
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn replaced_program_and_low_limit_of_open_files_are_warnings() {
        for (program, limit, open, expected) in [
            ("/usr/bin/edge-agent", "65536", 3, None),
            ("/usr/bin/edge-agent", "unlimited", 3, None),
            (
                "/usr/bin/edge-agent (deleted)",
                "65536",
                3,
                Some("upgrade pending: /usr/bin/edge-agent was replaced"),
            ),
            ("/usr/bin/edge-agent", "1024", 3, Some("may open 1024")),
            ("/usr/bin/edge-agent", "20", 18, Some("18 open files")),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let folder = directory.path();
            symlink(program, folder.join("exe")).unwrap();
            let rows = format!(
                "Limit                     Soft Limit           Hard Limit           Units\n\
                 Max open files            {limit}                524288               files\n"
            );
            fs::write(folder.join("limits"), rows).unwrap();
            fs::create_dir(folder.join("fd")).unwrap();
            for number in 0..open {
                fs::write(folder.join("fd").join(number.to_string()), "").unwrap();
            }
            let found = replaced_program(folder, "1.0.0").or_else(|| open_files(folder));
            let said = found.as_ref().map(|found| found.texts().0);
            assert_eq!(said.is_some(), expected.is_some(), "{said:?}");
            assert!(
                said.is_none_or(|said| said.contains(expected.unwrap())),
                "{said:?}"
            );
        }
    }
}
