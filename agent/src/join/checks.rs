//! The checks before a machine becomes a node, each with its cure.
//!
//! Source: `keadm join` (keadm/cmd/keadm/app/cmd/edge/join.go: EdgeCore does not run, the management directory is clean, the node's
//! name is free) and EdgeCore's own start (edge/cmd/edgecore/app/server.go: no kubelet runs). keadm finds the rest out by failing: root,
//! the runtime, ports. Swap is allowed, as EdgeCore's `failSwapOn` is off.

use std::{
    net::{SocketAddr, TcpListener},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use edged::{RuntimeInfo, RuntimeInfoError, low_signals};
use tokio::time::timeout;
use wire::text::with_causes;

use super::{
    machine::{Broker, Machine, STREAM_PORT},
    report::{CheckResult, Report},
};
use crate::{
    app,
    cli::{CheckName, Join},
    config::{Config, Host, MqttMode},
    edgehub::{self, EnrollError, HubCheckError, NodeStatus},
    environment,
};

/// The cgroup controllers without which limits of containers have no effect.
const REQUIRED_CONTROLLERS: [&str; 3] = ["cpu", "memory", "pids"];
/// The most pods that are named if there are too many.
const MAX_NAMED: usize = 5;
/// How long connecting to a port of the cloud may take; a longer silence means that packets are dropped.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The inputs of the checks.
pub(super) struct CheckInputs<'a> {
    /// The options of the command.
    pub(super) join: &'a Join,
    /// The path of the configuration.
    pub(super) path: &'a Path,
    /// The configuration.
    pub(super) config: &'a Config,
    /// The state of the machine.
    pub(super) machine: &'a Machine,
    /// The machine's name and address.
    pub(super) host: &'a Host,
}

/// Runs all checks.
pub(super) async fn run_all(inputs: &CheckInputs<'_>, report: &mut Report<'_>) {
    report.add(CheckName::Root, root(inputs));
    report.add(CheckName::Clean, clean(inputs));
    report.add(CheckName::Processes, conflicting_programs(inputs));
    report.add(CheckName::Runtime, runtime(inputs));
    report.add(CheckName::Cgroups, cgroups(inputs));
    report.add(CheckName::Pressure, pressure(inputs));
    report.add(CheckName::Mqtt, mqtt(inputs.machine));
    report.add(CheckName::Streams, streams(inputs));
    report.add(CheckName::Ports, ports(inputs.config));
    report.add(CheckName::Name, name(inputs));
    let (found, ca) = cloud(inputs).await;
    report.add(CheckName::Cloud, found);
    report.add(CheckName::Hub, hub(inputs, ca.as_deref()).await);
}

fn root(inputs: &CheckInputs<'_>) -> CheckResult {
    if nix::unistd::geteuid().is_root() {
        return CheckResult::Passed("running as root".into());
    }
    if inputs.join.paths.is_system_wide() {
        return CheckResult::bad(
            "not running as root",
            "run the same command with sudo, or choose a directory with --root",
        );
    }
    CheckResult::Remark("not running as root: no memory volumes, no limits for whole pods".into())
}

/// Checks that there are no files of an earlier agent.
pub(super) fn clean(inputs: &CheckInputs<'_>) -> CheckResult {
    let (config, hub) = (inputs.config, &inputs.config.edge_hub);
    let all = [
        inputs.path,
        &hub.tls.cert,
        &hub.tls.key,
        &app::database(config),
    ]
    .map(Path::to_owned);
    let here = |path: &PathBuf| path.exists();
    if !here(&all[0]) && config.database.exists() {
        return CheckResult::bad(
            format!(
                "EdgeCore's database {} exists, and its pods would start",
                config.database.display()
            ),
            "remove EdgeCore with `keadm reset edge`; or run edge-agent with EdgeCore's edgecore.yaml instead of joining, to keep the \
             node",
        );
    }
    let found: Vec<String> = all
        .iter()
        .filter(|path| here(path))
        .map(|path| path.display().to_string())
        .collect();
    if found.is_empty() {
        return CheckResult::Passed("no earlier node on this machine".into());
    }
    let cure = if config.database.exists() {
        "`keadm reset edge` removes EdgeCore's node; to take over from EdgeCore, stop it and run edge-agent without joining"
    } else {
        "`edge-agent reset` removes the earlier node; to keep it, start edge-agent without joining"
    };
    CheckResult::bad(
        format!("this machine is already a node: {}", found.join(", ")),
        cure,
    )
}

