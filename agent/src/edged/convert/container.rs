//! A container of a pod as a container's configuration.

use std::path::Path;

use k8s_openapi::api::core::v1::{Container, Pod};
use wire::cri;

use super::{
    grace_seconds, hash, kubelet_hash, labels,
    resources::{self, Means},
    security,
};
use crate::edged::{env::Environment, names};

/// What has to exist before a container's configuration can be written.
pub(crate) struct Made<'a> {
    /// Its variables.
    pub(crate) environment: &'a Environment,
    /// Its mounts, with paths on the host.
    pub(crate) mounts: Vec<cri::Mount>,
    /// The image as the runtime knows it.
    pub(crate) image: cri::Image,
    /// How many of this container the pod had before.
    pub(crate) attempt: u32,
    /// How many restarts in a row lead to it.
    pub(crate) step: u32,
    /// The machine.
    pub(crate) means: &'a Means,
    /// The container whose processes this one sees.
    pub(crate) target_id: Option<String>,
    /// Where the node's seccomp profiles are.
    pub(crate) profiles: &'a Path,
    /// The machine's boot.
    pub(crate) boot: &'a str,
}

/// What [`names::CONTAINER_KIND`] says of the container.
fn kind(pod: &Pod, container: &Container) -> Option<&'static str> {
    let init = pod.spec.as_ref()?.init_containers.iter().flatten();
    let own = init.into_iter().find(|own| own.name == container.name)?;
    Some(if own.restart_policy.as_deref() == Some("Always") { "sidecar" } else { "init" })
}

/// The configuration of `container` in `pod`.
pub(crate) fn container(pod: &Pod, container: &Container, made: Made<'_>) -> cri::ContainerConfig {
    let expanded = |all: &Option<Vec<String>>| {
        all.iter().flatten().map(|text| made.environment.expand(text)).collect::<Vec<_>>()
    };
    let mut all_labels = labels(pod);
    all_labels.insert(names::CONTAINER_NAME.into(), container.name.clone());
    let policy = container.termination_message_policy.as_deref().unwrap_or("File");
    let annotations = [
        (names::HASH, kubelet_hash(container)),
        (names::MADE_FROM, hash(container)),
        (names::RESTART_COUNT, made.attempt.to_string()),
        (names::RESTART_STEP, made.step.to_string()),
        (names::BOOT, made.boot.to_owned()),
        (names::GRACE, grace_seconds(pod).to_string()),
        (names::TERMINATION_PATH, termination_message_path(container).to_owned()),
        (names::TERMINATION_POLICY, policy.to_owned()),
    ];
    let kind = kind(pod, container).map(|kind| (names::CONTAINER_KIND.to_owned(), kind.to_owned()));
    let ports = container.ports.as_ref().filter(|ports| !ports.is_empty());
    let ports = ports.and_then(|ports| Some((names::PORTS.to_owned(), serde_json::to_string(ports).ok()?)));
    let user_image = container.image.clone().unwrap_or_default();
    let security = security::of_container(pod, container, &made.image, made.target_id, made.profiles);
    cri::ContainerConfig {
        metadata: Some(cri::ContainerMetadata { name: container.name.clone(), attempt: made.attempt }),
        image: Some(cri::ImageSpec {
            image: made.image.id.clone(),
            user_specified_image: user_image,
            ..Default::default()
        }),
        command: expanded(&container.command),
        args: expanded(&container.args),
        working_dir: container.working_dir.clone().unwrap_or_default(),
        envs: made
            .environment
            .iter()
            .map(|(key, value)| cri::KeyValue { key: key.to_owned(), value: value.to_owned() })
            .collect(),
        mounts: made.mounts,
        labels: all_labels,
        annotations: annotations
            .map(|(key, value)| (key.to_owned(), value))
            .into_iter()
            .chain(kind)
            .chain(ports)
            .collect(),
        log_path: log_path(&container.name, made.attempt),
        stdin: container.stdin.unwrap_or(false),
        stdin_once: container.stdin_once.unwrap_or(false),
        tty: container.tty.unwrap_or(false),
        linux: Some(cri::LinuxContainerConfig {
            resources: Some(resources::of_container(pod, container, made.means)),
            security_context: Some(security),
        }),
        ..Default::default()
    }
}

/// Where a container writes its last words.
pub(crate) fn termination_message_path(container: &Container) -> &str {
    container
        .termination_message_path
        .as_deref()
        .filter(|path| !path.is_empty())
        .unwrap_or("/dev/termination-log")
}

/// Where a container logs to, below the pod's log directory.
pub(crate) fn log_path(name: &str, attempt: u32) -> String {
    format!("{name}/{attempt}.log")
}
