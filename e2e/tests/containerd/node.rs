//! What the node says of itself, beside what the machine and the runtime say.

use std::{fs, process::Command};

use anyhow::{Context, ensure};
use e2e::{NODE, containerd::RealRig, run, until};
use serde_json::{Value, json};

/// The conditions of a node that is well, with the kubelet's reasons and words, and EdgeCore's of `Ready`.
const WELL: [(&str, &str, &str, &str); 4] = [
    (
        "MemoryPressure",
        "False",
        "KubeletHasSufficientMemory",
        "kubelet has sufficient memory available",
    ),
    (
        "DiskPressure",
        "False",
        "KubeletHasNoDiskPressure",
        "kubelet has no disk pressure",
    ),
    (
        "PIDPressure",
        "False",
        "KubeletHasSufficientPID",
        "kubelet has sufficient PID available",
    ),
    ("Ready", "True", "EdgeReady", "edge is posting ready status"),
];

fn node(rig: &RealRig) -> anyhow::Result<Value> {
    rig.cloud.node()?.context("the node is not there")
}

/// The first line of a file below `/proc` or the like.
fn line(path: &str) -> anyhow::Result<String> {
    Ok(fs::read_to_string(path)?
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned())
}

/// The value of a line `key…value` of a file.
fn value(path: &str, key: &str) -> anyhow::Result<String> {
    let text = fs::read_to_string(path)?;
    let found = text.lines().find_map(|line| line.strip_prefix(key));
    Ok(found
        .with_context(|| format!("{path} has no {key}"))?
        .trim_matches(['"', ' '])
        .to_owned())
}