/// Checks that no programs with the same task run.
fn conflicting_programs(inputs: &CheckInputs<'_>) -> CheckResult {
    // a second agent on one machine has its own folder
    let mut names = if inputs.join.paths.is_system_wide() {
        vec!["edge-agent", "edgecore"]
    } else {
        Vec::new()
    };
    if !environment::is_check_disabled(|name| std::env::var(name).ok()) {
        names.push(environment::KUBELET);
    }
    let found = environment::processes(Path::new("/proc"), &names);
    if found.is_empty() {
        return CheckResult::Passed("no kubelet and no other edge node is running".into());
    }
    let list: Vec<String> = found
        .iter()
        .map(|(name, pid)| format!("{name} (process {pid})"))
        .collect();
    let cure = match found.first().map(|(name, _)| name.as_str()) {
        Some("kubelet") => {
            "a machine can be a node of one cluster: `kubeadm reset` removes the kubelet; CHECK_EDGECORE_ENVIRONMENT=false allows both"
        }
        Some("edgecore") => {
            "`keadm reset edge` removes EdgeCore; to take over from it, stop it and run edge-agent without joining"
        }
        _ => {
            "`edge-agent reset` removes it; for a second agent, use --root, --name, --read-only-port, --mqtt-port, and \
             --runtime-endpoint with another runtime"
        }
    };
    CheckResult::bad(format!("{} is running", list.join(", ")), cure)
}

pub(super) fn runtime(inputs: &CheckInputs<'_>) -> CheckResult {
    let machine = inputs.machine;
    if inputs.join.runtime_endpoint.is_none() && !inputs.join.paths.is_system_wide() {
        return CheckResult::bad(
            "no container runtime was named; with --root or --config, the machine's runtime is not used",
            "name one that no other agent has, as --runtime-endpoint unix:///PATH; one without containers: `cloudsim runtime --socket PATH`",
        );
    }
    let answering: Vec<_> = machine.answering().collect();
    match answering.as_slice() {
        [(endpoint, found)] if !found.pods.is_empty() && !app::database(inputs.config).exists() => {
            runtime_in_use(endpoint, found)
        }
        [(endpoint, found)] => {
            let mut what = format!("{} {} at {endpoint}", found.name, found.version);
            if machine.is_simulated() {
                what.push_str(", simulated: the memory and disk of this machine evict no pods");
            }
            match &found.network {
                None => CheckResult::Passed(what),
                Some(why) => CheckResult::Remark(format!(
                    "{what}, without a pod network ({why}): only pods with hostNetwork start; install a CNI plugin"
                )),
            }
        }
        [] => no_runtime(machine),
        several => {
            let all: Vec<&str> = several.iter().map(|(endpoint, _)| *endpoint).collect();
            CheckResult::bad(
                format!("several container runtimes found: {}", all.join(", ")),
                format!("choose one, for example --runtime-endpoint {}", all[0]),
            )
        }
    }
}

/// Returns the failure for a runtime with pods of another agent: this one would end them.
fn runtime_in_use(endpoint: &str, found: &RuntimeInfo) -> CheckResult {
    let some: Vec<&str> = found
        .pods
        .iter()
        .take(MAX_NAMED)
        .map(String::as_str)
        .collect();
    let more = found.pods.len() - some.len();
    let more = if more == 0 {
        String::new()
    } else {
        format!(" and {more} more")
    };
    CheckResult::bad(
        format!(
            "the runtime at {endpoint} has pods of another agent or a kubelet, which this agent would stop: {}{more}",
            some.join(", ")
        ),
        "name another runtime with --runtime-endpoint; if these pods are not needed, delete them (`crictl rmp --all --force`), or let \
         the agent do it: --ignore-checks runtime",
    )
}

