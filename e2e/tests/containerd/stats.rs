//! What real containers use, as the node's server tells it, beside what the kernel says.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context, ensure};
use e2e::{
    ControlGroup,
    containerd::RealRig,
    scrape::{self, find},
    until,
};
use serde_json::{Value, json};

use crate::{
    case::{apply, leaves_nothing, pod},
    resources::{pid_of, unusual},
};

fn server(rig: &RealRig) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, rig.node.port).into()
}

fn summary(rig: &RealRig) -> anyhow::Result<Value> {
    Ok(serde_json::from_str(
        &scrape::get(server(rig), "/stats/summary")?.success()?.body,
    )?)
}

/// What is said of the pod of this name.
fn of_pod(summary: &Value, name: &str) -> anyhow::Result<Value> {
    let pods = summary["pods"].as_array().context("no pods")?;
    pods.iter()
        .find(|pod| pod["podRef"]["name"] == name)
        .cloned()
        .with_context(|| format!("{name} is not in {summary}"))
}

fn number(value: &Value) -> anyhow::Result<u64> {
    value
        .as_u64()
        .with_context(|| format!("{value} is no number"))
}

/// Holds 32 MiB in memory, and has written a file to its own layer, to a volume and to its log.
const HOLDS: &str = "dd if=/dev/zero of=/dev/shm/held bs=1M count=32; dd if=/dev/zero of=/layer bs=1M count=4; \
                     dd if=/dev/zero of=/scratch/file bs=1M count=2; \
                     echo holds; trap 'exit 0' TERM; sleep 2147483647 & wait";

fn pods() -> [Value; 2] {
    let holder = json!({
        "containers": [{
            "command": ["sh", "-c", HOLDS, unusual("holder")],
            "resources": {"limits": {"memory": "256Mi"}},
            "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
            "readinessProbe": {"exec": {"command": ["sh", "-c", "test -f /scratch/file"]}, "periodSeconds": 1},
        }],
        "volumes": [{"name": "scratch", "emptyDir": {}}],
    });
    let busy = json!({"containers": [{
        "command": ["sh", "-c", "trap 'exit 0' TERM; while :; do :; done", unusual("busy")],
        // the machine has other things to do
        "resources": {"limits": {"cpu": "200m"}},
    }]});
    [pod("holder", &holder), pod("busy", &busy)]
}

#[test]
fn what_containers_use_is_told() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    apply(&rig, &pods())?;
    for name in ["holder", "busy"] {
        rig.wait_ready(name)?;
    }
    let group = ControlGroup::of(&pid_of(&unusual("holder"))?)?;
    let told = until("the memory that is held", || {
        let told = of_pod(&summary(&rig)?, "holder")?;
        let (told_bytes, real) = (
            number(&told["containers"][0]["memory"]["workingSetBytes"])?,
            group.working_set()?,
        );
        ensure!(told_bytes > 32 << 20, "{told_bytes}");
        ensure!(
            told_bytes.abs_diff(real) <= real / 10,
            "{told_bytes}, and the kernel says {real}"
        );
        Ok(told)
    })?;
    let memory = &told["containers"][0]["memory"];
    for figure in ["usageBytes", "rssBytes", "pageFaults", "availableBytes"] {
        ensure!(number(&memory[figure])? > 0, "{figure}: {memory}");
    }
    ensure!(
        number(&memory["availableBytes"])? + number(&memory["workingSetBytes"])? == 256 << 20,
        "{memory}"
    );
    until("the files that were written", || {
        let told = of_pod(&summary(&rig)?, "holder")?;
        let container = &told["containers"][0];
        ensure!(
            number(&container["rootfs"]["usedBytes"])? >= 4 << 20,
            "{container}"
        );
        ensure!(
            number(&container["rootfs"]["capacityBytes"])? > 0,
            "{container}"
        );
        ensure!(number(&container["logs"]["usedBytes"])? > 0, "{container}");
        let volumes = told["volume"].as_array().context("no volumes")?;
        let scratch = volumes
            .iter()
            .find(|volume| volume["name"] == "scratch")
            .context("no such volume")?;
        ensure!(number(&scratch["usedBytes"])? >= 2 << 20, "{scratch}");
        ensure!(
            number(&told["ephemeral-storage"]["usedBytes"])? >= 6 << 20,
            "{told}"
        );
        Ok(())
    })?;
    ensure!(
        number(&told["process_stats"]["process_count"])? >= 2,
        "{told}"
    );
    ensure!(
        told["network"]["name"] == "eth0" && told["network"]["rxBytes"].is_u64(),
        "{told}"
    );
    leaves_nothing(&rig)
}

#[test]
fn a_busy_container_uses_more_and_more() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    apply(&rig, &pods())?;
    rig.wait_ready("busy")?;
    let first = of_pod(&summary(&rig)?, "busy")?;
    let used = |told: &Value| number(&told["cpu"]["usageCoreNanoSeconds"]);
    let before = used(&first)?;
    until("half a second of a processor", || {
        let told = of_pod(&summary(&rig)?, "busy")?;
        let (now, cores) = (used(&told)?, number(&told["cpu"]["usageNanoCores"])?);
        ensure!(now > before + 500_000_000, "{before} → {now}");
        // a limit of 200m, measured over a second or so
        ensure!((10_000_000..400_000_000).contains(&cores), "{cores}");
        Ok(())
    })?;
    let idle = of_pod(&summary(&rig)?, "busy")?;
    ensure!(
        number(&idle["containers"][0]["memory"]["workingSetBytes"])? < 32 << 20,
        "{idle}"
    );
    leaves_nothing(&rig)
}

#[test]
fn every_page_is_served_from_real_containers() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    apply(&rig, &pods())?;
    rig.wait_ready("holder")?;
    let page = |path: &str| scrape::get(server(&rig), path)?.samples();
    let main = [
        ("container", "main"),
        ("namespace", "default"),
        ("pod", "holder"),
    ];
    for (path, name, labels) in [
        ("/metrics", "kubelet_running_pods", &[][..]),
        (
            "/metrics",
            "kubelet_pleg_relist_duration_seconds_count",
            &[],
        ),
        (
            "/metrics",
            "kubelet_runtime_operations_total",
            &[("operation_type", "run_podsandbox")],
        ),
        ("/metrics/resource", "node_cpu_usage_seconds_total", &[]),
        (
            "/metrics/resource",
            "container_cpu_usage_seconds_total",
            &main,
        ),
        (
            "/metrics/resource",
            "container_memory_working_set_bytes",
            &main,
        ),
        (
            "/metrics/resource",
            "pod_memory_working_set_bytes",
            &main[1..],
        ),
        ("/metrics/cadvisor", "container_memory_rss", &main),
        (
            "/metrics/probes",
            "prober_probe_total",
            &[("probe_type", "Readiness"), ("result", "successful")],
        ),
    ] {
        let samples = page(path).with_context(|| path.to_owned())?;
        ensure!(find(&samples, name, labels)?.value > 0.0, "{path}: {name}");
    }
    // nobody may have sent the pod anything yet
    find(
        &page("/metrics/cadvisor")?,
        "container_network_receive_bytes_total",
        &main[1..],
    )?;
    let pods: Value = serde_json::from_str(&scrape::get(server(&rig), "/pods")?.success()?.body)?;
    ensure!(
        pods["items"]
            .as_array()
            .is_some_and(|items| items.len() == 2),
        "{pods}"
    );
    ensure!(
        scrape::get(server(&rig), "/healthz")?.success()?.body == "ok",
        "not well"
    );
    leaves_nothing(&rig)
}
