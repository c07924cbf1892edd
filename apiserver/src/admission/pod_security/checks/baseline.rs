//! The controls of the level `baseline`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::fields::{
    Setters, bad_texts, containers, context, is_set, name, plural, quote_names, unless_own_users,
};
use crate::admission::pod_security::pod::{Pod, Violation};
use kubeapi::object::{items, text, text_or_empty};

const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Only the runtime's profile, or one of the node.
pub(super) fn app_armor(pod: &Pod<'_>) -> Option<Violation> {
    let is_bad = |kind: &Value| {
        is_set(kind) && !matches!(kind.as_str(), Some("RuntimeDefault" | "Localhost"))
    };
    let types = pod.contexts("/appArmorProfile/type");
    let mut values: Vec<_> = bad_texts(&types, is_bad)
        .into_iter()
        .map(str::to_owned)
        .collect();
    let is_allowed =
        |value: &str| matches!(value, "" | "runtime/default") || value.starts_with("localhost/");
    let annotations: BTreeSet<_> = pod
        .annotations()
        .filter(|(key, value)| key.starts_with(APP_ARMOR) && !is_allowed(value))
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();
    let mut setters = Setters::of(&types, is_bad).descriptions();
    if !annotations.is_empty() {
        setters.push(plural("annotation", "annotations", annotations.len()).to_owned());
        values.extend(annotations);
    }
    (!setters.is_empty()).then(|| Violation {
        reason: plural(
            "forbidden AppArmor profile",
            "forbidden AppArmor profiles",
            values.len(),
        ),
        detail: format!(
            "{} must not set AppArmor profile type to {}",
            setters.join(" and "),
            quote_names(&values)
        ),
    })
}

const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// No capabilities but those that containers have by themselves.
pub(super) fn capabilities(pod: &Pod<'_>) -> Option<Violation> {
    let mut forbidden = BTreeSet::new();
    let bad = pod.containers_where(|container| {
        let added = items(context(container, "/capabilities"), "/add")
            .iter()
            .filter_map(Value::as_str);
        let others: Vec<_> = added
            .filter(|capability| !CAPABILITIES.contains(capability))
            .collect();
        forbidden.extend(others.iter().copied());
        !others.is_empty()
    });
    (!bad.is_empty()).then(|| Violation {
        reason: "non-default capabilities",
        detail: format!(
            "{} must not include {} in securityContext.capabilities.add",
            containers(&bad),
            quote_names(&forbidden)
        ),
    })
}

/// No namespace of the host.
pub(super) fn host_namespaces(pod: &Pod<'_>) -> Option<Violation> {
    let shared: Vec<_> = ["hostNetwork", "hostPID", "hostIPC"]
        .into_iter()
        .filter(|name| pod.field(name).as_bool() == Some(true))
        .map(|name| format!("{name}=true"))
        .collect();
    (!shared.is_empty()).then(|| Violation {
        reason: "host namespaces",
        detail: shared.join(", "),
    })
}

/// No folder of the host.
pub(super) fn host_path_volumes(pod: &Pod<'_>) -> Option<Violation> {
    let volumes = pod
        .volumes()
        .iter()
        .filter(|volume| volume.get("hostPath").is_some_and(is_set));
    let bad: Vec<_> = volumes.map(name).collect();
    (!bad.is_empty()).then(|| Violation {
        reason: "hostPath volumes",
        detail: format!(
            "{} {}",
            plural("volume", "volumes", bad.len()),
            quote_names(&bad)
        ),
    })
}

/// No port of the host.
pub(super) fn host_ports(pod: &Pod<'_>) -> Option<Violation> {
    let mut ports = BTreeSet::new();
    let bad = pod.containers_where(|container| {
        let host_port = |port: &Value| {
            port.get("hostPort")
                .and_then(Value::as_i64)
                .filter(|port| *port != 0)
        };
        let used: Vec<_> = items(container, "/ports")
            .iter()
            .filter_map(host_port)
            .collect();
        ports.extend(used.iter().map(ToString::to_string));
        !used.is_empty()
    });
    (!bad.is_empty()).then(|| Violation {
        reason: "hostPort",
        detail: format!(
            "{} {} {} {}",
            containers(&bad),
            plural("uses", "use", bad.len()),
            plural("hostPort", "hostPorts", ports.len()),
            ports.into_iter().collect::<Vec<_>>().join(", ")
        ),
    })
}

const HANDLERS: [&str; 5] = [
    "/livenessProbe",
    "/readinessProbe",
    "/startupProbe",
    "/lifecycle/postStart",
    "/lifecycle/preStop",
];

/// Probes and handlers that ask the pod itself, and no other host.
pub(super) fn handler_hosts(pod: &Pod<'_>) -> Option<Violation> {
    let mut hosts = BTreeSet::new();
    let bad: BTreeSet<_> = pod
        .containers_where(|container| {
            let handlers = HANDLERS
                .iter()
                .filter_map(|pointer| container.pointer(pointer));
            let asked = handlers.flat_map(|handler| {
                ["/httpGet/host", "/tcpSocket/host"].map(|pointer| text_or_empty(handler, pointer))
            });
            let others: Vec<_> = asked.filter(|host| !host.is_empty()).collect();
            hosts.extend(others.iter().copied());
            !others.is_empty()
        })
        .into_iter()
        .collect();
    let bad: Vec<_> = bad.into_iter().collect();
    (!bad.is_empty()).then(|| Violation {
        reason: "probe or lifecycle host",
        detail: format!(
            "{} {} {} {}",
            containers(&bad),
            plural("uses", "use", bad.len()),
            plural(
                "probe or lifecycle host",
                "probe or lifecycle hosts",
                hosts.len()
            ),
            quote_names(&hosts)
        ),
    })
}

