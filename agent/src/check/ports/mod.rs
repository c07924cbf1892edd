//! Check `ports`: the ports and the socket that the agent listens on.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    os::unix::net::UnixStream,
    path::Path,
};

use objectstore::LockHolder;

use self::listeners::{PortUse, listeners};
use super::{
    inputs::Inputs,
    report::{CheckResult, Finding},
};
use crate::config::{Config, MqttMode};

mod listeners;

pub(crate) fn check(inputs: &Inputs<'_>) -> Finding {
    match inputs.agent() {
        Some(holder) if inputs.is_node() => of_agent(inputs.config, holder, Path::new("/proc")),
        _ => are_free(inputs.config, inputs.is_node()).into(),
    }
}

/// A port that the agent listens on.
struct Port {
    address: SocketAddr,
    /// The option of `edge-agent join` that changes it.
    option: &'static str,
    /// The setting that changes it.
    setting: &'static str,
}

fn ports(config: &Config) -> Vec<Port> {
    let mut all = Vec::new();
    if config.edged.enable && config.edged.server.port() != 0 {
        all.push(Port {
            address: config.edged.server,
            option: "--read-only-port",
            setting: "modules.edged.tailoredKubeletConfig.readOnlyPort",
        });
    }
    if let Some(bus) = &config.event_bus
        && bus.mode != MqttMode::External
    {
        all.push(Port {
            address: bus.internal_server,
            option: "--mqtt-port",
            setting: "modules.eventBus.mqttServerInternal",
        });
    }
    all
}

/// Checks the ports that the agent will listen on, each with its setting or the option that changes it.
pub(crate) fn are_free(config: &Config, is_node: bool) -> CheckResult {
    let all = ports(config);
    let busy = busy(&all);
    if !busy.is_empty() {
        let (what, cure) = describe(&busy, is_node);
        return CheckResult::bad(what, cure);
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
    let all: Vec<String> = all.iter().map(|port| port.address.to_string()).collect();
    CheckResult::Passed(if all.is_empty() {
        "none needed".into()
    } else {
        format!("{} free", all.join(", "))
    })
}

/// Returns the ports on which the agent cannot listen.
fn busy(all: &[Port]) -> Vec<(&Port, io::Error)> {
    all.iter()
        .filter_map(|port| Some((port, TcpListener::bind(port.address).err()?)))
        .collect()
}

/// Describes ports on which the agent cannot listen, and the remedy.
fn describe(busy: &[(&Port, io::Error)], is_node: bool) -> (String, String) {
    let what: Vec<String> = busy
        .iter()
        .map(|(port, error)| format!("{}: {error}", port.address))
        .collect();
    let change = |port: &Port| if is_node { port.setting } else { port.option };
    let changes: Vec<&str> = busy.iter().map(|(port, _)| change(port)).collect();
    (
        format!("cannot listen on {}", what.join(", nor on ")),
        format!(
            "stop the programs that use these ports (`ss -ltnp` lists them), or choose other ports with {}",
            changes.join(" and ")
        ),
    )
}

/// Returns the error of a start if several ports are in use, so that all are reported at once. The module of a single one reports it.
pub(crate) fn several_busy(config: &Config) -> Option<String> {
    let all = ports(config);
    let busy = busy(&all);
    let (what, cure) = describe(&busy, true);
    (busy.len() > 1).then(|| format!("{what}; {cure}"))
}

/// Checks that the running agent listens on its ports.
fn of_agent(config: &Config, holder: LockHolder, proc: &Path) -> Finding {
    let parts = ports(config)
        .iter()
        .map(|port| judge(port, holder, listeners(proc, port.address)))
        .collect();
    Finding::combine(parts, CheckResult::Passed("none needed".into()))
}

fn judge(port: &Port, holder: LockHolder, found: io::Result<PortUse>) -> CheckResult {
    let (address, setting) = (port.address, port.setting);
    match found {
        Err(error) => CheckResult::Remark(format!("cannot read who listens on {address}: {error}")),
        Ok(PortUse::Free) => CheckResult::bad(
            format!("the agent does not listen on {address} ({setting})"),
            "restart the agent (systemctl restart edge-agent); its log has the error",
        ),
        Ok(PortUse::By(found)) if found.is_empty() => CheckResult::Remark(format!(
            "a server listens on {address}; only root sees which one"
        )),
        Ok(PortUse::By(found)) => {
            let own = |process: u32| holder.process.is_none_or(|own| own == process);
            if found.iter().any(|one| own(one.process)) {
                return CheckResult::Passed(format!("the agent listens on {address}"));
            }
            let names: Vec<String> = found
                .iter()
                .map(|one| format!("{} (process {})", one.name, one.process))
                .collect();
            CheckResult::bad(
                format!("{} listens on {address}, not the agent", names.join(", ")),
                format!("stop it, or choose another port in {setting}; then restart the agent"),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::check::tests::node_config;

    #[test]
    fn port_of_a_running_agent_must_be_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let mut config = node_config(&directory, "");
        config.event_bus = None;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        config.edged.server = listener.local_addr().unwrap();
        let check = |config: &Config, process: u32| {
            let holder = LockHolder {
                process: Some(process),
            };
            of_agent(config, holder, Path::new("/proc")).result
        };
        let own = std::process::id();
        assert!(matches!(check(&config, own), CheckResult::Passed(_)));
        let other = check(&config, own + 1);
        let part = format!("(process {own}) listens on");
        assert!(other.texts().0.contains(&part), "{other:?}");
        drop(listener);
        let closed = check(&config, own);
        assert!(closed.texts().0.contains("does not listen"), "{closed:?}");
    }
}
