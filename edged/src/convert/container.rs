//! Converts a container of a pod to CRI's container configuration.

use std::path::Path;

use k8s_openapi::api::core::v1::{Container, Pod};
use wire::cri;

use super::{
    container_hash, grace_seconds, kubelet_hash, labels,
    resources::{self, MachineResources},
    security,
};
use crate::{device_manager::ContainerDevices, env::Environment, names};

/// What is created or looked up before a container's configuration is made.
pub(crate) struct ContainerInputs<'a> {
    /// Its environment variables.
    pub(crate) environment: &'a Environment,
    /// Its mounts, with paths on the host.
    pub(crate) mounts: Vec<cri::Mount>,
    /// What it gets to use its devices.
    pub(crate) devices: ContainerDevices,
    /// The image as the runtime knows it.
    pub(crate) image: cri::Image,
    /// How many instances of this container the pod had before.
    pub(crate) attempt: u32,
    /// How many restarts in a row lead to this instance.
    pub(crate) restart_step: u32,
    /// The machine's resources.
    pub(crate) machine_resources: &'a MachineResources,
    /// Id of the container whose process namespace this one joins.
    pub(crate) target_id: Option<String>,
    /// Directory of the node's seccomp profiles.
    pub(crate) profiles: &'a Path,
    /// Id of the machine's current boot.
    pub(crate) boot_id: &'a str,
}

/// Returns the value of [`names::CONTAINER_KIND`].
fn kind(pod: &Pod, container: &Container) -> Option<&'static str> {
    let init = pod.spec.as_ref()?.init_containers.iter().flatten();
    let own = init.into_iter().find(|own| own.name == container.name)?;
    Some(if own.restart_policy.as_deref() == Some("Always") {
        "sidecar"
    } else {
        "init"
    })
}

/// Returns the configuration of `container` in `pod`.
pub(crate) fn container(
    pod: &Pod,
    container: &Container,
    inputs: ContainerInputs<'_>,
) -> cri::ContainerConfig {
    let expanded = |all: &Option<Vec<String>>| {
        all.iter()
            .flatten()
            .map(|text| inputs.environment.expand(text))
            .collect::<Vec<_>>()
    };
    let mut all_labels = labels(pod);
    all_labels.insert(names::CONTAINER_NAME.into(), container.name.clone());
    let policy = container
        .termination_message_policy
        .as_deref()
        .unwrap_or("File");
    let annotations = [
        (names::KUBELET_HASH, kubelet_hash(container)),
        (names::CONTAINER_HASH, container_hash(container)),
        (names::RESTART_COUNT, inputs.attempt.to_string()),
        (names::RESTART_STEP, inputs.restart_step.to_string()),
        (names::BOOT_ID, inputs.boot_id.to_owned()),
        (
            names::TERMINATION_GRACE_PERIOD,
            grace_seconds(pod).to_string(),
        ),
        (
            names::TERMINATION_MESSAGE_PATH,
            termination_message_path(container).to_owned(),
        ),
        (names::TERMINATION_MESSAGE_POLICY, policy.to_owned()),
    ];
    let kind = kind(pod, container).map(|kind| (names::CONTAINER_KIND.to_owned(), kind.to_owned()));
    let ports = container.ports.as_ref().filter(|ports| !ports.is_empty());
    let ports =
        ports.and_then(|ports| Some((names::PORTS.to_owned(), serde_json::to_string(ports).ok()?)));
    let user_image = container.image.clone().unwrap_or_default();
    let security = security::of_container(
        pod,
        container,
        &inputs.image,
        inputs.target_id,
        inputs.profiles,
    );
    cri::ContainerConfig {
        metadata: Some(cri::ContainerMetadata {
            name: container.name.clone(),
            attempt: inputs.attempt,
        }),
        image: Some(cri::ImageSpec {
            image: inputs.image.id.clone(),
            user_specified_image: user_image,
            ..Default::default()
        }),
        command: expanded(&container.command),
        args: expanded(&container.args),
        working_dir: container.working_dir.clone().unwrap_or_default(),
        envs: inputs
            .environment
            .iter()
            .map(|(key, value)| cri::KeyValue {
                key: key.to_owned(),
                value: value.to_owned(),
            })
            .collect(),
        // in the order of the kubelet: volumes cover the mounts of devices
        mounts: inputs
            .devices
            .mounts
            .into_iter()
            .chain(inputs.mounts)
            .collect(),
        devices: inputs.devices.devices,
        cdi_devices: inputs.devices.cdi_devices,
        labels: all_labels,
        annotations: inputs
            .devices
            .annotations
            .into_iter()
            .chain(annotations.map(|(key, value)| (key.to_owned(), value)))
            .chain(kind)
            .chain(ports)
            .collect(),
        log_path: log_path(&container.name, inputs.attempt),
        stdin: container.stdin.unwrap_or(false),
        stdin_once: container.stdin_once.unwrap_or(false),
        tty: container.tty.unwrap_or(false),
        linux: Some(cri::LinuxContainerConfig {
            resources: Some(resources::of_container(
                pod,
                container,
                inputs.machine_resources,
            )),
            security_context: Some(security),
        }),
    }
}

/// Returns the path at which a container writes its termination message.
pub(crate) fn termination_message_path(container: &Container) -> &str {
    container
        .termination_message_path
        .as_deref()
        .filter(|path| !path.is_empty())
        .unwrap_or("/dev/termination-log")
}

/// Returns the path of a container's log, relative to the pod's log directory.
pub(crate) fn log_path(name: &str, attempt: u32) -> String {
    format!("{name}/{attempt}.log")
}
