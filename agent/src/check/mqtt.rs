//! Check `mqtt`: the MQTT brokers accept a connection.

use jiff::{SignedDuration, Timestamp};

use super::{
    inputs::Inputs,
    machine::Machine,
    mqtt_client::{Broker, BrokerAddress, connect},
    report::{CheckResult, Finding},
};
use crate::{
    config::{EventBus, MqttMode},
    log::recent::RecentLine,
    status::StatusReport,
    tls::files::client_config,
};

/// The age of a log line that still counts: such lines are at most ten minutes apart.
const RECENT: SignedDuration = SignedDuration::from_mins(11);

pub(crate) async fn check(inputs: &Inputs<'_>) -> Finding {
    if !inputs.is_node() {
        return of_machine(inputs.machine).into();
    }
    let Some(bus) = &inputs.config.event_bus else {
        let why = "modules.eventBus is disabled";
        return CheckResult::NotApplicable(why.into()).into();
    };
    let mut parts = Vec::new();
    if bus.mode != MqttMode::External {
        parts.push(internal(bus, inputs.agent().is_some()).await);
    }
    if bus.mode != MqttMode::Internal {
        parts.push(external(bus).await);
    }
    if let Ok(status) = inputs.agent_status().await {
        parts.extend(rivals(status, clock::now()));
    }
    let none = CheckResult::NotApplicable("no broker is configured".into());
    Finding::combine(parts, none)
}

/// Returns a warning if two clients use one client ID; the agent or its broker has logged it.
fn rivals(status: &StatusReport, now: Timestamp) -> Option<CheckResult> {
    let is_current = |line: &&RecentLine| {
        let time: Result<Timestamp, _> = line.time.parse();
        time.is_ok_and(|time| now.duration_since(time) <= RECENT)
    };
    let mut latest = status.errors.iter().rev().filter(is_current);
    let line = latest.find(|line| {
        let mut is_of_mqtt = ["mqtt::", "agent::eventbus"].iter();
        is_of_mqtt.any(|module| line.target.starts_with(module)) && line.text.contains("client ID")
    })?;
    Some(CheckResult::warning(
        format!(
            "two MQTT clients use one client ID (log at {}): {}",
            line.time, line.text
        ),
        "give each MQTT client its own client ID, and each agent its own modules.edged.hostnameOverride",
    ))
}

