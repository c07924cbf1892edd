//! Finds out which container listens at an address, for probes and hooks.

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ContainerPort;
use wire::cri::NamespaceMode;

use super::{
    super::behaviour::{Behaviour, Ports},
    Container, Nanos, Refusal, Sandbox, State,
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
    /// The address belongs to no pod.
    Elsewhere,
}

impl State {
    /// Finds who listens at a host and port. Ports of pods on the host's network are found at every address that is no pod's.
    pub(crate) fn listener(&self, host: &str, port: u16, now: Nanos) -> Found {
        let address = host.parse::<Ipv4Addr>().ok();
        let is_pods = address.is_some_and(|address| self.addresses.is_pods(address));
        let mut sandboxes = self.sandboxes.values().filter(|sandbox| sandbox.ready);
        if is_pods {
            let sandbox = sandboxes.find(|sandbox| sandbox.ip == address);
            return sandbox.and_then(|sandbox| self.server(sandbox, port, now)).unwrap_or(Found::Refused);
        }
        let mut on_host = sandboxes.filter(|sandbox| sandbox.namespaces().network() == NamespaceMode::Node);
        on_host.find_map(|sandbox| self.server(sandbox, port, now)).unwrap_or(Found::Elsewhere)
    }

    /// Finds who listens at a port of a sandbox, which must be ready.
    pub(crate) fn listener_in(&self, id: &str, port: u16, now: Nanos) -> Result<Found, Refusal> {
        let sandbox = self.ready_sandbox(id)?;
        Ok(self.server(sandbox, port, now).unwrap_or(Found::Refused))
    }

    fn server(&self, sandbox: &Sandbox, port: u16, now: Nanos) -> Option<Found> {
        let containers = sandbox.containers.iter().filter_map(|id| self.containers.get(id));
        let mut running: Vec<_> =
            containers.filter_map(|one| Some((one, self.behaviour_of(one).ok()?))).collect();
        // A list of ports is informational, and pods need not have one: a pod without one listens at every port.
        let declares = running.iter().any(|(one, behaviour)| !declared(one, behaviour).is_empty());
        running.retain(|(one, _)| matches!(one.phase, Phase::Running { .. }));
        let on_host = sandbox.namespaces().network() == NamespaceMode::Node;
        running.into_iter().find_map(|(container, behaviour)| {
            let Phase::Running { started_at, .. } = &container.phase else { return None };
            let age =
                Duration::from_nanos(u64::try_from(now.saturating_sub(*started_at)).unwrap_or_default());
            let is_silent = matches!(&behaviour.ports, Some(ports) if ports.is_empty());
            let is_everywhere = !declares && !on_host && !is_silent;
            let listens = is_everywhere || declared(container, &behaviour).contains(&port);
            (listens && age >= behaviour.listen_after).then_some(Found::Server(behaviour, age))
        })
    }
}

/// Returns the ports that a container declares; if its annotation lists ports, only those count.
fn declared(container: &Container, behaviour: &Behaviour) -> Ports {
    if let Some(ports) = &behaviour.ports {
        return ports.clone();
    }
    let text = container.config.annotations.get(PORTS).map_or("[]", String::as_str);
    let ports: Vec<ContainerPort> = serde_json::from_str(text).unwrap_or_default();
    let tcp = ports.iter().filter(|port| port.protocol.as_deref().is_none_or(|protocol| protocol == "TCP"));
    tcp.filter_map(|port| u16::try_from(port.container_port).ok()).collect()
}
