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
    CheckResult::Remark(
        "not running as root: no volumes in memory and no limits for whole pods".into(),
    )
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
                "EdgeCore's database {} is here, and its pods would start",
                config.database.display()
            ),
            "remove EdgeCore with `keadm reset edge`; or keep its node, and run edge-agent with EdgeCore's edgecore.yaml instead of joining",
        );
    }
    let found: Vec<String> = all
        .iter()
        .filter(|path| here(path))
        .map(|path| path.display().to_string())
        .collect();
    if found.is_empty() {
        return CheckResult::Passed("no agent was here before".into());
    }
    let cure = if config.database.exists() {
        "`keadm reset edge` undoes EdgeCore's join; to take over from EdgeCore, stop it and run edge-agent without joining"
    } else {
        "`edge-agent reset` undoes an earlier join; to continue it, start edge-agent without joining"
    };
    CheckResult::bad(
        format!("this machine is a node already: {}", found.join(", ")),
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
        return CheckResult::Passed("neither a kubelet nor another edge node runs here".into());
    }
    let list: Vec<String> = found
        .iter()
        .map(|(name, pid)| format!("{name} (process {pid})"))
        .collect();
    let cure = match found.first().map(|(name, _)| name.as_str()) {
        Some("kubelet") => {
            "a machine is a node of one cluster: `kubeadm reset` ends the kubelet; CHECK_EDGECORE_ENVIRONMENT=false lets both run"
        }
        Some("edgecore") => {
            "`keadm reset edge` ends EdgeCore; to take over from it, stop it and run edge-agent without joining"
        }
        _ => {
            "`edge-agent reset` ends it; for a second one beside it, give --root, --name, --read-only-port, --mqtt-port and, as --runtime-endpoint, a \
             runtime of its own"
        }
    };
    CheckResult::bad(format!("{} runs here", list.join(", ")), cure)
}

pub(super) fn runtime(inputs: &CheckInputs<'_>) -> CheckResult {
    let machine = inputs.machine;
    if inputs.join.runtime_endpoint.is_none() && !inputs.join.paths.is_system_wide() {
        return CheckResult::bad(
            "no runtime was named, and with --root or --config none is looked for: the machine's own is for the machine's own agent",
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
                    "{what}, without a network for pods ({why}): only pods with hostNetwork start; install a CNI plugin"
                )),
            }
        }
        [] => no_runtime(machine),
        several => {
            let all: Vec<&str> = several.iter().map(|(endpoint, _)| *endpoint).collect();
            CheckResult::bad(
                format!("several runtimes answer: {}", all.join(", ")),
                format!("choose one, as --runtime-endpoint {}", all[0]),
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
            "the runtime at {endpoint} has pods of another agent or a kubelet, which this agent would end: {}{more}",
            some.join(", ")
        ),
        "name a runtime of its own with --runtime-endpoint; if these pods are not needed, delete them (`crictl rmp --all --force`), or let the agent do it: --ignore-checks runtime",
    )
}

