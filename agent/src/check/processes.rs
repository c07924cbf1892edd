//! Check `processes`: programs with the same task.

use std::{os::unix::ffi::OsStrExt, path::Path};

use super::{inputs::Inputs, report::CheckResult};
use crate::environment;

/// Checks that no programs with the same task run.
pub(crate) fn check(inputs: &Inputs<'_>) -> CheckResult {
    // a second agent on one machine has its own folder
    let mut names = if inputs.paths.is_system_wide() {
        vec!["edge-agent", "edgecore"]
    } else {
        Vec::new()
    };
    let is_kubelet_allowed = environment::is_check_disabled(|name| std::env::var(name).ok())
        || inputs.is_node() && inputs.config.meta_manager.meta_server.is_some();
    if !is_kubelet_allowed {
        names.push(environment::KUBELET);
    }
    let own = inputs.agent().and_then(|holder| holder.process);
    let proc = Path::new("/proc");
    let mut found = environment::processes(proc, &names);
    if inputs.is_node() {
        found.retain(|(name, process)| {
            Some(*process) != own && (name != "edge-agent" || is_agent(proc, *process, inputs.path))
        });
    }
    if found.is_empty() {
        return nothing_found(&names);
    }
    let list: Vec<String> = found
        .iter()
        .map(|(name, pid)| format!("{name} (process {pid})"))
        .collect();
    let what = format!("{} is running", list.join(", "));
    if inputs.is_node() && found.iter().all(|(name, _)| name == "edge-agent") {
        let cure = "stop it, unless it has its own --root, ports, database and container runtime";
        return CheckResult::warning(format!("another {what}"), cure);
    }
    let cure = match found.first().map(|(name, _)| name.as_str()) {
        Some("kubelet") => {
            "a machine can be a node of one cluster: `kubeadm reset` removes the kubelet; CHECK_EDGECORE_ENVIRONMENT=false allows both"
        }
        Some("edgecore") => {
            "`keadm reset edge` removes EdgeCore; to take over from it, stop it and run edge-agent without joining"
        }
        _ => {
            "`edge-agent reset` removes it; for a second agent, use --root, --name, --read-only-port, --mqtt-port, and \
             --runtime-endpoint with another runtime"
        }
    };
    CheckResult::bad(what, cure)
}

/// Returns the result if none of these programs was found: only programs that were looked for are absent.
fn nothing_found(names: &[&str]) -> CheckResult {
    let has_agents = names.contains(&"edge-agent");
    match (has_agents, names.contains(&environment::KUBELET)) {
        (true, true) => CheckResult::Passed("no kubelet and no other edge node is running".into()),
        (false, true) => CheckResult::Passed(
            "no kubelet is running; other edge nodes are not checked with --root or --config"
                .into(),
        ),
        (true, false) => CheckResult::Passed(
            "no other edge node is running; kubelets are allowed and not checked".into(),
        ),
        (false, false) => CheckResult::Remark(
            "not checked: --root or --config allows other edge nodes, and kubelets are allowed"
                .into(),
        ),
    }
}

/// Reports whether this edge-agent runs another node than that of this configuration. Commands have another first argument than an
/// option. Without root, the holder of the database is unknown, and the configuration tells which agent is this node's.
fn is_agent(proc: &Path, process: u32, config: &Path) -> bool {
    /// The most bytes of a command line that are read.
    const MAX_BYTES: u64 = 64 * 1024;
    let file = proc.join(process.to_string()).join("cmdline");
    let Ok(line) = limits::read_regular_file(&file, MAX_BYTES) else {
        return true;
    };
    let mut arguments = line.split(|byte| *byte == 0).skip(1);
    let is_config = |argument: &[u8]| {
        let path = argument.strip_prefix(b"--config=").unwrap_or(argument);
        path == config.as_os_str().as_bytes()
    };
    if arguments.clone().any(is_config) {
        return false;
    }
    arguments
        .next()
        .is_none_or(|first| first.is_empty() || first.starts_with(b"-") || first == b"join")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_programs_that_were_checked_are_reported_as_absent() {
        for (names, part, other) in [
            (
                &["edge-agent", "edgecore", "kubelet"][..],
                "no other edge node",
                "not checked",
            ),
            (
                &["kubelet"],
                "edge nodes are not checked",
                "no other edge node",
            ),
            (
                &["edge-agent", "edgecore"],
                "kubelets are allowed and not checked",
                "no kubelet",
            ),
            (&[], "not checked", "is running"),
        ] {
            let result = nothing_found(names);
            let (what, _) = result.texts();
            assert!(
                what.contains(part) && !what.contains(other),
                "{names:?}: {what}"
            );
        }
    }
}
