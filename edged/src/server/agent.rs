//! `/metrics`: metrics of this agent, under the kubelet's names. Pure.

use std::collections::BTreeMap;

use componentbase::static_pods::{CONFIG_MIRROR_ANNOTATION, CONFIG_SOURCE_ANNOTATION};
use componentbase::{Metric, MetricKind};
use k8s_openapi::api::core::v1::Pod;
use kubeapi::describe::exposition::{Text, number, seconds, unix};
use wire::cri;

use super::volumes;
use crate::{
    metrics::{MetricValues, Operation},
    names,
    specs::is_terminal,
    stats::{Machine, summary::VolumeStats},
};

/// What the page is made from.
pub(super) struct AgentFacts<'a> {
    /// The node's name.
    pub(super) node_name: &'a str,
    /// The kubelet version that the node reports.
    pub(super) version: &'a str,
    /// The desired pods.
    pub(super) pods: &'a [std::sync::Arc<Pod>],
    /// The runtime's lists, if it answers.
    pub(super) runtime: Option<(Vec<cri::PodSandbox>, Vec<cri::Container>)>,
    /// Counters of calls to the runtime.
    pub(super) operations: BTreeMap<String, Operation>,
    /// Other metrics of EdgeD.
    pub(super) values: MetricValues,
    /// Metrics of other parts of the agent.
    pub(super) others: Vec<Metric>,
    /// Usage of this process.
    pub(super) machine: Machine,
    /// Number of open file descriptors, and its limit.
    pub(super) files: (Option<u64>, Option<u64>),
    /// Usage of all pods' volumes that can be measured.
    pub(super) volumes: Vec<VolumeStats>,
}

/// Returns the page.
pub(super) fn page(facts: &AgentFacts<'_>) -> String {
    let mut text = Text::default();
    text.gauge(
        "kubelet_node_name",
        "The node's name. The count is always 1.",
    )
    .sample(&[("node", facts.node_name)], 1.0);
    text.gauge(
        "kubernetes_build_info",
        "Version that the node reports for its kubelet; the value is always 1.",
    )
    .sample(&[("git_version", facts.version)], 1.0);
    pods(&mut text, facts.pods);
    if let Some((sandboxes, containers)) = &facts.runtime {
        running(&mut text, sandboxes, containers);
    }
    operations(&mut text, &facts.operations);
    values(&mut text, &facts.values);
    volumes::append(&mut text, &facts.volumes);
    others(&mut text, &facts.others);
    process(&mut text, facts);
    text.into_string()
}

fn pods(text: &mut Text, pods: &[std::sync::Arc<Pod>]) {
    let annotation = |pod: &Pod, name: &str| pod.metadata.annotations.as_ref()?.get(name).cloned();
    let is_static =
        |pod: &Pod| annotation(pod, CONFIG_SOURCE_ANNOTATION).is_some_and(|source| source != "api");
    let is_mirror = |pod: &Pod| annotation(pod, CONFIG_MIRROR_ANNOTATION).is_some();
    let is_active = |pod: &Pod| !is_terminal(pod);
    let count = |wanted: &dyn Fn(&Pod) -> bool| {
        number(pods.iter().filter(|pod| wanted(pod)).count() as u64)
    };
    let mut desired = text.gauge(
        "kubelet_desired_pods",
        "The number of pods the kubelet is being instructed to run.",
    );
    desired.sample(&[("static", "")], count(&|pod| !is_static(pod)));
    desired.sample(&[("static", "true")], count(&is_static));
    let mut active =
        text.gauge("kubelet_active_pods", "The number of pods the kubelet considers active and which are being considered when admitting new pods.");
    active.sample(
        &[("static", "")],
        count(&|pod| !is_static(pod) && is_active(pod)),
    );
    active.sample(
        &[("static", "true")],
        count(&|pod| is_static(pod) && is_active(pod)),
    );
    text.gauge(
        "kubelet_mirror_pods",
        "The number of mirror pods the kubelet will try to create.",
    )
    .sample(&[], count(&is_mirror));
}

fn running(text: &mut Text, sandboxes: &[cri::PodSandbox], containers: &[cri::Container]) {
    // Containers of others on the same runtime have no labels of pods.
    let ready = sandboxes.iter().filter(|sandbox| {
        sandbox.labels.contains_key(names::POD_UID)
            && sandbox.state() == cri::PodSandboxState::SandboxReady
    });
    text.gauge(
        "kubelet_running_pods",
        "Number of pods that have a running pod sandbox",
    )
    .sample(&[], number(ready.count() as u64));
    let mut states = BTreeMap::<&str, u64>::new();
    for container in containers
        .iter()
        .filter(|one| one.labels.contains_key(names::POD_UID))
    {
        let state = match container.state() {
            cri::ContainerState::ContainerCreated => "created",
            cri::ContainerState::ContainerRunning => "running",
            cri::ContainerState::ContainerExited => "exited",
            cri::ContainerState::ContainerUnknown => "unknown",
        };
        *states.entry(state).or_default() += 1;
    }
    let mut family = text.gauge(
        "kubelet_running_containers",
        "Number of currently running containers",
    );
    for (state, count) in states {
        family.sample(&[("container_state", state)], number(count));
    }
}