fn no_runtime(machine: &Machine) -> CheckResult {
    match machine.runtimes.first() {
        None => CheckResult::bad(
            "no container runtime was found",
            "install one (Debian: apt-get install containerd) or start it; one that is elsewhere is named with \
             --runtime-endpoint, as is one without containers: `cloudsim runtime --socket PATH`",
        ),
        Some((endpoint, Err(RuntimeInfoError::Unimplemented(said)))) => CheckResult::bad(
            format!("the server at {endpoint} does not support CRI v1 ({said})"),
            "take \"cri\" out of disabled_plugins in /etc/containerd/config.toml, where Docker's packages put it, and restart containerd",
        ),
        Some((endpoint, Err(error))) => CheckResult::bad(
            format!("the runtime at {endpoint} does not answer: {error}"),
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
        return CheckResult::Passed(format!("made by {driver}"));
    }
    CheckResult::Remark(format!(
        "the kernel has no control groups for {}: limits of containers do nothing; on a Raspberry Pi add cgroup_enable=memory \
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
            _ => "enough memory, disk space and process ids for pods".into(),
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
        Broker::Anonymous => CheckResult::Passed(format!("a broker answers at 127.0.0.1:{port}")),
        Broker::RequiresPassword(code) => CheckResult::Remark(format!(
            "the broker at 127.0.0.1:{port} refuses clients without a name (code {code}): put mqttUsername and mqttPassword into the \
             configuration"
        )),
        Broker::None => CheckResult::Remark(format!(
            "no broker was found: the agent's own listens on 127.0.0.1:{port}"
        )),
        Broker::OtherProtocol => CheckResult::Remark(format!(
            "the server on port 1883 is not an MQTT broker; the agent's own listens on 127.0.0.1:{port}"
        )),
    }
}

fn streams(inputs: &CheckInputs<'_>) -> CheckResult {
    match inputs.machine.tunnel_port {
        Some(port) => CheckResult::Passed(format!(
            "logs, exec and port-forward go over {}:{port}",
            inputs.join.cloud.host
        )),
        None => CheckResult::Remark(format!(
            "nothing listens at {}:{STREAM_PORT}: there will be no logs, exec and port-forward of this node; where the cloud's stream server has \
             another port, name it with --tunnel-port",
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
                format!("{address} cannot be listened on: {error}"),
                format!(
                    "`ss -ltnp` shows who does; end that program, or choose another port with {option}"
                ),
            );
        }
    }
    if let Some(devices) = &config.device_twin {
        let socket = devices.dmi_socket_dir.join("dmi.sock");
        if UnixStream::connect(&socket).is_ok() {
            return CheckResult::bad(
                format!("another agent serves mappers at {}", socket.display()),
                "end it, or give this one a place of its own with --root",
            );
        }
    }
    let all: Vec<String> = all.iter().map(|(address, _)| address.to_string()).collect();
    CheckResult::Passed(if all.is_empty() {
        "none is needed".into()
    } else {
        format!("{} free", all.join(", "))
    })
}

fn name(inputs: &CheckInputs<'_>) -> CheckResult {
    let name = &inputs.config.node.name;
    if inputs.join.name.is_none() && inputs.host.has_fallback_name() {
        return CheckResult::bad(
            "this machine's own name cannot be a node's",
            "give one with --name: small letters, digits, dashes and dots",
        );
    }
    CheckResult::Passed(name.clone())
}

/// Checks the cloud's HTTPS server, the token and the name. Also returns the cloud's CA, if the server has proved it.
async fn cloud(inputs: &CheckInputs<'_>) -> (CheckResult, Option<Vec<u8>>) {
    if inputs.token().is_none() {
        let cure = "give the one that `cloudsim token` or `keadm gettoken` prints";
        return (CheckResult::bad("there is no token", cure), None);
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
                "give the port of CloudHub's WebSocket server, as --cloud HOST:10000",
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
    let exists = format!("the cloud has a node {name} already");
    let (what, cure) = match known {
        NodeStatus::Unknown => return None,
        NodeStatus::Exists | NodeStatus::Free if rejoin => return None,
        NodeStatus::Exists | NodeStatus::Free => (
            exists,
            "choose another name with --name; or, if this machine was that node, run the same line with --rejoin".to_owned(),
        ),
        NodeStatus::Taken => (
            format!("{exists}, and does not release its name"),
            format!(
                "choose another name with --name; or, if this machine was that node: let an administrator free the name (`cloudsim node \
                 reset {name}`), then run the same line with --rejoin; or `kubectl delete node {name}` first, which needs neither"
            ),
        ),
        NodeStatus::Connected => (
            format!("{exists}, and its agent is connected NOW"),
            format!(
                "choose another name with --name; or end that agent first (`edge-agent reset` on its machine) and let an administrator free \
                 the name (`cloudsim node reset {name}`); then --rejoin"
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
            "check that the cloud runs and listens to other machines (cloudsim up --address 0.0.0.0), that firewalls let its HTTPS \
             port through, and that --cert-port is that port"
        }
        EnrollError::WrongCloud { .. } | EnrollError::Token(_) => {
            "get the token of this cloud: `cloudsim token` or `keadm gettoken`"
        }
        EnrollError::OtherName { .. } => {
            "give --cloud by one of these names, or start the cloud with this one"
        }
        EnrollError::WrongTime { .. } | EnrollError::Certificate { .. } => {
            "compare `date` on both machines"
        }
        _ => "see the cloud's log",
    };
    CheckResult::bad(with_causes(error), cure)
}
