//! `/metrics/resource`: CPU and memory of node, pods and containers, as metrics-server reads them. Pure.
//!
//! Names, labels and times are the kubelet's (`pkg/kubelet/metrics/collectors`). metrics-server's decoder takes
//! `node_cpu_usage_seconds_total`, `node_memory_working_set_bytes`, `node_swap_usage_bytes`,
//! `container_cpu_usage_seconds_total`, `container_memory_working_set_bytes`, `container_swap_usage_bytes` and
//! `container_start_time_seconds`, and needs the labels `container`, `pod` and `namespace` and the times.

use jiff::Timestamp;
use kubeapi::describe::exposition::{Family, Label, Text, number, seconds, unix};

use crate::stats::{
    Usage,
    summary::{ContainerStats, CpuStats, MemoryStats, PodStats, SwapStats},
};

/// A value and the time of its measurement, if they are known.
type Measurement = Option<(f64, Option<Timestamp>)>;

/// Returns the page; `usage` is `None` if the runtime does not report it.
pub(super) fn page(usage: Option<&Usage>) -> String {
    let mut text = Text::default();
    if let Some(usage) = usage {
        node(&mut text, usage);
        containers(&mut text, &usage.pods);
        pods(&mut text, &usage.pods);
    }
    let failed = if usage.is_some() { 0.0 } else { 1.0 };
    text.gauge(
        "resource_scrape_error",
        "1 if there was an error while getting container metrics, 0 otherwise",
    )
    .sample(&[], failed);
    text.into_string()
}

fn node(text: &mut Text, usage: &Usage) {
    let machine = &usage.machine;
    write(
        &mut text.counter(
            "node_cpu_usage_seconds_total",
            "Cumulative cpu time consumed by the node in core-seconds",
        ),
        &[],
        usage.cpu.as_ref().and_then(cpu),
    );
    write(
        &mut text.gauge(
            "node_memory_working_set_bytes",
            "Current working set of the node in bytes",
        ),
        &[],
        machine.memory.as_ref().and_then(working_set),
    );
    write(
        &mut text.gauge(
            "node_swap_usage_bytes",
            "Current swap usage of the node in bytes",
        ),
        &[],
        machine.swap.as_ref().and_then(swap),
    );
}

fn containers(text: &mut Text, pods: &[PodStats]) {
    let each = |mut family: Family<'_>, figure: fn(&ContainerStats) -> Measurement| {
        for pod in pods {
            for container in &pod.containers {
                let (pod, namespace) = (&pod.pod_ref.name, &pod.pod_ref.namespace);
                let labels: [Label<'_>; 3] = [
                    ("container", &container.name),
                    ("namespace", namespace),
                    ("pod", pod),
                ];
                write(&mut family, &labels, figure(container));
            }
        }
    };
    each(
        text.counter(
            "container_cpu_usage_seconds_total",
            "Cumulative cpu time consumed by the container in core-seconds",
        ),
        |container| container.cpu.as_ref().and_then(cpu),
    );
    each(
        text.gauge(
            "container_memory_working_set_bytes",
            "Current working set of the container in bytes",
        ),
        |container| container.memory.as_ref().and_then(working_set),
    );
    each(
        text.gauge(
            "container_start_time_seconds",
            "Start time of the container since unix epoch in seconds",
        ),
        |container| Some((unix(container.start_time), None)).filter(|(at, _)| *at > 0.0),
    );
    each(
        text.gauge(
            "container_swap_usage_bytes",
            "Current amount of the container swap usage in bytes",
        ),
        |container| container.swap.as_ref().and_then(swap),
    );
    each(
        text.gauge(
            "container_swap_limit_bytes",
            "Current amount of the container swap limit in bytes",
        ),
        |container| container.swap.as_ref().and_then(swap_limit),
    );
}

fn pods(text: &mut Text, pods: &[PodStats]) {
    let each = |mut family: Family<'_>, figure: fn(&PodStats) -> Measurement| {
        for pod in pods {
            let labels = [
                ("namespace", pod.pod_ref.namespace.as_str()),
                ("pod", pod.pod_ref.name.as_str()),
            ];
            write(&mut family, &labels, figure(pod));
        }
    };
    each(
        text.counter(
            "pod_cpu_usage_seconds_total",
            "Cumulative cpu time consumed by the pod in core-seconds",
        ),
        |pod| pod.cpu.as_ref().and_then(cpu),
    );
    each(
        text.gauge(
            "pod_memory_working_set_bytes",
            "Current working set of the pod in bytes",
        ),
        |pod| pod.memory.as_ref().and_then(working_set),
    );
    each(
        text.gauge(
            "pod_swap_usage_bytes",
            "Current amount of the pod swap usage in bytes",
        ),
        |pod| pod.swap.as_ref().and_then(swap),
    );
}

/// Writes a value if it is known.
fn write(family: &mut Family<'_>, labels: &[Label<'_>], figure: Measurement) {
    match figure {
        Some((value, Some(at))) => family.sample_at(labels, value, at),
        Some((value, None)) => family.sample(labels, value),
        None => {}
    }
}

fn cpu(cpu: &CpuStats) -> Measurement {
    Some((seconds(cpu.usage_core_nano_seconds?), Some(cpu.time)))
}

fn working_set(memory: &MemoryStats) -> Measurement {
    Some((number(memory.working_set_bytes?), Some(memory.time)))
}

fn swap(swap: &SwapStats) -> Measurement {
    Some((number(swap.swap_usage_bytes?), Some(swap.time)))
}

fn swap_limit(swap: &SwapStats) -> Measurement {
    let limit = swap
        .swap_available_bytes?
        .checked_add(swap.swap_usage_bytes.unwrap_or(0))?;
    Some((number(limit), Some(swap.time)))
}