fn no_runtime(machine: &Machine) -> CheckResult {
    match machine.runtimes.first() {
        None => CheckResult::bad(
            "no container runtime found",
            "install one (Debian: apt-get install containerd) or start it; use --runtime-endpoint for another socket, or for the \
             simulated runtime: `cloudsim runtime --socket PATH`",
        ),
        Some((endpoint, Err(RuntimeInfoError::Unimplemented(said)))) => CheckResult::bad(
            format!("the server at {endpoint} does not support CRI v1 ({said})"),
            "remove \"cri\" from disabled_plugins in /etc/containerd/config.toml (set by Docker's packages), and restart containerd",
        ),
        Some((endpoint, Err(error))) => CheckResult::bad(
            format!("the runtime at {endpoint} does not respond: {error}"),
            "start it (systemctl start containerd), or name another one with --runtime-endpoint",
        ),
        // an answering runtime does not get here
        Some((endpoint, Ok(_))) => CheckResult::Passed(endpoint.clone()),
    }
}

fn cgroups(inputs: &CheckInputs<'_>) -> CheckResult {
    let base = Path::new("/sys/fs/cgroup");
    let unified = std::fs::read_to_string(base.join("cgroup.controllers"));
    let has = |name: &&str| match &unified {
        Ok(all) => all.split_whitespace().any(|one| one == *name),
        Err(_) => base.join(name).is_dir(),
    };
    let missing: Vec<&str> = REQUIRED_CONTROLLERS
        .into_iter()
        .filter(|name| !has(name))
        .collect();
    let driver = match inputs.config.edged.groups.driver {
        edged::CgroupDriver::Systemd => "systemd",
        edged::CgroupDriver::Cgroupfs => "the runtime (cgroupfs)",
    };
    if missing.is_empty() {
        return CheckResult::Passed(format!("created by {driver}"));
    }
    CheckResult::Remark(format!(
        "the kernel has no control groups for {}: limits of containers have no effect; on a Raspberry Pi, add cgroup_enable=memory \
         to /boot/firmware/cmdline.txt and reboot",
        missing.join(", ")
    ))
}

/// Checks that memory, disk and process ids suffice for the node to take pods.
pub(super) fn pressure(inputs: &CheckInputs<'_>) -> CheckResult {
    let edged = &inputs.config.edged;
    let images = inputs
        .machine
        .answering()
        .find_map(|(_, found)| found.images.as_deref());
    let low = low_signals(&edged.eviction, &edged.root_dir, images);
    let Some(first) = low.first() else {
        return CheckResult::Passed(match edged.eviction.thresholds.as_slice() {
            [] => "eviction is disabled".into(),
            _ => "enough memory, disk space and process IDs for pods".into(),
        });
    };
    let what: Vec<String> = low.iter().map(ToString::to_string).collect();
    let cure = format!(
        "{}, or lower evictionHard {} in {} after joining; new pods stay Pending until then",
        first.cure(),
        first.signal(),
        inputs.path.display()
    );
    CheckResult::Warning {
        what: what.join("; "),
        cure,
    }
}

fn mqtt(machine: &Machine) -> CheckResult {
    let port = machine.broker_port;
    match machine.broker {
        Broker::Anonymous => CheckResult::Passed(format!("broker found at 127.0.0.1:{port}")),
        Broker::RequiresPassword(code) => CheckResult::Remark(format!(
            "the broker at 127.0.0.1:{port} refuses anonymous clients (code {code}): set mqttUsername and mqttPassword in the \
             configuration"
        )),
        Broker::None => CheckResult::Remark(format!(
            "no broker found: the agent's internal broker will listen on 127.0.0.1:{port}"
        )),
        Broker::OtherProtocol => CheckResult::Remark(format!(
            "the server on port 1883 is not an MQTT broker: the agent's internal broker will listen on 127.0.0.1:{port}"
        )),
    }
}