fn operations(text: &mut Text, operations: &BTreeMap<String, Operation>) {
    let mut all = text.counter(
        "kubelet_runtime_operations_total",
        "Cumulative number of runtime operations by operation type.",
    );
    for (kind, operation) in operations {
        all.sample(&[("operation_type", kind)], number(operation.took.count()));
    }
    let mut errors = text.counter(
        "kubelet_runtime_operations_errors_total",
        "Cumulative number of runtime operation errors by operation type.",
    );
    for (kind, operation) in operations
        .iter()
        .filter(|(_, operation)| operation.errors > 0)
    {
        errors.sample(&[("operation_type", kind)], number(operation.errors));
    }
    let mut took = text.histogram(
        "kubelet_runtime_operations_duration_seconds",
        "Duration in seconds of runtime operations. Broken down by operation type.",
    );
    for (kind, operation) in operations {
        took.buckets(&[("operation_type", kind)], &operation.took);
    }
    let pods = operations.get("run_podsandbox");
    text.counter(
        "kubelet_started_pods_total",
        "Cumulative number of pods started",
    )
    .sample(
        &[],
        number(pods.map_or(0, |operation| operation.took.count())),
    );
    text.counter(
        "kubelet_started_pods_errors_total",
        "Cumulative number of errors when starting pods",
    )
    .sample(&[], number(pods.map_or(0, |operation| operation.errors)));
}

fn values(text: &mut Text, values: &MetricValues) {
    text.histogram(
        "kubelet_pod_start_duration_seconds",
        "Duration in seconds from kubelet seeing a pod for the first time to the pod starting to run",
    )
    .buckets(&[], &values.pod_start);
    let mut worker = text.histogram(
        "kubelet_pod_worker_duration_seconds",
        "Duration in seconds to sync a single pod. Broken down by operation type: create, update, or sync",
    );
    for (operation, took) in &values.pod_worker {
        worker.buckets(&[("operation_type", operation)], took);
    }
    text.histogram(
        "kubelet_pleg_relist_duration_seconds",
        "Duration in seconds for relisting pods in PLEG.",
    )
    .buckets(&[], &values.relist);
    text.histogram(
        "kubelet_pleg_relist_interval_seconds",
        "Interval in seconds between relisting in PLEG.",
    )
    .buckets(&[], &values.relist_interval);
    if let Some((_, at)) = values.last_relist {
        text.gauge(
            "kubelet_pleg_last_seen_seconds",
            "Timestamp in seconds when PLEG was last seen active.",
        )
        .sample(&[], unix(at));
    }
}

fn others(text: &mut Text, metrics: &[Metric]) {
    for metric in metrics {
        let mut family = match metric.kind {
            MetricKind::Counter => text.counter(metric.name, metric.help),
            MetricKind::Gauge => text.gauge(metric.name, metric.help),
        };
        for (labels, figure) in &metric.samples {
            let labels: Vec<_> = labels
                .iter()
                .map(|(name, value)| (*name, value.as_str()))
                .collect();
            family.sample(&labels, number(*figure));
        }
    }
}

fn process(text: &mut Text, facts: &AgentFacts<'_>) {
    let machine = &facts.machine;
    let mut gauge = |name, help, value: Option<f64>| {
        if let Some(value) = value {
            text.gauge(name, help).sample(&[], value);
        }
    };
    gauge(
        "process_resident_memory_bytes",
        "Resident memory size in bytes.",
        machine.agent_resident.map(number),
    );
    gauge(
        "process_virtual_memory_bytes",
        "Virtual memory size in bytes.",
        machine.agent.map(|agent| number(agent.virtual_bytes)),
    );
    gauge(
        "process_start_time_seconds",
        "Start time of the process since unix epoch in seconds.",
        machine.agent.map(|_| unix(machine.agent_started())),
    );
    gauge(
        "process_open_fds",
        "Number of open file descriptors.",
        facts.files.0.map(number),
    );
    gauge(
        "process_max_fds",
        "Maximum number of open file descriptors.",
        facts.files.1.map(number),
    );
    if let Some(agent) = machine.agent {
        text.counter(
            "process_cpu_seconds_total",
            "Total user and system CPU time spent in seconds.",
        )
        .sample(&[], seconds(agent.cpu_nanos));
    }
}
