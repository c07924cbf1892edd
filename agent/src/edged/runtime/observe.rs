//! From CRI's words to what is [observed](crate::edged::observed). Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use wire::cri;

use crate::edged::{
    moment, names,
    observed::{Container, Health, Sandbox, State, TerminationMessageFiles},
};

/// A sandbox as lists tell of it: without addresses.
pub(super) fn sandbox(item: cri::PodSandbox) -> Sandbox {
    Sandbox {
        ready: item.state() == cri::PodSandboxState::SandboxReady,
        attempt: item.metadata.map_or(0, |metadata| metadata.attempt),
        created_at: moment::from_nanos(item.created_at).unwrap_or(Timestamp::UNIX_EPOCH),
        id: item.id,
        ips: Vec::new(),
    }
}

/// Adds what its status says, which is newer and more.
pub(super) fn update(sandbox: &mut Sandbox, status: cri::PodSandboxStatus) {
    sandbox.ready = status.state() == cri::PodSandboxState::SandboxReady;
    sandbox.created_at = moment::from_nanos(status.created_at).unwrap_or(sandbox.created_at);
    let ips = status.network.into_iter().flat_map(|network| {
        std::iter::once(network.ip).chain(network.additional_ips.into_iter().map(|more| more.ip))
    });
    sandbox.ips = ips.filter(|ip| !ip.is_empty()).collect();
}

/// `None` without a name: not one of ours.
pub(super) fn container(status: cri::ContainerStatus, sandbox_id: String, boot: &str) -> Option<Container> {
    let (state, termination_message) = (state(&status), termination_message(&status));
    let name = status.labels.get(names::CONTAINER_NAME)?.clone();
    let number = |annotation: &str| status.annotations.get(annotation).and_then(|text| text.parse().ok());
    // The machine has ended since: how often the container had failed before is forgotten, as by a kubelet.
    let rebooted = status.annotations.get(names::BOOT).is_some_and(|made_in| made_in != boot);
    // A container of another agent, without a step: as many as it counts in all.
    let step = number(names::RESTART_STEP).or_else(|| number(names::RESTART_COUNT)).unwrap_or(0);
    let image = status.image.unwrap_or_default();
    Some(Container {
        sandbox_id,
        name,
        attempt: status.metadata.as_ref().map_or(0, |metadata| metadata.attempt),
        hash: made_from(&status.annotations).cloned(),
        step: if rebooted { 0 } else { step },
        recursive_read_only: recursive_read_only(&status.mounts),
        image: image_name(image),
        image_id: if status.image_ref.is_empty() { status.image_id } else { status.image_ref },
        created_at: moment::from_nanos(status.created_at).unwrap_or(Timestamp::UNIX_EPOCH),
        id: status.id,
        state,
        termination_message,
        health: Health::default(),
    })
}

/// What a container was made from: in this agent's form where it has that, which an agent before it has put elsewhere.
fn made_from(annotations: &BTreeMap<String, String>) -> Option<&String> {
    annotations.get(names::MADE_FROM).or_else(|| annotations.get(names::HASH))
}

/// The image by the runtime's own name for it, `docker.io/library/busybox:1`; by the pod's where that is only a digest.
fn image_name(image: cri::ImageSpec) -> String {
    let named = !image.image.is_empty() && !image.image.starts_with("sha256:");
    if named || image.user_specified_image.is_empty() { image.image } else { image.user_specified_image }
}

/// Where in the container nothing can be written, in no mount below either.
fn recursive_read_only(mounts: &[cri::Mount]) -> Vec<String> {
    let all = mounts.iter().filter(|mount| mount.recursive_read_only);
    all.map(|mount| mount.container_path.clone()).collect()
}

/// Where the container's last words are: the annotation says which of its mounts is the file, so that those of containers
/// that another agent made are found too.
fn termination_message(status: &cri::ContainerStatus) -> Option<TerminationMessageFiles> {
    let path = status.annotations.get(names::TERMINATION_PATH)?;
    let mount = status.mounts.iter().find(|mount| mount.container_path == *path)?;
    let policy = status.annotations.get(names::TERMINATION_POLICY);
    let from_log =
        policy.is_some_and(|policy| policy == "FallbackToLogsOnError") && !status.log_path.is_empty();
    Some(TerminationMessageFiles {
        file: mount.host_path.clone().into(),
        log: from_log.then(|| status.log_path.clone().into()),
    })
}

fn state(status: &cri::ContainerStatus) -> State {
    let created = moment::from_nanos(status.created_at).unwrap_or(Timestamp::UNIX_EPOCH);
    let started_at = moment::from_nanos(status.started_at);
    match status.state() {
        cri::ContainerState::ContainerCreated => State::Created,
        cri::ContainerState::ContainerRunning => State::Running { started_at: started_at.unwrap_or(created) },
        cri::ContainerState::ContainerExited => State::Exited {
            started_at,
            finished_at: moment::from_nanos(status.finished_at).or(started_at).unwrap_or(created),
            exit_code: status.exit_code,
            reason: status.reason.clone(),
            message: status.message.clone(),
        },
        cri::ContainerState::ContainerUnknown => State::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_often_a_container_failed_is_forgotten_with_the_machines_end() {
        let step = |annotations: &[(&str, &str)]| {
            let own = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            let status = cri::ContainerStatus {
                metadata: Some(cri::ContainerMetadata { name: "web".into(), attempt: 7 }),
                labels: [(names::CONTAINER_NAME.to_owned(), "web".to_owned())].into(),
                annotations: own.collect(),
                ..Default::default()
            };
            let found = container(status, "s".into(), "this-boot").unwrap();
            assert_eq!(found.attempt, 7, "restarts are counted on");
            found.step
        };
        assert_eq!(step(&[(names::RESTART_STEP, "5"), (names::BOOT, "this-boot")]), 5);
        assert_eq!(step(&[(names::RESTART_STEP, "5"), (names::BOOT, "last-boot")]), 0);
        assert_eq!(step(&[(names::RESTART_STEP, "5")]), 5, "nobody knows");
        assert_eq!(step(&[(names::RESTART_COUNT, "4")]), 4, "another agent's");
    }
}