fn streams(inputs: &CheckInputs<'_>) -> CheckResult {
    match inputs.machine.tunnel_port {
        Some(port) => CheckResult::Passed(format!(
            "logs, exec and port-forward use {}:{port}",
            inputs.join.cloud.host
        )),
        None => CheckResult::Remark(format!(
            "no stream server at {}:{STREAM_PORT}: logs, exec and port-forward will not work; if the cloud's stream server has another \
             port, use --tunnel-port",
            inputs.join.cloud.host
        )),
    }
}

/// Checks the ports that the agent will listen on, each with its setting and the option that changes it.
pub(super) fn ports(config: &Config) -> CheckResult {
    let mut all: Vec<(SocketAddr, &str)> = Vec::new();
    if config.edged.server.port() != 0 {
        all.push((config.edged.server, "--read-only-port"));
    }
    if let Some(bus) = &config.event_bus
        && bus.mode != MqttMode::External
    {
        all.push((bus.internal_server, "--mqtt-port"));
    }
    for (address, option) in &all {
        if let Err(error) = TcpListener::bind(address) {
            return CheckResult::bad(
                format!("cannot listen on {address}: {error}"),
                format!(
                    "`ss -ltnp` lists the program that does; stop it, or choose another port with {option}"
                ),
            );
        }
    }
    if let Some(devices) = &config.device_twin {
        let socket = devices.dmi_socket_dir.join("dmi.sock");
        if UnixStream::connect(&socket).is_ok() {
            return CheckResult::bad(
                format!(
                    "another agent uses the socket for mappers, {}",
                    socket.display()
                ),
                "stop it, or choose another directory for this one with --root",
            );
        }
    }
    let all: Vec<String> = all.iter().map(|(address, _)| address.to_string()).collect();
    CheckResult::Passed(if all.is_empty() {
        "none needed".into()
    } else {
        format!("{} free", all.join(", "))
    })
}

fn name(inputs: &CheckInputs<'_>) -> CheckResult {
    let name = &inputs.config.node.name;
    if inputs.join.name.is_none() && inputs.host.has_fallback_name() {
        return CheckResult::bad(
            "this machine's host name is not a valid node name",
            "set one with --name: lower-case letters, digits, dashes and dots",
        );
    }
    CheckResult::Passed(name.clone())
}

/// Checks the cloud's HTTPS server, the token and the name. Also returns the cloud's CA, if the server has proved it.
async fn cloud(inputs: &CheckInputs<'_>) -> (CheckResult, Option<Vec<u8>>) {
    if inputs.token().is_none() {
        let cure = "use the one that `cloudsim token` or `keadm gettoken` prints";
        return (CheckResult::bad("no token", cure), None);
    }
    let config = match app::hub_config(inputs.config) {
        Ok(config) => config,
        Err(error) => {
            let cure = "correct HTTPS_PROXY in the environment";
            return (CheckResult::bad(error.to_string(), cure), None);
        }
    };
    let (known, ca) = match edgehub::probe(&config).await {
        Ok(found) => found,
        Err(error) => return (refusal(&error), None),
    };
    let name = &config.node_name;
    let conflict = name_conflict(name, known, inputs.join.rejoin);
    let found = conflict.unwrap_or_else(|| name_is_free(name, known));
    (found, Some(ca))
}

