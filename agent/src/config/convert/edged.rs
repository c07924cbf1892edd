//! `modules.edged`: this node, and its pods.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kubeapi::object::quantity;

use super::{
    cgroups, eviction, housekeeping, shutdown,
    values::{KUBELET, Values, optional},
};
use crate::config::{
    file,
    names::{check_label_key, check_label_value, is_node_name, is_subdomain},
    overlay::join,
    typed::{Edged, Node, Taint, TaintEffect},
};

/// EdgeCore's default for both sockets.
const DEFAULT_RUNTIME_ENDPOINT: &str = "unix:///run/containerd/containerd.sock";

pub(super) fn pods(edged: &file::Edged, values: &mut Values<'_>) -> Edged {
    let kubelet = &edged.tailored_kubelet_config;
    let at = |key: &str| format!("{KUBELET}.{key}");
    let runtime = socket_url(
        &at("containerRuntimeEndpoint"),
        kubelet.container_runtime_endpoint.clone(),
        values,
    );
    Edged {
        enable: edged.enable,
        root_dir: values.path("modules.edged.rootDirectory", edged.root_directory.clone()),
        pod_logs_dir: values.path(&at("podLogsDir"), kubelet.pod_logs_dir.clone()),
        static_pod_path: values
            .optional_path(&at("staticPodPath"), kubelet.static_pod_path.clone()),
        file_check_frequency: values
            .duration(&at("fileCheckFrequency"), &kubelet.file_check_frequency),
        sync_frequency: values.frequency(&at("syncFrequency"), &kubelet.sync_frequency),
        image_endpoint: image_endpoint(kubelet, &runtime, values),
        runtime_endpoint: runtime,
        parallel_image_pulls: if kubelet.serialize_image_pulls {
            Some(1)
        } else {
            let most: u32 = values.number(
                &at("maxParallelImagePulls"),
                kubelet.max_parallel_image_pulls,
                0,
                1000,
            );
            (most > 0).then_some(most)
        },
        housekeeping: housekeeping::convert(edged, values),
        eviction: eviction::convert(kubelet, values),
        shutdown: shutdown::convert(kubelet, values),
        groups: cgroups::convert(kubelet, values),
        sandbox_image: sandbox_image(&edged.pod_sandbox_image, values),
        cluster_dns: kubelet
            .cluster_dns
            .iter()
            .map(|text| values.address(&at("clusterDNS"), text))
            .collect(),
        cluster_domain: cluster_domain(&kubelet.cluster_domain, values),
        resolv_conf: values.optional_path(&at("resolvConf"), kubelet.resolv_conf.clone()),
        server: SocketAddr::new(
            values.address(&at("address"), &kubelet.address),
            values.number(
                &at("readOnlyPort"),
                kubelet.read_only_port,
                0,
                i64::from(u16::MAX),
            ),
        ),
        report_events: edged.report_event,
        allowed_sysctls: allowed_sysctls(&kubelet.allowed_unsafe_sysctls, values),
        settings: Arc::new(used_settings(kubelet)),
    }
}

/// Returns the kubelet's settings without those that are only checked, see [`check_unused`].
fn used_settings(kubelet: &file::Kubelet) -> serde_json::Value {
    let mut settings = serde_json::to_value(kubelet).unwrap_or_default();
    if let Some(settings) = settings.as_object_mut() {
        settings.retain(|name, _| !["podCIDR", "runtimeRequestTimeout"].contains(&name.as_str()));
    }
    settings
}

