//! A pod's sandbox: ready → not ready → removed.

use std::{collections::BTreeSet, net::Ipv4Addr};

use serde::{Deserialize, Serialize};
use wire::cri::{
    ContainerEventType, NamespaceMode, NamespaceOption, PodSandboxConfig, PodSandboxMetadata,
};

use super::{Nanos, Refusal, RuntimeState, proto};

/// A sandbox. A stopped one never becomes ready again: the client creates a new one, with the next attempt.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Sandbox {
    pub(super) id: String,
    #[serde(with = "proto")]
    pub(super) config: PodSandboxConfig,
    pub(super) runtime_handler: String,
    pub(super) created_at: Nanos,
    pub(super) ready: bool,
    /// The sandbox's address; `None` on the host's network and after the stop.
    pub(super) ip: Option<Ipv4Addr>,
    /// Ids of its containers, in any state.
    #[serde(skip)]
    pub(super) containers: BTreeSet<String>,
}

impl Sandbox {
    pub(super) fn metadata(&self) -> PodSandboxMetadata {
        self.config.metadata.clone().unwrap_or_default()
    }

    pub(super) fn namespaces(&self) -> NamespaceOption {
        let security = self
            .config
            .linux
            .as_ref()
            .and_then(|linux| linux.security_context.as_ref());
        security
            .and_then(|security| security.namespace_options.clone())
            .unwrap_or_default()
    }

    pub(super) fn uid(&self) -> &str {
        self.config
            .metadata
            .as_ref()
            .map_or("", |metadata| &metadata.uid)
    }
}

impl RuntimeState {
    /// Creates a sandbox that is ready.
    pub(crate) fn run_sandbox(
        &mut self,
        id: String,
        config: PodSandboxConfig,
        runtime_handler: String,
        now: Nanos,
    ) -> Result<(), Refusal> {
        let metadata = config.metadata.clone().unwrap_or_default();
        if metadata.name.is_empty() || metadata.namespace.is_empty() || metadata.uid.is_empty() {
            return Err(Refusal::Invalid(
                "config.metadata needs name, namespace and uid".into(),
            ));
        }
        if !runtime_handler.is_empty() {
            return Err(Refusal::Invalid(format!(
                "no runtime for {runtime_handler:?} is configured"
            )));
        }
        let owner = self
            .sandboxes
            .values()
            .find(|other| other.config.metadata.as_ref() == Some(&metadata));
        if let Some(owner) = owner {
            let PodSandboxMetadata {
                name,
                namespace,
                uid,
                attempt,
            } = metadata;
            let name = format!("{name}_{namespace}_{uid}_{attempt}");
            return Err(Refusal::NameTaken {
                kind: "sandbox",
                name,
                owner: owner.id.clone(),
            });
        }
        let mut sandbox = Sandbox {
            id: id.clone(),
            config,
            runtime_handler,
            created_at: now,
            ready: true,
            ip: None,
            containers: BTreeSet::new(),
        };
        if sandbox.namespaces().network() != NamespaceMode::Node {
            sandbox.ip = Some(self.addresses.take().ok_or(Refusal::NoAddress)?);
        }
        self.sandboxes.insert(id.clone(), sandbox);
        self.changes.sandboxes.insert(id.clone());
        self.event(ContainerEventType::ContainerCreatedEvent, &id, &id, now);
        self.event(ContainerEventType::ContainerStartedEvent, &id, &id, now);
        Ok(())
    }

    /// Kills the containers of the sandbox and frees its address.
    pub(crate) fn stop_sandbox(&mut self, id: &str, now: Nanos) {
        let Some(sandbox) = self.sandboxes.get(id) else {
            return;
        };
        if !sandbox.ready {
            return;
        }
        for container in sandbox.containers.clone() {
            self.kill(&container, now);
        }
        let Some(sandbox) = self.sandboxes.get_mut(id) else {
            return;
        };
        sandbox.ready = false;
        if let Some(ip) = sandbox.ip.take() {
            self.addresses.free(ip);
        }
        self.changes.sandboxes.insert(id.into());
        self.event(ContainerEventType::ContainerStoppedEvent, id, id, now);
    }

    /// Stops the sandbox and removes it with its containers.
    pub(crate) fn remove_sandbox(&mut self, id: &str, now: Nanos) {
        self.stop_sandbox(id, now);
        let Some(sandbox) = self.sandboxes.get(id) else {
            return;
        };
        for container in sandbox.containers.clone() {
            self.remove_container(&container, now);
        }
        self.event(ContainerEventType::ContainerDeletedEvent, id, id, now);
        self.sandboxes.remove(id);
        self.changes.sandboxes.insert(id.into());
    }
}