/// No container that may do all.
pub(super) fn check_privileged(pod: &Pod<'_>) -> Option<Violation> {
    let bad =
        pod.containers_where(|container| context(container, "/privileged").as_bool() == Some(true));
    (!bad.is_empty()).then(|| Violation {
        reason: "privileged",
        detail: format!(
            "{} must not set securityContext.privileged=true",
            containers(&bad)
        ),
    })
}

/// `/proc` as runtimes mask it.
pub(super) fn proc_mount(pod: &Pod<'_>) -> Option<Violation> {
    let mut kinds = BTreeSet::new();
    let bad = pod.containers_where(|container| {
        let other = context(container, "/procMount")
            .as_str()
            .filter(|kind| *kind != "Default");
        kinds.extend(other);
        other.is_some()
    });
    (!bad.is_empty()).then(|| Violation {
        reason: "procMount",
        detail: format!(
            "{} must not set securityContext.procMount to {}",
            containers(&bad),
            quote_names(&kinds)
        ),
    })
}

/// The same, for pods whose users are the host's.
pub(super) fn proc_mount_since_1_35(pod: &Pod<'_>) -> Option<Violation> {
    unless_own_users(pod, proc_mount)
}

const SELINUX_TYPES: [&str; 4] = ["", "container_t", "container_init_t", "container_kvm_t"];

/// SELinux' types for containers, and no other user or role.
pub(super) fn selinux(pod: &Pod<'_>) -> Option<Violation> {
    selinux_but_for(pod, &SELINUX_TYPES)
}

/// The same, with a type more.
pub(super) fn selinux_since_1_31(pod: &Pod<'_>) -> Option<Violation> {
    let [empty, container, init, kvm] = SELINUX_TYPES;
    selinux_but_for(pod, &[empty, container, init, kvm, "container_engine_t"])
}

fn selinux_but_for(pod: &Pod<'_>, allowed: &[&str]) -> Option<Violation> {
    let all = pod.contexts("/seLinuxOptions");
    let mut types = BTreeSet::new();
    let (mut user, mut role) = (false, false);
    let setters = Setters::of(&all, |options| {
        let other = Some(text_or_empty(options, "/type")).filter(|kind| !allowed.contains(kind));
        let has = |pointer| text(options, pointer).is_some_and(|text| !text.is_empty());
        types.extend(other);
        user |= has("/user");
        role |= has("/role");
        other.is_some() || has("/user") || has("/role")
    });
    let mut faults = Vec::new();
    if !types.is_empty() {
        faults.push(format!(
            "{} {}",
            plural("type", "types", types.len()),
            quote_names(&types)
        ));
    }
    faults.extend(user.then(|| "user may not be set".to_owned()));
    faults.extend(role.then(|| "role may not be set".to_owned()));
    (!setters.is_empty()).then(|| Violation {
        reason: "seLinuxOptions",
        detail: format!(
            "{} set forbidden securityContext.seLinuxOptions: {}",
            setters.join(),
            faults.join("; ")
        ),
    })
}

/// The parameters of the kernel that a pod has for itself alone, each with the minor version since which it is allowed.
const SYSCTLS: [(u32, &str); 12] = [
    (0, "kernel.shm_rmid_forced"),
    (0, "net.ipv4.ip_local_port_range"),
    (0, "net.ipv4.tcp_syncookies"),
    (0, "net.ipv4.ping_group_range"),
    (0, "net.ipv4.ip_unprivileged_port_start"),
    (27, "net.ipv4.ip_local_reserved_ports"),
    (29, "net.ipv4.tcp_keepalive_time"),
    (29, "net.ipv4.tcp_fin_timeout"),
    (29, "net.ipv4.tcp_keepalive_intvl"),
    (29, "net.ipv4.tcp_keepalive_probes"),
    (32, "net.ipv4.tcp_rmem"),
    (32, "net.ipv4.tcp_wmem"),
];

/// No parameters of the kernel but safe ones.
pub(super) fn sysctls(pod: &Pod<'_>, minor: u32) -> Option<Violation> {
    let is_safe = |wanted: &str| {
        SYSCTLS
            .iter()
            .any(|(since, name)| *since <= minor && *name == wanted)
    };
    let set = items(context(pod.spec, ""), "/sysctls").iter().map(name);
    let bad: Vec<_> = set.filter(|name| !is_safe(name)).collect();
    (!bad.is_empty()).then(|| Violation {
        reason: "forbidden sysctls",
        detail: bad.join(", "),
    })
}

/// No process of the host on Windows.
pub(super) fn host_process(pod: &Pod<'_>) -> Option<Violation> {
    let all = pod.contexts("/windowsOptions/hostProcess");
    let setters = Setters::of(&all, |value| value.as_bool() == Some(true));
    (!setters.is_empty()).then(|| Violation {
        reason: "hostProcess",
        detail: format!(
            "{} must not set securityContext.windowsOptions.hostProcess=true",
            setters.join()
        ),
    })
}