/// Checks CloudHub's WebSocket port. Without the CA, because the HTTPS server was not reached, only that something listens.
pub(super) async fn hub(inputs: &CheckInputs<'_>, ca: Option<&[u8]>) -> CheckResult {
    let server = &inputs.join.cloud;
    let config = match app::hub_config(inputs.config) {
        Ok(config) => config,
        Err(error) => {
            return CheckResult::bad(error.to_string(), "correct HTTPS_PROXY in the environment");
        }
    };
    let asked = async {
        match ca {
            Some(ca) => edgehub::check_hub(&config, ca).await,
            None => match edgehub::connect_tcp(server, &config.proxy).await {
                Ok(_) => Ok(()),
                Err(error) => Err(HubCheckError::Unreachable(server.clone(), error)),
            },
        }
    };
    let port = server.port;
    let failed = match timeout(CONNECT_TIMEOUT, asked).await {
        Ok(Ok(())) if ca.is_some() => {
            return CheckResult::Passed(format!("CloudHub answers at {server}"));
        }
        Ok(Ok(())) => return CheckResult::Remark(format!("a server listens at {server}")),
        Ok(Err(error @ (HubCheckError::OtherService(..) | HubCheckError::OtherServer(..)))) => {
            return CheckResult::bad(
                error.to_string(),
                "use the port of CloudHub's WebSocket server, for example --cloud HOST:10000",
            );
        }
        Ok(Err(HubCheckError::Unreachable(_, error))) => error.to_string(),
        Err(_) => format!("no answer within {} s", CONNECT_TIMEOUT.as_secs()),
    };
    CheckResult::bad(
        format!("CloudHub is not reached at {server}: {failed}"),
        format!(
            "open TCP port {port} of the cloud in firewalls; if CloudHub has another port (cloudsim up --ws-port), give it as \
             --cloud {}:PORT",
            server.host
        ),
    )
}

/// Returns the failure for a name that is in use, unless taking it over was requested and the cloud gives it.
pub(super) fn name_conflict(name: &str, known: NodeStatus, rejoin: bool) -> Option<CheckResult> {
    let exists = format!("the cloud already has a node {name}");
    let (what, cure) = match known {
        NodeStatus::Unknown => return None,
        NodeStatus::Exists | NodeStatus::Free if rejoin => return None,
        NodeStatus::Exists | NodeStatus::Free => (
            exists,
            "choose another name with --name; or, if this machine was that node, run the same command with --rejoin".to_owned(),
        ),
        NodeStatus::Taken => (
            format!("{exists}, and does not release its name"),
            format!(
                "choose another name with --name; or, if this machine was that node: ask an administrator to run `cloudsim node reset \
                 {name}`, then run the same command with --rejoin; after `kubectl delete node {name}`, neither is needed"
            ),
        ),
        NodeStatus::Connected => (
            format!("{exists}, and its agent is connected now"),
            format!(
                "choose another name with --name; or remove that agent first (`edge-agent reset` on its machine), ask an administrator \
                 to run `cloudsim node reset {name}`, and use --rejoin"
            ),
        ),
    };
    Some(CheckResult::bad(what, cure))
}

/// Returns the success, which says what becomes of the name.
pub(super) fn name_is_free(name: &str, known: NodeStatus) -> CheckResult {
    CheckResult::Passed(match known {
        NodeStatus::Unknown => "token matches; the name is free".to_owned(),
        _ => format!("token matches; this machine takes over the name of node {name}"),
    })
}

fn refusal(error: &EnrollError) -> CheckResult {
    let cure = match error {
        EnrollError::Unreachable { .. } => {
            "check that the cloud runs and is reachable from other machines (cloudsim up --address 0.0.0.0), that firewalls allow its \
             HTTPS port, and that --cert-port is this port"
        }
        EnrollError::WrongCloud { .. } | EnrollError::Token(_) => {
            "get the token of this cloud: `cloudsim token` or `keadm gettoken`"
        }
        EnrollError::OtherName { .. } => {
            "use one of these names in --cloud, or start the cloud with this name (--name)"
        }
        EnrollError::WrongTime { .. } | EnrollError::Certificate { .. } => {
            "compare `date` on both machines"
        }
        _ => "check the cloud's log",
    };
    CheckResult::bad(with_causes(error), cure)
}
