//! Starts ServiceBus, and collects the ports of this machine that it must never call for the cloud.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

use componentbase::Supervisor;
use kube::Client;
use objectstore::Store;
use tokio_util::sync::CancellationToken;

use super::dropped_messages::DroppedMessages;
use crate::{
    config::{Config, MqttMode},
    edgehub::EdgeHub,
    eventbus::Bus,
    metamanager::{BoundAddress, RouterMessages},
    servicebus::{self, Ports, ServiceBus},
};

/// The store, the connection, the messages and the client that ServiceBus needs, and TaskManager.
pub(super) struct Deps {
    pub(super) store: Arc<dyn Store>,
    pub(super) hub: EdgeHub,
    pub(super) messages: RouterMessages,
    pub(super) client: Client,
}

/// Starts ServiceBus, if enabled, and the events about dropped messages.
pub(super) fn start(
    config: &Config,
    deps: Deps,
    bus: &Bus,
    meta_server: Option<&BoundAddress>,
    supervisor: &mut Supervisor,
    shutdown: &CancellationToken,
) -> Option<ServiceBus> {
    let Deps {
        store,
        hub,
        messages,
        client,
    } = deps;
    if config.event_bus.is_some() {
        let lost = DroppedMessages::new(client, config.node.name.clone(), bus.clone());
        supervisor.supervise_optional("lost-messages", lost, shutdown);
    }
    let Some(wanted) = &config.service_bus else {
        return None;
    };
    let mut ports = Ports::new(wanted.allowed_ports.clone(), own_ports(config));
    for listening in bus
        .internal_listening()
        .into_iter()
        .chain(meta_server.cloned())
    {
        ports = ports.excluding(listening);
    }
    let (services, task) = servicebus::new(servicebus::Config {
        address: wanted.server,
        tls: wanted.tls.clone(),
        timeout: wanted.timeout,
        call_timeout: wanted.call_timeout,
        ports,
        store,
        hub,
        messages,
    });
    supervisor.supervise_optional("servicebus", task, shutdown);
    Some(services)
}

/// Returns the ports at which this agent listens, and that of an external MQTT broker on this machine.
fn own_ports(config: &Config) -> BTreeSet<u16> {
    let mut ports = BTreeSet::from([config.edged.server.port()]);
    ports.extend(config.service_bus.as_ref().map(|bus| bus.server.port()));
    let server = config.meta_manager.meta_server.iter();
    ports.extend(server.flat_map(|server| [server.server.port(), server.dummy_server.port()]));
    if let Some(bus) = &config.event_bus {
        if bus.mode != MqttMode::External {
            ports.insert(bus.internal_server.port());
        }
        let beside = &bus.external_server;
        let is_here = beside.host == "localhost"
            || beside
                .host
                .parse::<IpAddr>()
                .is_ok_and(|address| address.is_loopback());
        if bus.mode != MqttMode::Internal && is_here {
            ports.insert(beside.port);
        }
    }
    ports
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{Host, parse};

    #[test]
    fn the_agents_own_ports() {
        let host = Host {
            name: "edge-1".into(),
            address: [10, 0, 0, 1].into(),
        };
        let of = |text: &str| {
            let (config, _) = parse(Path::new("edgecore.yaml"), text, None, &host).unwrap();
            own_ports(&config)
        };
        assert_eq!(of("kind: EdgeCore"), BTreeSet::from([1883, 10350]));
        let text = "modules:\n  eventBus: {mqttMode: 0, mqttServerInternal: 'tcp://127.0.0.1:2884'}\n  serviceBus: {enable: true, port: 9061}\n  \
                    metaManager: {metaServer: {enable: true}}\n";
        assert_eq!(of(text), BTreeSet::from([2884, 9061, 10350, 10550]));
        let text = "modules: {eventBus: {mqttServerExternal: 'tcp://broker.example:1883'}}";
        assert_eq!(of(text), BTreeSet::from([10350]));
    }
}