/// Describes the broker that a new node will use.
fn of_machine(machine: &Machine) -> CheckResult {
    let port = machine.broker_port;
    match machine.broker {
        Broker::Accepts => CheckResult::Passed(format!("broker found at 127.0.0.1:{port}")),
        Broker::Refuses(code) => CheckResult::Remark(format!(
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

/// Checks the broker in the agent. It may require a user that only mappers have.
async fn internal(bus: &EventBus, has_agent: bool) -> CheckResult {
    let server = bus.internal_server;
    if !has_agent {
        return CheckResult::Remark(format!(
            "the agent's broker at {server} is not running, because the agent is not running"
        ));
    }
    let address = BrokerAddress::plain(&server.to_string());
    let what = match connect(&address).await {
        Broker::Accepts => {
            return CheckResult::Passed(format!("the agent's broker answers at {server}"));
        }
        Broker::Refuses(_) => {
            return CheckResult::Passed(format!(
                "the agent's broker answers at {server}; clients need a password"
            ));
        }
        // without a client certificate, it speaks no MQTT
        Broker::OtherProtocol if bus.internal_tls => {
            return CheckResult::Passed(format!("the agent's broker listens at {server} with TLS"));
        }
        Broker::OtherProtocol => format!("the server at {server} is not an MQTT broker"),
        Broker::None => format!("the agent's broker does not answer at {server}"),
    };
    CheckResult::bad(
        what,
        "the check ports shows who uses the port; the agent's log has the error (journalctl -u edge-agent -g broker)",
    )
}

async fn external(bus: &EventBus) -> CheckResult {
    let server = bus.external_server.to_string();
    let tls = match bus.tls.as_ref().map(client_config).transpose() {
        Ok(tls) => tls,
        Err(error) => {
            return CheckResult::bad(
                error.to_string(),
                "correct the files of modules.eventBus.eventBusTLS",
            );
        }
    };
    let user = bus
        .username
        .clone()
        .map(|name| (name, bus.password.clone()));
    let address = BrokerAddress {
        server: server.clone(),
        tls: tls.map(|tls| (tls, bus.external_server.host.clone())),
        user,
    };
    let (what, cure) = match connect(&address).await {
        Broker::Accepts => {
            return CheckResult::Passed(format!("the broker at {server} accepts this node"));
        }
        Broker::Refuses(code) => (
            format!("the broker at {server} refuses this node (code {code})"),
            "correct modules.eventBus.mqttUsername and mqttPassword",
        ),
        Broker::OtherProtocol => (
            format!("the server at {server} does not answer as an MQTT broker"),
            "correct modules.eventBus.mqttServerExternal and the files of eventBusTLS",
        ),
        Broker::None => (
            format!("no broker answers at {server}: devices and applications cannot use MQTT"),
            "start the broker (systemctl start mosquitto), or set modules.eventBus.mqttMode to 0 for the broker in the agent",
        ),
    };
    CheckResult::warning(what, cure)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;
    use crate::{
        check::tests::node_config,
        config::{HostPort, Secret},
    };

    /// Runs a server that answers one packet with these bytes; returns its port and what it has read.
    async fn server(answer: &'static [u8]) -> (u16, tokio::task::JoinHandle<Vec<u8>>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let read = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut packet = vec![0; 256];
            let length = stream.read(&mut packet).await.unwrap();
            packet.truncate(length);
            stream.write_all(answer).await.unwrap();
            packet
        });
        (port, read)
    }

    #[test]
    fn clients_of_one_id_are_named_while_they_compete() {
        let line = |target: &str, minute: u32, text: &str| RecentLine {
            time: format!("2026-01-31T12:{minute:02}:00Z"),
            level: "WARN".to_owned(),
            target: target.to_owned(),
            text: text.to_owned(),
            count: 1,
        };
        let now = "2026-01-31T12:20:00Z".parse().unwrap();
        let rival = "MQTT client ID used by two clients client=sensor times=3";
        for (line, expected) in [
            (line("mqtt::core::connect", 10, rival), true),
            (line("agent::eventbus::external", 20, rival), true),
            (line("mqtt::core::connect", 8, rival), false),
            (line("mqtt::core::quota", 20, "session evicted"), false),
            (line("agent::edgehub", 20, rival), false),
        ] {
            let status = StatusReport {
                errors: vec![line.clone()],
                ..StatusReport::default()
            };
            let found = rivals(&status, now);
            let is_named = found.is_some_and(|found| found.texts().0.contains("client=sensor"));
            assert_eq!(is_named, expected, "{line:?}");
        }
    }

    #[tokio::test]
    async fn external_broker_is_asked_with_the_credentials_of_the_node() {
        let directory = tempfile::tempdir().unwrap();
        let mut bus = node_config(&directory, "").event_bus.unwrap();
        bus.username = Some("me".into());
        bus.password = Some(Secret::new("secret7"));
        for (answer, expected) in [
            (b"\x20\x02\x00\x00".as_slice(), "accepts this node"),
            (b"\x20\x02\x00\x05", "refuses this node (code 5)"),
            (b"HTTP", "does not answer as an MQTT broker"),
        ] {
            let (port, read) = server(answer).await;
            bus.external_server = HostPort {
                host: "127.0.0.1".into(),
                port,
            };
            let found = external(&bus).await;
            assert!(found.texts().0.contains(expected), "{found:?}");
            let packet = read.await.unwrap();
            let has = |word: &[u8]| packet.windows(word.len()).any(|part| part == word);
            assert!(
                has(b"me") && has(b"secret7") && has(b"edge-agent-check"),
                "{packet:?}"
            );
        }
        bus.external_server.port = {
            let gone = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            gone.local_addr().unwrap().port()
        };
        let found = external(&bus).await;
        assert!(
            found
                .texts()
                .1
                .is_some_and(|cure| cure.contains("mosquitto")),
            "{found:?}"
        );
    }
}
