//! Finds out which container listens at an address, for probes and hooks.

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ContainerPort;
use wire::cri::NamespaceMode;

use super::{
    super::behaviour::{Behaviour, Ports},
    Container, Nanos, Refusal, RuntimeState, Sandbox,
    container::Phase,
};

/// The annotation in which kubelets pass a container's ports to the runtime.
const PORTS: &str = "io.kubernetes.container.ports";

/// What is found at an address and port.
#[derive(Debug)]
pub(crate) enum Found {
    /// A container listens: what it does, and how long it has run.
    Server(Arc<Behaviour>, Duration),
    /// Nothing listens there.
    Refused,
    /// The address belongs to no pod. If it is this machine's and nothing real listens there, this server of a pod on the host's network
    /// does.
    Elsewhere(Option<(Arc<Behaviour>, Duration)>),
}

impl RuntimeState {
    /// Finds who listens at a host and port. Ports of pods on the host's network are found at every address that is no pod's.
    pub(crate) fn listener(&self, host: &str, port: u16, now: Nanos) -> Found {
        let address = host.parse::<Ipv4Addr>().ok();
        let is_pods = address.is_some_and(|address| self.addresses.is_pods(address));
        let mut sandboxes = self.sandboxes.values().filter(|sandbox| sandbox.ready);
        if is_pods {
            let sandbox = sandboxes.find(|sandbox| sandbox.ip == address);
            return sandbox
                .and_then(|sandbox| self.server(sandbox, port, now))
                .unwrap_or(Found::Refused);
        }
        let on_host = |sandbox: &&Sandbox| sandbox.namespaces().network() == NamespaceMode::Node;
        let on_host: Vec<_> = sandboxes.filter(on_host).collect();
        let declaring = on_host.iter().find(|sandbox| self.declares(sandbox, port));
        if let Some(sandbox) = declaring {
            return self.server(sandbox, port, now).unwrap_or(Found::Refused);
        }
        Found::Elsewhere(
            on_host
                .iter()
                .find_map(|sandbox| match self.server(sandbox, port, now) {
                    Some(Found::Server(behaviour, age)) => Some((behaviour, age)),
                    _ => None,
                }),
        )
    }

    /// Reports whether a container of the sandbox declares the port.
    fn declares(&self, sandbox: &Sandbox, port: u16) -> bool {
        let mut containers = sandbox
            .containers
            .iter()
            .filter_map(|id| self.containers.get(id));
        containers.any(|one| {
            self.behaviour_of(one)
                .is_ok_and(|behaviour| declared_ports(one, &behaviour).contains(&port))
        })
    }

    /// Finds who listens at a port of a sandbox, which must be ready.
    pub(crate) fn listener_in(&self, id: &str, port: u16, now: Nanos) -> Result<Found, Refusal> {
        let sandbox = self.ready_sandbox(id)?;
        Ok(self.server(sandbox, port, now).unwrap_or(Found::Refused))
    }

    /// Finds who listens at a port of a sandbox: the container that declares the port, or else, as a list of ports is informational, the
    /// first running one without an annotation that lists its ports.
    fn server(&self, sandbox: &Sandbox, port: u16, now: Nanos) -> Option<Found> {
        let containers = sandbox
            .containers
            .iter()
            .filter_map(|id| self.containers.get(id));
        let all: Vec<_> = containers
            .filter_map(|one| Some((one, self.behaviour_of(one).ok()?)))
            .collect();
        let declaring = all
            .iter()
            .filter(|(one, behaviour)| declared_ports(one, behaviour).contains(&port));
        let declaring: Vec<_> = declaring.collect();
        if !declaring.is_empty() {
            return declaring
                .into_iter()
                .find_map(|(one, behaviour)| listening(one, behaviour, now));
        }
        let mut others = all
            .iter()
            .filter(|(_, behaviour)| behaviour.ports.is_none());
        others.find_map(|(one, behaviour)| listening(one, behaviour, now))
    }
}

/// Returns the server of a container that runs, and has run for long enough.
fn listening(container: &Container, behaviour: &Arc<Behaviour>, now: Nanos) -> Option<Found> {
    let Phase::Running { started_at, .. } = &container.phase else {
        return None;
    };
    let age =
        Duration::from_nanos(u64::try_from(now.saturating_sub(*started_at)).unwrap_or_default());
    (age >= behaviour.listen_after).then(|| Found::Server(Arc::clone(behaviour), age))
}

/// Returns the ports that a container declares; if its annotation lists ports, only those count.
fn declared_ports(container: &Container, behaviour: &Behaviour) -> Ports {
    if let Some(ports) = &behaviour.ports {
        return ports.clone();
    }
    let text = container
        .config
        .annotations
        .get(PORTS)
        .map_or("[]", String::as_str);
    let ports: Vec<ContainerPort> = serde_json::from_str(text).unwrap_or_default();
    let tcp = ports.iter().filter(|port| {
        port.protocol
            .as_deref()
            .is_none_or(|protocol| protocol == "TCP")
    });
    tcp.filter_map(|port| u16::try_from(port.container_port).ok())
        .collect()
}
