//! Finds containers of a pod: whether they exist, and the instance whose log is meant, with the kubelet's error texts. Pure.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

/// Reports whether the pod's specification has this container, of any kind.
pub(super) fn has_container(pod: &Pod, name: &str) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let init = spec.init_containers.iter().flatten();
    let ephemeral = spec.ephemeral_containers.iter().flatten();
    init.chain(&spec.containers)
        .any(|container| container.name == name)
        || ephemeral
            .into_iter()
            .any(|container| container.name == name)
}

/// Reports whether the container has a terminal.
pub(super) fn has_tty(pod: &Pod, name: &str) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let init = spec.init_containers.iter().flatten();
    let tty = init
        .chain(&spec.containers)
        .find(|container| container.name == name)
        .map(|one| one.tty);
    let ephemeral = || {
        spec.ephemeral_containers
            .iter()
            .flatten()
            .find(|one| one.name == name)
            .map(|one| one.tty)
    };
    tty.or_else(ephemeral).flatten().unwrap_or_default()
}

fn status<'a>(pod: &'a Pod, name: &str) -> Option<&'a ContainerStatus> {
    let status = pod.status.as_ref()?;
    let all = [
        &status.init_container_statuses,
        &status.container_statuses,
        &status.ephemeral_container_statuses,
    ];
    all.into_iter()
        .flatten()
        .flatten()
        .find(|status| status.name == name)
}

/// Returns the id of the instance whose log is meant, as the status has it (`containerd://…`), or the reason why there is none.
///
/// Source: the kubelet's `validateContainerLogStatus`.
pub(super) fn log_container_id(pod: &Pod, name: &str, previous: bool) -> Result<String, String> {
    let pod_name = pod.metadata.name.as_deref().unwrap_or_default();
    let about = format!("container {name:?} in pod {pod_name:?}");
    let Some(status) = status(pod, name) else {
        return Err(format!("{about} is not available"));
    };
    let known = |id: &Option<String>| id.clone().filter(|id| !id.is_empty());
    let last = status
        .last_state
        .as_ref()
        .and_then(|state| state.terminated.as_ref());
    if previous {
        let gone = || format!("previous terminated {about} not found");
        return last
            .and_then(|last| known(&last.container_id))
            .ok_or_else(gone);
    }
    let state = status.state.as_ref();
    if state.is_some_and(|state| state.running.is_some()) {
        return known(&status.container_id).ok_or_else(|| format!("{about} is not available"));
    }
    let terminated = || format!("{about} is terminated");
    if let Some(ended) = state.and_then(|state| state.terminated.as_ref()) {
        let id = known(&ended.container_id);
        return id
            .or_else(|| known(&last?.container_id))
            .ok_or_else(terminated);
    }
    if let Some(last) = last {
        return known(&last.container_id).ok_or_else(terminated);
    }
    let waits = format!("{about} is waiting to start");
    let reason = state.and_then(|state| state.waiting.as_ref()?.reason.as_deref());
    Err(match reason {
        Some("ErrImagePull") => format!("{waits}: image can't be pulled"),
        Some("ImagePullBackOff") => format!("{waits}: trying and failing to pull image"),
        Some(reason) => format!("{waits}: {reason}"),
        None => format!("{waits} - no logs yet"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(state: &Value, last: &Value) -> Pod {
        let status = json!({"name": "c", "containerID": "containerd://now", "state": state, "lastState": last,
            "ready": true, "restartCount": 0, "image": "", "imageID": ""});
        serde_json::from_value(json!({
            "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "c", "tty": true}, {"name": "quiet"}], "initContainers": [{"name": "i"}],
                "ephemeralContainers": [{"name": "e", "tty": true}]},
            "status": {"containerStatuses": [status]},
        }))
        .unwrap()
    }

    #[test]
    fn log_instance_and_error_texts_are_the_kubelets() {
        let terminated = |id: &str| json!({"terminated": {"exitCode": 1, "containerID": id}});
        let waiting = |reason: &str| json!({"waiting": {"reason": reason}});
        let running = json!({"running": {}});
        let table = [
            (running.clone(), json!({}), false, Ok("containerd://now")),
            (
                terminated("containerd://ended"),
                json!({}),
                false,
                Ok("containerd://ended"),
            ),
            (
                terminated(""),
                terminated("containerd://last"),
                false,
                Ok("containerd://last"),
            ),
            (
                terminated(""),
                json!({}),
                false,
                Err("container \"c\" in pod \"p\" is terminated"),
            ),
            (
                waiting("CrashLoopBackOff"),
                terminated("containerd://last"),
                false,
                Ok("containerd://last"),
            ),
            (
                waiting("CrashLoopBackOff"),
                terminated(""),
                false,
                Err("container \"c\" in pod \"p\" is terminated"),
            ),
            (
                waiting("ContainerCreating"),
                json!({}),
                false,
                Err("container \"c\" in pod \"p\" is waiting to start: ContainerCreating"),
            ),
            (
                waiting("ErrImagePull"),
                json!({}),
                false,
                Err("container \"c\" in pod \"p\" is waiting to start: image can't be pulled"),
            ),
            (
                waiting("ImagePullBackOff"),
                json!({}),
                false,
                Err(
                    "container \"c\" in pod \"p\" is waiting to start: trying and failing to pull image",
                ),
            ),
            (
                json!({}),
                json!({}),
                false,
                Err("container \"c\" in pod \"p\" is waiting to start - no logs yet"),
            ),
            (
                running.clone(),
                terminated("containerd://last"),
                true,
                Ok("containerd://last"),
            ),
            (
                running,
                json!({}),
                true,
                Err("previous terminated container \"c\" in pod \"p\" not found"),
            ),
        ];
        for (state, last, previous, expected) in table {
            let found = log_container_id(&pod(&state, &last), "c", previous);
            assert_eq!(
                found,
                expected.map(str::to_owned).map_err(str::to_owned),
                "{state} {last}"
            );
        }
        let other = log_container_id(&pod(&json!({}), &json!({})), "i", false);
        assert_eq!(
            other,
            Err("container \"i\" in pod \"p\" is not available".to_owned())
        );
    }

    #[test]
    fn containers_of_all_kinds_are_found() {
        let pod = pod(&json!({}), &json!({}));
        assert!(
            ["c", "i", "e", "quiet"]
                .iter()
                .all(|name| has_container(&pod, name))
        );
        assert!(!has_container(&pod, "x"));
        assert!(
            has_tty(&pod, "c")
                && has_tty(&pod, "e")
                && !has_tty(&pod, "quiet")
                && !has_tty(&pod, "i")
        );
    }
}
