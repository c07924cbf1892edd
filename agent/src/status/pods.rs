//! The pods of a node, and why they wait. Pure.

use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, Pod, PodSpec};

use super::report::PodState;

/// Phases of pods that have ended.
const ENDED: [&str; 2] = ["Succeeded", "Failed"];
/// Reasons for which a container waits shortly in every start.
const STARTING: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// Returns the state of a pod.
pub(super) fn state(pod: &Pod) -> PodState {
    let status = pod.status.clone().unwrap_or_default();
    let containers = status.container_statuses.unwrap_or_default();
    let inits = status.init_container_statuses.unwrap_or_default();
    let phase = status.phase.unwrap_or_else(|| "Pending".to_owned());
    let spec = pod.spec.as_ref();
    let waiting = inits.iter().chain(&containers).find_map(waiting_reason);
    let condition = status.conditions.into_iter().flatten().find(|one| {
        one.status == "False" && one.type_ == "PodScheduled"
            || one.type_ == "HeldUpgrade" && one.status == "True"
    });
    let reason = status.reason.filter(|reason| !reason.is_empty());
    let is_deleted = pod.metadata.deletion_timestamp.is_some();
    let (state, message) = match (is_deleted, waiting, reason) {
        (true, waiting, _) => ("Terminating".to_owned(), waiting.map(|(_, why)| why)),
        (_, Some((reason, why)), _) => (reason, Some(why)),
        (_, None, Some(reason)) => (reason, status.message),
        (_, None, None) => match condition {
            Some(found) => (
                phase.clone(),
                Some(format!(
                    "{} {}",
                    found.reason.unwrap_or_default(),
                    found.message.unwrap_or_default()
                )),
            ),
            None => (phase.clone(), status.message),
        },
    };
    let ready = containers.iter().filter(|one| one.ready).count();
    let all = spec.map_or(containers.len(), |spec| spec.containers.len());
    let has_ended = ENDED.contains(&phase.as_str());
    let has_address = phase == "Running" && spec.is_none_or(|spec| spec.host_network != Some(true));
    let address = status.pod_ip.filter(|_| has_address);
    PodState {
        ip: address.unwrap_or_default(),
        port: spec.and_then(first_port),
        namespace: pod.metadata.namespace.clone().unwrap_or_default(),
        name: pod.metadata.name.clone().unwrap_or_default(),
        waiting: !has_ended && (phase == "Pending" || state != phase && !is_deleted),
        state,
        ready,
        containers: all,
        restarts: containers.iter().map(|one| one.restart_count).sum(),
        message: message.unwrap_or_default().trim().to_owned(),
    }
}

/// Returns the first TCP port that a pod declares.
fn first_port(spec: &PodSpec) -> Option<u16> {
    let ports = spec
        .containers
        .iter()
        .flat_map(|one| one.ports.iter().flatten());
    let is_tcp = |protocol: &Option<String>| protocol.as_deref().is_none_or(|name| name == "TCP");
    let mut tcp = ports.filter(|port| is_tcp(&port.protocol));
    u16::try_from(tcp.next()?.container_port).ok()
}

/// Returns why a container waits. A container that only starts is not the reason if another one says more.
fn waiting_reason(container: &ContainerStatus) -> Option<(String, String)> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.clone().filter(|reason| !reason.is_empty())?;
    if STARTING.contains(&reason.as_str())
        && container.last_state.is_none()
        && waiting.message.is_none()
    {
        return None;
    }
    let message = waiting.message.clone().unwrap_or_default();
    let last = container.last_state.as_ref();
    let last = last.and_then(|last| last.terminated.as_ref());
    let last = last.map_or_else(String::new, last_run);
    Some((reason, format!("{}: {message}{last}", container.name)))
}

/// Describes how a container's last run ended.
fn last_run(ended: &ContainerStateTerminated) -> String {
    /// The most characters of a program's termination message.
    const MAX_MESSAGE: usize = 300;
    let reason = ended.reason.as_deref().filter(|reason| *reason != "Error");
    let reason = reason.map_or_else(String::new, |reason| format!("{reason}, "));
    let message: String = ended
        .message
        .iter()
        .flat_map(|text| text.trim().chars())
        .take(MAX_MESSAGE)
        .collect();
    let message = if message.is_empty() {
        message
    } else {
        format!(": {message}")
    };
    format!("; last run: {reason}exit code {}{message}", ended.exit_code)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn address_and_port_of_a_running_pod_are_its_own() {
        for (host_network, phase, expected) in [
            (false, "Running", "10.1.0.5"),
            (true, "Running", ""),
            (false, "Succeeded", ""),
        ] {
            let pod = json!({
                "metadata": {"name": "web"},
                "spec": {"hostNetwork": host_network, "containers": [
                    {"name": "dns", "ports": [{"containerPort": 53, "protocol": "UDP"}]},
                    {"name": "web", "ports": [{"containerPort": 8080}]},
                ]},
                "status": {"phase": phase, "podIP": "10.1.0.5"},
            });
            let found = state(&serde_json::from_value(pod).unwrap());
            assert_eq!((found.ip.as_str(), found.port), (expected, Some(8080)));
        }
    }

    #[test]
    fn reason_of_a_waiting_container_is_the_state_of_the_pod() {
        let waiting = |reason: &str, message: &str| {
            json!({"phase": "Pending", "containerStatuses": [
                {"name": "web", "ready": false, "restartCount": 3, "image": "x", "imageID": "",
                 "state": {"waiting": {"reason": reason, "message": message}}}]})
        };
        let running = json!({"phase": "Running", "containerStatuses": [
            {"name": "web", "ready": true, "restartCount": 0, "image": "x", "imageID": "", "state": {"running": {}}}]});
        for (status, state_is, is_waiting, message) in [
            (running, "Running", false, ""),
            (
                waiting("ImagePullBackOff", "no such image"),
                "ImagePullBackOff",
                true,
                "web: no such image",
            ),
            (
                waiting("CrashLoopBackOff", "back-off 10s"),
                "CrashLoopBackOff",
                true,
                "web: back-off 10s",
            ),
            (
                json!({"phase": "Running", "containerStatuses": [
                    {"name": "web", "ready": false, "restartCount": 1, "image": "x", "imageID": "",
                     "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
                     "lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}]}),
                "CrashLoopBackOff",
                true,
                "web: back-off 10s; last run: OOMKilled, exit code 137",
            ),
            (
                json!({"phase": "Running", "containerStatuses": [
                    {"name": "web", "ready": false, "restartCount": 1, "image": "x", "imageID": "",
                     "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
                     "lastState": {"terminated": {"reason": "Error", "exitCode": 1, "message": "no database\n"}}}]}),
                "CrashLoopBackOff",
                true,
                "web: back-off 10s; last run: exit code 1: no database",
            ),
            (json!({"phase": "Pending"}), "Pending", true, ""),
            (json!({"phase": "Succeeded"}), "Succeeded", false, ""),
            (
                json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}),
                "Evicted",
                false,
                "low on memory",
            ),
        ] {
            let pod = json!({
                "metadata": {"namespace": "default", "name": "web"},
                "spec": {"containers": [{"name": "web"}]},
                "status": status,
            });
            let found = state(&serde_json::from_value(pod).unwrap());
            let got = (found.state.as_str(), found.waiting, found.message.as_str());
            assert_eq!(got, (state_is, is_waiting, message), "{status}");
            assert_eq!(found.containers, 1);
        }
    }
}