pub(super) fn node(edged: &file::Edged, values: &mut Values<'_>) -> Node {
    let kubelet = &edged.tailored_kubelet_config;
    let at = |key: &str| format!("{KUBELET}.{key}");
    Node {
        name: node_name(&edged.hostname_override, values),
        ip: optional(edged.node_ip.clone())
            .map(|text| values.node_address("modules.edged.nodeIP", &text)),
        interface: interface(&edged.custom_interface_name, values),
        register: kubelet.register_node,
        schedulable: edged.register_schedulable,
        labels: labels(&edged.node_labels, values),
        taints: taints(&kubelet.register_with_taints, values),
        lease_duration: values.seconds(
            &at("nodeLeaseDurationSeconds"),
            kubelet.node_lease_duration_seconds,
            1,
        ),
        status_update_frequency: values.frequency(
            &at("nodeStatusUpdateFrequency"),
            &kubelet.node_status_update_frequency,
        ),
        status_report_frequency: values.frequency(
            &at("nodeStatusReportFrequency"),
            &kubelet.node_status_report_frequency,
        ),
        capacity: ::edged::Capacity::default(),
        max_pods: values.number(&at("maxPods"), kubelet.max_pods, 1, 1_000_000),
        pods_per_core: values.number(&at("podsPerCore"), kubelet.pods_per_core, 0, 10_000),
        max_images: images(kubelet.node_status_max_images, values),
        kube_reserved: check_reserved(&at("kubeReserved"), &kubelet.kube_reserved, values),
        system_reserved: check_reserved(&at("systemReserved"), &kubelet.system_reserved, values),
        eviction_hard: kubelet.eviction_hard.clone(),
    }
}

fn sandbox_image(text: &str, values: &mut Values<'_>) -> String {
    let path = "modules.edged.podSandboxImage";
    if text.trim().contains(char::is_whitespace) {
        values.error(
            path,
            format!("is {text:?}, but must be an image such as kubeedge/pause:3.6"),
        );
    }
    values.text(path, text.to_owned())
}

fn cluster_domain(text: &str, values: &mut Values<'_>) -> String {
    if !text.is_empty() && !is_subdomain(text) {
        values.error(
            &format!("{KUBELET}.clusterDomain"),
            format!("is {text:?}, but must be a domain such as cluster.local"),
        );
    }
    text.to_owned()
}

/// Checks names of sysctls, of which the last character may be `*`, as the kubelet does.
fn allowed_sysctls(written: &[String], values: &mut Values<'_>) -> Vec<String> {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '/' | '-' | '_');
    for text in written {
        let name = text.strip_suffix('*').unwrap_or(text);
        if name.is_empty() || !name.chars().all(is_letter) {
            let must = "must have names such as net.core.somaxconn or kernel.msg*";
            values.error(
                &format!("{KUBELET}.allowedUnsafeSysctls"),
                format!("has {text:?}, but {must}"),
            );
        }
    }
    written.to_vec()
}

/// Checks the name of a network interface by the kernel's rules.
fn interface(text: &str, values: &mut Values<'_>) -> Option<String> {
    const MAX_BYTES: usize = 15;
    let is_wrong = |c: char| c.is_whitespace() || c == '/';
    if text.len() > MAX_BYTES || text.contains(is_wrong) {
        values.error(
            "modules.edged.customInterfaceName",
            format!("is {text:?}, but must be the name of a network interface such as eth0"),
        );
    }
    optional(text.to_owned())
}

/// Checks labels, which the cloud would refuse together with the whole Node.
fn labels(written: &BTreeMap<String, String>, values: &mut Values<'_>) -> BTreeMap<String, String> {
    for (key, value) in written {
        let checked = check_label_key(key).and_then(|()| check_label_value(value));
        if let Err(why) = checked {
            values.error(&join("modules.edged.nodeLabels", key), why);
        }
    }
    written.clone()
}

/// Converts the limit of images; -1 is no limit.
fn images(most: i64, values: &mut Values<'_>) -> Option<usize> {
    let path = format!("{KUBELET}.nodeStatusMaxImages");
    (most != -1).then(|| values.number(&path, most, -1, i64::from(i32::MAX)))
}

/// Checks reserved quantities.
fn check_reserved(
    path: &str,
    written: &BTreeMap<String, String>,
    values: &mut Values<'_>,
) -> BTreeMap<String, String> {
    for (name, text) in written {
        if quantity::whole(&Quantity(text.clone())).is_none_or(|amount| amount < 0) {
            values.error(
                &format!("{path}.{name}"),
                format!("is {text:?}, but must be a quantity such as 200m or 256Mi"),
            );
        }
    }
    written.clone()
}

