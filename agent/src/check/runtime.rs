//! Check `runtime`: the container runtime answers, and has no pods of others.

use edged::{RuntimeInfo, RuntimeInfoError};

use super::{inputs::Inputs, machine::Machine, report::CheckResult};
use crate::{app, service::FailedService, systemd};

/// The most pods that are named if there are too many.
const MAX_NAMED: usize = 5;

/// The service of containerd.
const CONTAINERD: &str = "containerd.service";
/// How the error of a runtime begins that accepts connections and does not respond.
const SILENT: &str = "no answer within";

pub(crate) async fn check(inputs: &Inputs<'_>) -> CheckResult {
    let found = judge(inputs);
    let Some((endpoint, Err(RuntimeInfoError::NoAnswer(error)))) = inputs.machine.runtimes.first()
    else {
        return found;
    };
    let is_failure = matches!(found, CheckResult::Failed { .. }) && !error.starts_with(SILENT);
    if !is_failure
        || !endpoint.contains("containerd")
        || !inputs.paths.is_system_wide()
        || !systemd::is_running()
    {
        return found;
    }
    match FailedService::find(CONTAINERD).await {
        Some(failed) => {
            let (what, cure) = failed.texts("containerd", CONTAINERD);
            CheckResult::bad(what, cure)
        }
        None => found,
    }
}

pub(super) fn judge(inputs: &Inputs<'_>) -> CheckResult {
    let machine = inputs.machine;
    if !inputs.is_runtime_named() && !inputs.paths.is_system_wide() {
        return CheckResult::bad(
            "no container runtime was named; with --root or --config, the machine's runtime is not used",
            "name one that no other agent has, as --runtime-endpoint unix:///PATH; one without containers: `cloudsim runtime --socket PATH`",
        );
    }
    let answering: Vec<_> = machine.answering().collect();
    match answering.as_slice() {
        [(endpoint, found)] if is_in_use(inputs, found) => runtime_in_use(endpoint, found),
        [(endpoint, found)] => {
            let mut what = format!("{} {} at {endpoint}", found.name, found.version);
            if machine.is_simulated() {
                what.push_str(", simulated: the memory and disk of this machine evict no pods");
            }
            match &found.network {
                None => CheckResult::Passed(what),
                Some(why) => {
                    let cure = match inputs.join {
                        Some(_) => {
                            "; install a CNI plugin (`edge-agent check` names what is missing)"
                        }
                        // the check cni has the cure
                        None => "",
                    };
                    CheckResult::Remark(format!(
                        "{what}, without a pod network ({why}): only pods with hostNetwork start{cure}"
                    ))
                }
            }
        }
        [] if inputs.is_node() => no_runtime_of_node(machine),
        [] => no_runtime(machine),
        several => {
            let all: Vec<&str> = several.iter().map(|(endpoint, _)| *endpoint).collect();
            CheckResult::bad(
                format!("several container runtimes found: {}", all.join(", ")),
                format!("choose one, for example --runtime-endpoint {}", all[0]),
            )
        }
    }
}

/// Reports whether the runtime of a new node has pods already.
fn is_in_use(inputs: &Inputs<'_>, found: &RuntimeInfo) -> bool {
    !inputs.is_node() && !found.pods.is_empty() && !app::database(inputs.config).exists()
}

/// Returns the failure for the configured runtime.
fn no_runtime_of_node(machine: &Machine) -> CheckResult {
    let setting = "containerRuntimeEndpoint in modules.edged.tailoredKubeletConfig";
    match machine.runtimes.first() {
        Some((endpoint, Err(RuntimeInfoError::NoAnswer(error)))) => CheckResult::bad(
            not_responding(endpoint, error),
            format!("{}, or correct {setting}", start_command(error)),
        ),
        _ => no_runtime(machine),
    }
}

/// Returns the cure of a runtime without an answer.
fn start_command(error: &str) -> &'static str {
    match error.starts_with(SILENT) {
        true => "restart it (systemctl restart containerd)",
        false if error.contains("Permission denied") => "run this command as root",
        false => "start it (systemctl start containerd)",
    }
}

/// Describes a runtime without an answer; the remedy follows in a line of its own.
fn not_responding(endpoint: &str, error: &str) -> String {
    let error = error.replace(app::RUNTIME_CURE, "");
    format!("the runtime at {endpoint} does not respond: {error}")
}

/// Returns the failure for a runtime with pods of another agent: this one would end them.
fn runtime_in_use(endpoint: &str, found: &RuntimeInfo) -> CheckResult {
    let some: Vec<&str> = found
        .pods
        .iter()
        .take(MAX_NAMED)
        .map(String::as_str)
        .collect();
    let more = found.pods.len() - some.len();
    let more = if more == 0 {
        String::new()
    } else {
        format!(" and {more} more")
    };
    CheckResult::bad(
        format!(
            "the runtime at {endpoint} has pods of another agent or a kubelet, which this agent would stop: {}{more}",
            some.join(", ")
        ),
        "name another runtime with --runtime-endpoint; if these pods are not needed, let the agent delete them: \
         --ignore-checks runtime",
    )
}

fn no_runtime(machine: &Machine) -> CheckResult {
    match machine.runtimes.first() {
        None => CheckResult::bad(
            "no container runtime found",
            "install one (Debian: apt-get install containerd) or start it; use --runtime-endpoint for another socket, or for the \
             simulated runtime: `cloudsim runtime --socket PATH`",
        ),
        Some((endpoint, Err(RuntimeInfoError::Unimplemented(said)))) => CheckResult::bad(
            format!("the server at {endpoint} does not support CRI v1 ({said})"),
            "remove \"cri\" from disabled_plugins in /etc/containerd/config.toml (set by Docker's packages), and restart containerd",
        ),
        Some((endpoint, Err(error))) => CheckResult::bad(
            not_responding(endpoint, &error.to_string()),
            format!(
                "{}, or name another one with --runtime-endpoint",
                start_command(&error.to_string())
            ),
        ),
        // an answering runtime does not get here
        Some((endpoint, Ok(_))) => CheckResult::Passed(endpoint.clone()),
    }
}