#[test]
fn a_node_says_what_the_machine_and_the_runtime_are() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    let node = node(&rig)?;
    let status = &node["status"];
    for (kind, is, reason, message) in WELL {
        let all = status["conditions"].as_array().context("no conditions")?;
        let one = all
            .iter()
            .find(|one| one["type"] == kind)
            .with_context(|| format!("no {kind}"))?;
        ensure!(
            one["status"] == is && one["reason"] == reason && one["message"] == message,
            "{one}"
        );
        ensure!(
            one["lastHeartbeatTime"].is_string() && one["lastTransitionTime"].is_string(),
            "{one}"
        );
    }
    let addresses = json!([{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": NODE}]);
    ensure!(status["addresses"] == addresses, "{}", status["addresses"]);
    let info = &status["nodeInfo"];
    let runtime = run(Command::new("containerd").arg("--version"))?
        .success()?
        .text();
    let runtime = runtime
        .split_whitespace()
        .nth(2)
        .context("containerd has no version")?;
    // as Go names it
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    for (field, expected) in [
        ("containerRuntimeVersion", format!("containerd://{runtime}")),
        ("kernelVersion", line("/proc/sys/kernel/osrelease")?),
        ("bootID", line("/proc/sys/kernel/random/boot_id")?),
        ("osImage", value("/etc/os-release", "PRETTY_NAME=")?),
        ("operatingSystem", "linux".into()),
        ("architecture", architecture.to_owned()),
    ] {
        ensure!(info[field] == expected, "{field}: {info}, not {expected:?}");
    }
    let version = info["kubeletVersion"].as_str().unwrap_or_default();
    ensure!(
        version.starts_with("v1.") && version.contains("-kubeedge-"),
        "{version}"
    );
    ensure!(
        status["images"].is_null(),
        "images that nobody asked for: {}",
        status["images"]
    );
    let labels = &node["metadata"]["labels"];
    for (label, expected) in [("hostname", NODE), ("os", "linux"), ("arch", architecture)] {
        ensure!(
            labels[format!("kubernetes.io/{label}")] == expected,
            "{labels}"
        );
    }
    Ok(())
}

/// The suffixes of KiB and more, and how much of one the next one is.
const BINARY: (u64, [&str; 4]) = (1024, ["Ki", "Mi", "Gi", "Ti"]);
/// The same of single bytes.
const DECIMAL: (u64, [&str; 4]) = (1000, ["", "k", "M", "G"]);

/// An amount as the API answers it: with the largest suffix that leaves a whole number.
fn amount(mut count: u64, (next, suffixes): &(u64, [&str; 4])) -> String {
    let mut suffixes = suffixes.iter();
    let mut suffix = suffixes.next().copied().unwrap_or_default();
    while let (0, Some(larger)) = (count % next, suffixes.next()) {
        (count, suffix) = (count / next, *larger);
    }
    format!("{count}{suffix}")
}

#[test]
fn pods_have_what_the_machine_has_less_what_is_reserved() -> anyhow::Result<()> {
    let mut rig = RealRig::start()?;
    let disk = nix::sys::statvfs::statvfs(&rig.node.pods)?;
    let memory: u64 = value("/proc/meminfo", "MemTotal:")?
        .trim_end_matches("kB")
        .trim()
        .parse()
        .context("MemTotal")?;
    let cores: u64 = run(&mut Command::new("nproc"))?
        .success()?
        .text()
        .trim()
        .parse()?;
    let storage = disk.blocks() * disk.fragment_size();
    let status = node(&rig)?["status"].clone();
    let capacity = json!({"cpu": cores.to_string(), "memory": amount(memory, &BINARY), "pods": "110",
        "ephemeral-storage": amount(storage / 1024, &BINARY)});
    let has = |of: &Value, amounts: &Value| {
        let amounts = amounts.as_object().into_iter().flatten();
        let wrong: Vec<_> = amounts
            .filter(|(name, amount)| of[name.as_str()] != **amount)
            .collect();
        if wrong.is_empty() {
            Ok(())
        } else {
            Err(format!("{of} is not {wrong:?}"))
        }
    };
    has(&status["capacity"], &capacity).map_err(anyhow::Error::msg)?;
    rig.restart_with(&[
        (
            "kubeReserved",
            "{cpu: 300m, memory: 64Mi, ephemeral-storage: 1Mi}",
        ),
        ("systemReserved", "{cpu: 200m, memory: 32Mi}"),
        ("nodeStatusMaxImages", "-1"),
        ("nodeStatusUpdateFrequency", "1s"),
        ("nodeLeaseDurationSeconds", "4"),
    ])?;
    let allocatable = json!({"cpu": format!("{}m", cores * 1000 - 500), "pods": "110",
        "memory": amount(memory - (96 << 10), &BINARY), "ephemeral-storage": amount(storage - (1 << 20), &DECIMAL)});
    until("what is left for pods", || {
        let status = node(&rig).map_err(|error| error.to_string())?["status"].clone();
        has(&status["capacity"], &capacity)?;
        has(&status["allocatable"], &allocatable)
    })?;
    images(&rig)?;
    lease(&rig)
}

/// The node names all images of the runtime, the new one, too.
fn images(rig: &RealRig) -> anyhow::Result<()> {
    rig.containerd.add_image("docker.io/e2e/late:1")?;
    until("all images in the node's status", || {
        let mut named: Vec<String> = Vec::new();
        for image in node(rig)?["status"]["images"]
            .as_array()
            .context("no images")?
        {
            ensure!(image["sizeBytes"].as_u64() > Some(0), "{image}");
            let names = image["names"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str);
            named.extend(names.filter(|name| !name.contains('@')).map(str::to_owned));
        }
        named.sort();
        let there: Vec<String> = rig.containerd.images()?.into_keys().collect();
        ensure!(named == there, "named {named:?}, there {there:?}");
        Ok(())
    })
}

/// The lease is renewed, by whom it is of, four times in its duration.
fn lease(rig: &RealRig) -> anyhow::Result<()> {
    let get = || {
        rig.cloud
            .kubectl
            .json(&["get", "lease", NODE, "-n", "kube-node-lease"])
    };
    let first = get()?;
    let spec = &first["spec"];
    ensure!(
        spec["holderIdentity"] == NODE && spec["leaseDurationSeconds"] == 4,
        "{first}"
    );
    let owner = &first["metadata"]["ownerReferences"][0];
    ensure!(
        owner["kind"] == "Node" && owner["uid"] == node(rig)?["metadata"]["uid"],
        "{first}"
    );
    let renewed = |lease: &Value| {
        lease["spec"]["renewTime"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let mut last = renewed(&first);
    ensure!(!last.is_empty(), "{first}");
    for _ in 0..2 {
        let next = until("a renewed lease", || {
            let next = renewed(&get()?);
            ensure!(next > last, "{next} is not after {last}");
            Ok(next)
        })?;
        last = next;
    }
    Ok(())
}