/// Checks settings that are not used, as EdgeCore checks them.
pub(super) fn check_unused(edged: &file::Edged, values: &mut Values<'_>) {
    let kubelet = &edged.tailored_kubelet_config;
    let at = |key: &str| format!("{KUBELET}.{key}");
    values.text(
        "modules.edged.registerNodeNamespace",
        edged.register_node_namespace.clone(),
    );
    let timeout = values.duration(
        &at("runtimeRequestTimeout"),
        &kubelet.runtime_request_timeout,
    );
    for (path, is_default) in [
        (
            "modules.edged.registerNodeNamespace".to_owned(),
            edged.register_node_namespace == "default",
        ),
        (
            at("maxParallelImagePulls"),
            !kubelet.serialize_image_pulls || kubelet.max_parallel_image_pulls <= 1,
        ),
        (at("podCIDR"), kubelet.pod_cidr.is_empty()),
        (at("runtimeRequestTimeout"), timeout.as_secs() == 120),
    ] {
        if !is_default {
            values.warn_unused(path);
        }
    }
}

/// Checks the node's name. EdgeCore converts a machine's name to lower case, and so a given name.
fn node_name(text: &str, values: &mut Values<'_>) -> String {
    let name = text.trim().to_ascii_lowercase();
    if !is_node_name(&name) {
        let rule = "a node's name has small letters, digits, '-' and '.', and begins and ends with a letter or digit";
        values.error(
            "modules.edged.hostnameOverride",
            format!("is {text:?}: {rule}"),
        );
    }
    name
}

/// Converts a bare path to a URL, as EdgeCore does.
fn socket_url(path: &str, text: String, values: &mut Values<'_>) -> String {
    if text.starts_with('/') {
        return format!("unix://{text}");
    }
    if !text
        .strip_prefix("unix://")
        .is_some_and(|socket| socket.starts_with('/'))
    {
        let example = "unix:///run/containerd/containerd.sock";
        values.error(
            path,
            format!("is {text:?}, but must be the URL of a socket file, such as {example}"),
        );
    }
    text
}

/// Returns the image endpoint. Images belong to the runtime: EdgeCore's default names containerd even if the runtime is another
/// one, whose containers then lack the images, which is never intended.
fn image_endpoint(kubelet: &file::Kubelet, runtime: &str, values: &mut Values<'_>) -> String {
    match kubelet.image_service_endpoint.as_str() {
        "" | DEFAULT_RUNTIME_ENDPOINT => runtime.to_owned(),
        other => socket_url(
            &format!("{KUBELET}.imageServiceEndpoint"),
            other.to_owned(),
            values,
        ),
    }
}

fn taints(written: &[file::Taint], values: &mut Values<'_>) -> Vec<Taint> {
    let mut taints = Vec::with_capacity(written.len());
    for (index, taint) in written.iter().enumerate() {
        let path = format!("{KUBELET}.registerWithTaints[{index}]");
        if taint.key.is_empty() {
            values.error(&format!("{path}.key"), "is missing");
        } else if let Err(why) = check_label_key(&taint.key) {
            values.error(&format!("{path}.key"), why);
        }
        if let Err(why) = check_label_value(&taint.value) {
            values.error(&format!("{path}.value"), why);
        }
        let effect = match taint.effect.as_str() {
            "NoSchedule" => TaintEffect::NoSchedule,
            "PreferNoSchedule" => TaintEffect::PreferNoSchedule,
            "NoExecute" => TaintEffect::NoExecute,
            other => {
                let known = "NoSchedule, PreferNoSchedule or NoExecute";
                values.error(
                    &format!("{path}.effect"),
                    format!("is {other:?}, but must be {known}"),
                );
                continue;
            }
        };
        taints.push(Taint {
            key: taint.key.clone(),
            value: taint.value.clone(),
            effect,
        });
    }
    taints
}
