//! Converts security contexts to CRI's.

use std::path::Path;

use k8s_openapi::api::core::v1::{
    Container, Pod, PodSecurityContext, PodSpec, SELinuxOptions, SeccompProfile, SecurityContext,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use wire::cri::{self, security_profile::ProfileType};

use crate::specs;

/// Paths that are hidden from containers, the kubelet's default `procMount`.
pub const MASKED_PATHS: [&str; 10] = [
    "/proc/asound",
    "/proc/acpi",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
];
/// Paths that containers see read-only.
pub const READONLY_PATHS: [&str; 5] = [
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/sys",
    "/proc/sysrq-trigger",
];

/// Returns which namespaces the pod shares with the host.
fn namespaces(spec: &PodSpec) -> cri::NamespaceOption {
    use cri::NamespaceMode::{Container, Node, Pod};
    let mode =
        |host: Option<bool>, other: cri::NamespaceMode| if host == Some(true) { Node } else { other } as i32;
    let shared = if spec.share_process_namespace == Some(true) {
        Pod
    } else {
        Container
    };
    cri::NamespaceOption {
        network: mode(spec.host_network, Pod),
        pid: mode(spec.host_pid, shared),
        ipc: mode(spec.host_ipc, Pod),
        ..Default::default()
    }
}

/// Returns the pod's namespaces, with the process namespace of the container `target_id` if there is one.
fn namespaces_with_target(spec: &PodSpec, target_id: Option<String>) -> cri::NamespaceOption {
    let own = namespaces(spec);
    match target_id {
        Some(target_id) => cri::NamespaceOption {
            pid: cri::NamespaceMode::Target as i32,
            target_id,
            ..own
        },
        None => own,
    }
}

/// Returns the sandbox's security context.
pub(super) fn of_sandbox(spec: &PodSpec) -> cri::LinuxSandboxSecurityContext {
    let default = PodSecurityContext::default();
    let pod = spec.security_context.as_ref().unwrap_or(&default);
    let privileged = |container: &Container| {
        container
            .security_context
            .as_ref()
            .and_then(|context| context.privileged)
            == Some(true)
    };
    cri::LinuxSandboxSecurityContext {
        namespace_options: Some(namespaces(spec)),
        selinux_options: pod.se_linux_options.as_ref().map(selinux),
        run_as_user: pod.run_as_user.map(int64_value),
        // CRI rejects a group without a user.
        run_as_group: pod.run_as_user.and(pod.run_as_group).map(int64_value),
        supplemental_groups: groups(pod),
        supplemental_groups_policy: groups_policy(pod),
        privileged: specs::containers(spec).any(privileged),
        // Independent of the containers' profiles: a missing profile must block only the container that needs it.
        seccomp: Some(profile(ProfileType::RuntimeDefault, "")),
        ..Default::default()
    }
}

/// Returns the container's security context.
pub(super) fn of_container(
    pod: &Pod,
    container: &Container,
    image: &cri::Image,
    target_id: Option<String>,
    profiles: &Path,
) -> cri::LinuxContainerSecurityContext {
    let (default, meta) = (PodSpec::default(), &pod.metadata);
    let spec = pod.spec.as_ref().unwrap_or(&default);
    let (no_pod, none) = (PodSecurityContext::default(), SecurityContext::default());
    let pod = spec.security_context.as_ref().unwrap_or(&no_pod);
    let own = container.security_context.as_ref().unwrap_or(&none);
    let (user, username) = match own.run_as_user.or(pod.run_as_user) {
        Some(user) => (Some(user), String::new()),
        None => user_of(image),
    };
    let privileged = own.privileged == Some(true);
    let unmasked = privileged || own.proc_mount.as_deref() == Some("Unmasked");
    let paths = |all: &[&str]| {
        if unmasked {
            Vec::new()
        } else {
            all.iter().map(|p| (*p).to_owned()).collect()
        }
    };
    let capabilities = own
        .capabilities
        .as_ref()
        .map(|capabilities| cri::Capability {
            add_capabilities: capabilities.add.clone().unwrap_or_default(),
            drop_capabilities: capabilities.drop.clone().unwrap_or_default(),
            add_ambient_capabilities: Vec::new(),
        });
    cri::LinuxContainerSecurityContext {
        capabilities,
        privileged,
        namespace_options: Some(namespaces_with_target(spec, target_id)),
        selinux_options: own
            .se_linux_options
            .as_ref()
            .or(pod.se_linux_options.as_ref())
            .map(selinux),
        run_as_user: user.map(int64_value),
        run_as_username: username,
        run_as_group: own.run_as_group.or(pod.run_as_group).map(int64_value),
        readonly_rootfs: own.read_only_root_filesystem.unwrap_or(false),
        supplemental_groups: groups(pod),
        no_new_privs: own.allow_privilege_escalation == Some(false),
        masked_paths: paths(&MASKED_PATHS),
        readonly_paths: paths(&READONLY_PATHS),
        seccomp: own
            .seccomp_profile
            .as_ref()
            .or(pod.seccomp_profile.as_ref())
            .map(|wanted| seccomp(wanted, profiles))
            .or_else(|| Some(profile(ProfileType::Unconfined, ""))),
        apparmor: apparmor(meta, pod, container),
        supplemental_groups_policy: groups_policy(pod),
        ..Default::default()
    }
}

/// Returns the user of an image, by number or name. It defaults to 0, because CRI rejects a group without a user.
fn user_of(image: &cri::Image) -> (Option<i64>, String) {
    match &image.uid {
        Some(uid) => (Some(uid.value), String::new()),
        None if image.username.is_empty() => (Some(0), String::new()),
        None => (None, image.username.clone()),
    }
}

/// Returns an error if the container must not run as root and would.
pub(crate) fn refuse_root(
    spec: &PodSpec,
    container: &Container,
    image: &cri::Image,
) -> Result<(), String> {
    let own = container.security_context.as_ref();
    let pod = spec.security_context.as_ref();
    let must = own
        .and_then(|c| c.run_as_non_root)
        .or(pod.and_then(|c| c.run_as_non_root))
        .unwrap_or(false);
    if !must {
        return Ok(());
    }
    let cure = "set runAsUser to a number other than 0";
    let user = own
        .and_then(|c| c.run_as_user)
        .or(pod.and_then(|c| c.run_as_user));
    match (user, user_of(image)) {
        (Some(0), _) => Err(format!(
            "container's runAsUser breaks non-root policy: {cure}"
        )),
        (Some(_), _) => Ok(()),
        (None, (Some(0), _)) => Err(format!(
            "container has runAsNonRoot and image will run as root: {cure}"
        )),
        (None, (Some(_), _)) => Ok(()),
        (None, (None, name)) => Err(format!(
            "container has runAsNonRoot and image has non-numeric user ({name}), cannot verify user is non-root: {cure}"
        )),
    }
}

/// Returns the container's AppArmor profile.
fn apparmor(
    meta: &ObjectMeta,
    pod: &PodSecurityContext,
    container: &Container,
) -> Option<cri::SecurityProfile> {
    let own = container
        .security_context
        .as_ref()
        .and_then(|context| context.app_armor_profile.as_ref());
    own.or(pod.app_armor_profile.as_ref())
        .map(|wanted| {
            profile(
                kind(&wanted.type_),
                wanted.localhost_profile.as_deref().unwrap_or_default(),
            )
        })
        .or_else(|| apparmor_annotation(meta, &container.name))
}

/// Returns the profile that the deprecated annotation names.
fn apparmor_annotation(meta: &ObjectMeta, container: &str) -> Option<cri::SecurityProfile> {
    let key = format!("container.apparmor.security.beta.kubernetes.io/{container}");
    let value = meta.annotations.as_ref()?.get(&key)?.as_str();
    Some(match value {
        "unconfined" => profile(ProfileType::Unconfined, ""),
        _ => match value.strip_prefix("localhost/") {
            Some(name) => profile(ProfileType::Localhost, name),
            None => profile(ProfileType::RuntimeDefault, ""),
        },
    })
}

fn groups_policy(pod: &PodSecurityContext) -> i32 {
    match pod.supplemental_groups_policy.as_deref() {
        Some("Strict") => cri::SupplementalGroupsPolicy::Strict as i32,
        _ => cri::SupplementalGroupsPolicy::Merge as i32,
    }
}

fn groups(pod: &PodSecurityContext) -> Vec<i64> {
    pod.supplemental_groups
        .iter()
        .flatten()
        .copied()
        .chain(pod.fs_group)
        .collect()
}

fn int64_value(value: i64) -> cri::Int64Value {
    cri::Int64Value { value }
}

fn selinux(options: &SELinuxOptions) -> cri::SeLinuxOption {
    cri::SeLinuxOption {
        user: options.user.clone().unwrap_or_default(),
        role: options.role.clone().unwrap_or_default(),
        r#type: options.type_.clone().unwrap_or_default(),
        level: options.level.clone().unwrap_or_default(),
    }
}

fn kind(text: &str) -> ProfileType {
    match text {
        "Unconfined" => ProfileType::Unconfined,
        "Localhost" => ProfileType::Localhost,
        _ => ProfileType::RuntimeDefault,
    }
}

fn profile(kind: ProfileType, localhost_ref: &str) -> cri::SecurityProfile {
    let localhost_ref = if kind == ProfileType::Localhost {
        localhost_ref.to_owned()
    } else {
        String::new()
    };
    cri::SecurityProfile {
        profile_type: kind as i32,
        localhost_ref,
    }
}

fn seccomp(wanted: &SeccompProfile, profiles: &Path) -> cri::SecurityProfile {
    let file = profiles.join(wanted.localhost_profile.as_deref().unwrap_or_default());
    profile(kind(&wanted.type_), &file.to_string_lossy())
}
