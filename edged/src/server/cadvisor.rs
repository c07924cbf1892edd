//! `/metrics/cadvisor`: the cAdvisor metrics that dashboards use, from the same figures as the summary. Pure.
//!
//! Labels are cAdvisor's (`container`, `id`, `image`, `name`, `namespace`, `pod`), but `id` and `name` are the runtime's id, as
//! only the runtime knows the control group. A series without `container` is for the whole pod.

use std::{collections::HashMap, sync::Arc};

use k8s_openapi::api::core::v1::Pod;
use kubeapi::describe::exposition::{Family, Label, Text, number, seconds, unix};

use kubeapi::object::quantity;

use crate::{
    specs,
    stats::summary::{ContainerStats, FsStats, InterfaceStats, MemoryStats, PodStats, Summary},
};

/// A metric: name, help text, and how its value is read.
type Metric<T> = (&'static str, &'static str, fn(&T) -> Option<u64>);

/// Returns the page. `pods` provide the limits of their containers.
pub(super) fn page(summary: &Summary, pods: &[Arc<Pod>]) -> String {
    let mut text = Text::default();
    containers(&mut text, &summary.pods);
    spec_limits(&mut text, &summary.pods, pods);
    networks(&mut text, &summary.pods);
    machine(&mut text, summary);
    text.into_string()
}

/// Returns the labels of a container, or of a pod as a whole.
fn labels<'a>(pod: &'a PodStats, container: Option<&'a ContainerStats>) -> [Label<'a>; 6] {
    let (name, id, image) = match container {
        Some(container) => (
            container.name.as_str(),
            container.id.as_str(),
            container.image.as_str(),
        ),
        None => ("", pod.id.as_str(), ""),
    };
    [
        ("container", name),
        ("id", id),
        ("image", image),
        ("name", if container.is_some() { id } else { "" }),
        ("namespace", &pod.pod_ref.namespace),
        ("pod", &pod.pod_ref.name),
    ]
}

/// Writes a value of every container.
fn write_each(
    mut family: Family<'_>,
    pods: &[PodStats],
    figure: impl Fn(&ContainerStats) -> Option<f64>,
) {
    for pod in pods {
        for container in &pod.containers {
            if let Some(value) = figure(container) {
                family.sample(&labels(pod, Some(container)), value);
            }
        }
    }
}

fn containers(text: &mut Text, pods: &[PodStats]) {
    let mut cpu = text.counter(
        "container_cpu_usage_seconds_total",
        "Cumulative cpu time consumed in seconds.",
    );
    for pod in pods {
        let parts = pod
            .containers
            .iter()
            .map(|container| (Some(container), container.cpu.as_ref()));
        for (container, used) in parts.chain([(None, pod.cpu.as_ref())]) {
            if let Some(nanos) = used.and_then(|used| used.usage_core_nano_seconds) {
                let [container, rest @ ..] = labels(pod, container);
                let labels: Vec<_> = [container, ("cpu", "total")]
                    .into_iter()
                    .chain(rest)
                    .collect();
                cpu.sample(&labels, seconds(nanos));
            }
        }
    }
    memory(text, pods);
    let fs = |container: &ContainerStats, figure: fn(&FsStats) -> Option<u64>| {
        container.rootfs.as_ref().and_then(figure).map(number)
    };
    let help = "Number of bytes that are consumed by the container on this filesystem.";
    write_each(text.gauge("container_fs_usage_bytes", help), pods, |one| {
        fs(one, |fs| fs.used_bytes)
    });
    let help = "Number of bytes that can be consumed by the container on this filesystem.";
    write_each(text.gauge("container_fs_limit_bytes", help), pods, |one| {
        fs(one, |fs| fs.capacity_bytes)
    });
    let help = "Start time of the container since unix epoch in seconds.";
    write_each(
        text.gauge("container_start_time_seconds", help),
        pods,
        |one| Some(unix(one.start_time)),
    );
    let help = "Last time a container was seen by the exporter";
    write_each(text.gauge("container_last_seen", help), pods, |one| {
        Some(unix(one.cpu.as_ref()?.time))
    });
    let mut processes = text.gauge(
        "container_processes",
        "Number of processes running inside the container.",
    );
    for pod in pods {
        if let Some(count) = pod.processes.as_ref().and_then(|processes| processes.count) {
            processes.sample(&labels(pod, None), number(count));
        }
    }
}

