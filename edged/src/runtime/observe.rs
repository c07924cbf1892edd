//! Converts CRI messages to [observed](crate::observed) sandboxes and containers. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use wire::cri;

use crate::{
    names,
    observed::{Container, Health, ObservedState, Sandbox, TerminationMessageFiles},
    timestamps,
};

/// Converts a listed sandbox, which has no IP addresses.
pub(super) fn sandbox(item: cri::PodSandbox) -> Sandbox {
    Sandbox {
        ready: item.state() == cri::PodSandboxState::SandboxReady,
        attempt: item.metadata.map_or(0, |metadata| metadata.attempt),
        created_at: timestamps::from_nanos(item.created_at).unwrap_or(Timestamp::UNIX_EPOCH),
        id: item.id,
        ips: Vec::new(),
    }
}

/// Updates a sandbox with its status, which is newer and more complete.
pub(super) fn update_sandbox(sandbox: &mut Sandbox, status: cri::PodSandboxStatus) {
    sandbox.ready = status.state() == cri::PodSandboxState::SandboxReady;
    sandbox.created_at = timestamps::from_nanos(status.created_at).unwrap_or(sandbox.created_at);
    let ips = status.network.into_iter().flat_map(|network| {
        std::iter::once(network.ip).chain(network.additional_ips.into_iter().map(|more| more.ip))
    });
    sandbox.ips = ips.filter(|ip| !ip.is_empty()).collect();
}

/// Converts a container's status; returns `None` if it has no name label and so is not a pod's.
pub(super) fn container(
    status: cri::ContainerStatus,
    sandbox_id: String,
    boot_id: &str,
) -> Option<Container> {
    let (state, termination_message) = (state(&status), termination_message(&status));
    let name = status.labels.get(names::CONTAINER_NAME)?.clone();
    let number = |annotation: &str| {
        status
            .annotations
            .get(annotation)
            .and_then(|text| text.parse().ok())
    };
    // As in the kubelet, restarts in a row are not counted across a reboot.
    let rebooted = status
        .annotations
        .get(names::BOOT_ID)
        .is_some_and(|boot_of_container| boot_of_container != boot_id);
    // A container of another agent has no restart step; its total restart count is used.
    let restart_step = number(names::RESTART_STEP)
        .or_else(|| number(names::RESTART_COUNT))
        .unwrap_or(0);
    let image = status.image.unwrap_or_default();
    Some(Container {
        sandbox_id,
        name,
        attempt: status
            .metadata
            .as_ref()
            .map_or(0, |metadata| metadata.attempt),
        hash: container_hash(&status.annotations).cloned(),
        restart_step: if rebooted { 0 } else { restart_step },
        recursive_read_only: recursive_read_only(&status.mounts),
        image: image_name(image),
        image_id: if status.image_ref.is_empty() {
            status.image_id
        } else {
            status.image_ref
        },
        created_at: timestamps::from_nanos(status.created_at).unwrap_or(Timestamp::UNIX_EPOCH),
        id: status.id,
        state,
        termination_message,
        health: Health::default(),
        replaced: false,
    })
}

/// Returns the hash of what a container was made from: this agent's, which its first versions have stored under the kubelet's
/// annotation.
fn container_hash(annotations: &BTreeMap<String, String>) -> Option<&String> {
    annotations
        .get(names::CONTAINER_HASH)
        .or_else(|| annotations.get(names::KUBELET_HASH))
}

/// Returns the runtime's name of the image, `docker.io/library/busybox:1`, or the pod's name if the runtime only knows a digest.
fn image_name(image: cri::ImageSpec) -> String {
    let named = !image.image.is_empty() && !image.image.starts_with("sha256:");
    if named || image.user_specified_image.is_empty() {
        image.image
    } else {
        image.user_specified_image
    }
}

/// Returns the container's paths of recursive read-only mounts.
fn recursive_read_only(mounts: &[cri::Mount]) -> Vec<String> {
    let all = mounts.iter().filter(|mount| mount.recursive_read_only);
    all.map(|mount| mount.container_path.clone()).collect()
}

/// Returns where the container's termination message is. The annotation names the mount, so that messages of another agent's
/// containers are found too.
fn termination_message(status: &cri::ContainerStatus) -> Option<TerminationMessageFiles> {
    let path = status.annotations.get(names::TERMINATION_MESSAGE_PATH)?;
    let mount = status
        .mounts
        .iter()
        .find(|mount| mount.container_path == *path)?;
    let policy = status.annotations.get(names::TERMINATION_MESSAGE_POLICY);
    let from_log = policy.is_some_and(|policy| policy == "FallbackToLogsOnError")
        && !status.log_path.is_empty();
    Some(TerminationMessageFiles {
        file: mount.host_path.clone().into(),
        log: from_log.then(|| status.log_path.clone().into()),
    })
}

fn state(status: &cri::ContainerStatus) -> ObservedState {
    let created = timestamps::from_nanos(status.created_at).unwrap_or(Timestamp::UNIX_EPOCH);
    let started_at = timestamps::from_nanos(status.started_at);
    match status.state() {
        cri::ContainerState::ContainerCreated => ObservedState::Created,
        cri::ContainerState::ContainerRunning => ObservedState::Running {
            started_at: started_at.unwrap_or(created),
        },
        cri::ContainerState::ContainerExited => ObservedState::Exited {
            started_at,
            finished_at: timestamps::from_nanos(status.finished_at)
                .or(started_at)
                .unwrap_or(created),
            exit_code: status.exit_code,
            reason: status.reason.clone(),
            message: status.message.clone(),
        },
        cri::ContainerState::ContainerUnknown => ObservedState::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restart_step_is_reset_by_a_reboot() {
        let restart_step = |annotations: &[(&str, &str)]| {
            let own = annotations
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            let status = cri::ContainerStatus {
                metadata: Some(cri::ContainerMetadata {
                    name: "web".into(),
                    attempt: 7,
                }),
                labels: [(names::CONTAINER_NAME.to_owned(), "web".to_owned())].into(),
                annotations: own.collect(),
                ..Default::default()
            };
            let found = container(status, "s".into(), "this-boot").unwrap();
            assert_eq!(found.attempt, 7, "restarts are counted on");
            found.restart_step
        };
        assert_eq!(
            restart_step(&[(names::RESTART_STEP, "5"), (names::BOOT_ID, "this-boot")]),
            5
        );
        assert_eq!(
            restart_step(&[(names::RESTART_STEP, "5"), (names::BOOT_ID, "last-boot")]),
            0
        );
        assert_eq!(
            restart_step(&[(names::RESTART_STEP, "5")]),
            5,
            "nobody knows"
        );
        assert_eq!(
            restart_step(&[(names::RESTART_COUNT, "4")]),
            4,
            "another agent's"
        );
    }
}