fn memory(text: &mut Text, pods: &[PodStats]) {
    let figures: [Metric<MemoryStats>; 3] = [
        (
            "container_memory_working_set_bytes",
            "Current working set in bytes.",
            |used| used.working_set_bytes,
        ),
        (
            "container_memory_usage_bytes",
            "Current memory usage in bytes, including all memory regardless of when it was accessed",
            |used| used.usage_bytes,
        ),
        ("container_memory_rss", "Size of RSS in bytes.", |used| {
            used.rss_bytes
        }),
    ];
    for (name, help, figure) in figures {
        let mut family = text.gauge(name, help);
        for pod in pods {
            let parts = pod
                .containers
                .iter()
                .map(|container| (Some(container), container.memory.as_ref()));
            for (container, used) in parts.chain([(None, pod.memory.as_ref())]) {
                if let Some(bytes) = used.and_then(figure) {
                    family.sample(&labels(pod, container), number(bytes));
                }
            }
        }
    }
    let mut failures = text.counter(
        "container_memory_failures_total",
        "Cumulative count of memory allocation failures.",
    );
    for pod in pods {
        for container in &pod.containers {
            let Some(used) = &container.memory else {
                continue;
            };
            for (kind, count) in [
                ("pgfault", used.page_faults),
                ("pgmajfault", used.major_page_faults),
            ] {
                let Some(count) = count else { continue };
                let [container, rest @ ..] = labels(pod, Some(container));
                let labels: Vec<_> = [container, ("failure_type", kind)]
                    .into_iter()
                    .chain(rest)
                    .chain([("scope", "container")])
                    .collect();
                failures.sample(&labels, number(count));
            }
        }
    }
    let help = "Container swap usage in bytes.";
    write_each(text.gauge("container_memory_swap", help), pods, |one| {
        one.swap.as_ref()?.swap_usage_bytes.map(number)
    });
}

/// Writes the limits that the pods' specifications set.
fn spec_limits(text: &mut Text, stats: &[PodStats], pods: &[Arc<Pod>]) {
    let specs: HashMap<_, _> = pods
        .iter()
        .map(|pod| (pod.metadata.uid.as_deref(), &pod.spec))
        .collect();
    let limit = |pod: &PodStats, name: &str, resource: &str| {
        let spec = specs.get(&Some(pod.pod_ref.uid.as_str()))?.as_ref()?;
        let container = specs::containers(spec).find(|container| container.name == name)?;
        container
            .resources
            .as_ref()?
            .limits
            .as_ref()?
            .get(resource)
            .cloned()
    };
    let write = |mut family: Family<'_>, figure: &dyn Fn(&PodStats, &str) -> Option<f64>| {
        for pod in stats {
            for container in &pod.containers {
                if let Some(value) = figure(pod, &container.name) {
                    family.sample(&labels(pod, Some(container)), value);
                }
            }
        }
    };
    let bytes = |pod: &PodStats, name: &str| {
        // 0 means no limit
        Some(
            limit(pod, name, "memory")
                .and_then(|limit| quantity::whole(&limit))
                .map_or(0.0, |bytes| number(u64::try_from(bytes).unwrap_or(0))),
        )
    };
    write(
        text.gauge(
            "container_spec_memory_limit_bytes",
            "Memory limit for the container.",
        ),
        &bytes,
    );
    let quota = |pod: &PodStats, name: &str| {
        let millis = limit(pod, name, "cpu").and_then(|limit| quantity::milli(&limit))?;
        Some(number(u64::try_from(millis).unwrap_or(0)) * CPU_QUOTA_PERIOD / 1000.0)
    };
    write(
        text.gauge("container_spec_cpu_quota", "CPU quota of the container."),
        &quota,
    );
    let period = |pod: &PodStats, name: &str| quota(pod, name).map(|_| CPU_QUOTA_PERIOD);
    write(
        text.gauge("container_spec_cpu_period", "CPU period of the container."),
        &period,
    );
}

/// CFS quota period in microseconds.
const CPU_QUOTA_PERIOD: f64 = 100_000.0;

fn networks(text: &mut Text, pods: &[PodStats]) {
    let figures: [Metric<InterfaceStats>; 4] = [
        (
            "container_network_receive_bytes_total",
            "Cumulative count of bytes received",
            |one| one.rx_bytes,
        ),
        (
            "container_network_receive_errors_total",
            "Cumulative count of errors encountered while receiving",
            |one| one.rx_errors,
        ),
        (
            "container_network_transmit_bytes_total",
            "Cumulative count of bytes transmitted",
            |one| one.tx_bytes,
        ),
        (
            "container_network_transmit_errors_total",
            "Cumulative count of errors encountered while transmitting",
            |one| one.tx_errors,
        ),
    ];
    for (name, help, figure) in figures {
        let mut family = text.counter(name, help);
        for pod in pods {
            for interface in pod.network.iter().flat_map(|network| &network.interfaces) {
                let Some(value) = figure(interface) else {
                    continue;
                };
                let [container, id, image, rest @ ..] = labels(pod, None);
                let labels: Vec<_> = [container, id, image, ("interface", &interface.name)]
                    .into_iter()
                    .chain(rest)
                    .collect();
                family.sample(&labels, number(value));
            }
        }
    }
}

fn machine(text: &mut Text, summary: &Summary) {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    text.gauge("machine_cpu_cores", "Number of logical CPU cores.")
        .sample(&[], number(cores as u64));
    let memory = summary.node.memory.as_ref();
    let total = memory.and_then(|memory| {
        memory
            .available_bytes?
            .checked_add(memory.working_set_bytes?)
    });
    if let Some(total) = total {
        text.gauge(
            "machine_memory_bytes",
            "Amount of memory installed on the machine.",
        )
        .sample(&[], number(total));
    }
}
