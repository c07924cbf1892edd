//! The runtime's state: sandboxes, containers, images, and when each container ends. Pure: time is passed in, and there is no IO.
//!
//! The rules are containerd's: removing or stopping what does not exist succeeds, any other request for it fails with "not found";
//! a name (with its attempt) is taken until its owner is removed; a stopped sandbox does not start again.

mod address;
mod container;
mod image;
mod listen;
mod proto;
mod sandbox;
mod stats;
mod view;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use serde::{Deserialize, Serialize};
use wire::cri::{ContainerEventResponse, ContainerEventType};

use self::address::Addresses;
pub use self::address::PodCidr;
pub(super) use self::{
    container::{Container, Running},
    image::{IMAGE_BYTES, Reference, Registry},
    listen::Found,
    sandbox::Sandbox,
};
use super::behaviour;

/// A time in Unix nanoseconds.
pub(super) type Nanos = i64;

/// Why a request cannot be fulfilled.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("an error occurred when try to find {kind} {id:?}: not found")]
    NotFound { kind: &'static str, id: String },
    #[error("failed to resolve image {0:?}: not found, pull it first")]
    NoImage(String),
    #[error("failed to reserve {kind} name {name:?}: it is reserved for {owner:?}")]
    NameTaken {
        kind: &'static str,
        name: String,
        owner: String,
    },
    #[error("{kind} {id:?} is in {state} state")]
    WrongState {
        kind: &'static str,
        id: String,
        state: &'static str,
    },
    #[error("{0}")]
    Invalid(String),
    #[error(transparent)]
    Annotation(#[from] behaviour::Invalid),
    #[error("no free pod address; remove sandboxes")]
    NoAddress,
}

/// What has changed since the last time changes were taken, for the record and the readers of events.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) events: Vec<ContainerEventResponse>,
    /// Ids of created, changed and removed sandboxes.
    pub(super) sandboxes: BTreeSet<String>,
    /// Ids of created, changed and removed containers.
    pub(super) containers: BTreeSet<String>,
    pub(super) images: bool,
}

impl Changes {
    pub(super) fn is_empty(&self) -> bool {
        self.sandboxes.is_empty() && self.containers.is_empty() && !self.images
    }
}

/// What of a runtime outlives it.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(super) struct Records {
    pub(super) sandboxes: Vec<Sandbox>,
    pub(super) containers: Vec<Container>,
    pub(super) images: Vec<Reference>,
}

impl Records {
    /// Returns the paths of all logs.
    pub(super) fn log_paths(&self) -> impl Iterator<Item = &Path> {
        let paths = self
            .containers
            .iter()
            .map(|container| container.log_path.as_deref());
        paths.flatten()
    }

    /// Replaces the directory of the node in the paths of logs and volumes.
    pub(super) fn relocate(&mut self, from: &Path, to: &Path) {
        let moved = |path: &Path| path.strip_prefix(from).ok().map(|below| to.join(below));
        let in_text = |path: &mut String| {
            if let Some(moved) = moved(Path::new(path.as_str())) {
                *path = moved.to_string_lossy().into_owned();
            }
        };
        for sandbox in &mut self.sandboxes {
            in_text(&mut sandbox.config.log_directory);
        }
        for container in &mut self.containers {
            let mounts = container.config.mounts.iter_mut();
            mounts.for_each(|mount| in_text(&mut mount.host_path));
            if let Some(path) = &mut container.log_path
                && let Some(moved) = moved(path)
            {
                *path = moved;
            }
        }
    }
}

/// The whole state of the runtime.
#[derive(Debug, Default)]
pub(super) struct RuntimeState {
    sandboxes: BTreeMap<String, Sandbox>,
    containers: BTreeMap<String, Container>,
    images: BTreeSet<Reference>,
    addresses: Addresses,
    /// The end of each running container that will end by itself.
    deadlines: BTreeSet<(Nanos, String)>,
    changes: Changes,
}

impl RuntimeState {
    /// Returns the records of everything.
    pub(super) fn records(&self) -> Records {
        Records {
            sandboxes: self.sandboxes.values().cloned().collect(),
            containers: self.containers.values().cloned().collect(),
            images: self.images.iter().cloned().collect(),
        }
    }

    /// Restores the recorded state. A container without its sandbox is dropped: its removal was interrupted.
    pub(super) fn restore(records: Records) -> Self {
        let Records {
            sandboxes,
            containers,
            images,
        } = records;
        let mut state = Self {
            images: images.into_iter().collect(),
            ..Self::default()
        };
        for mut sandbox in sandboxes {
            sandbox.containers.clear();
            if let Some(ip) = sandbox.ip {
                state.addresses.claim(ip);
            }
            state.sandboxes.insert(sandbox.id.clone(), sandbox);
        }
        for container in containers {
            let Some(sandbox) = state.sandboxes.get_mut(&container.sandbox_id) else {
                continue;
            };
            sandbox.containers.insert(container.id.clone());
            if let Some(end) = container.phase.end() {
                state.deadlines.insert((end.at, container.id.clone()));
            }
            state.containers.insert(container.id.clone(), container);
        }
        state
    }

    /// Gives new sandboxes addresses of this range.
    pub(super) fn set_pod_cidr(&mut self, range: PodCidr) {
        self.addresses.set_range(range);
    }

    pub(super) fn take_changes(&mut self) -> Changes {
        std::mem::take(&mut self.changes)
    }

    pub(super) fn next_deadline(&self) -> Option<Nanos> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    pub(super) fn sandbox(&self, id: &str) -> Result<&Sandbox, Refusal> {
        self.sandboxes.get(id).ok_or_else(|| Refusal::NotFound {
            kind: "sandbox",
            id: id.into(),
        })
    }

    /// Returns a sandbox that is ready.
    pub(super) fn ready_sandbox(&self, id: &str) -> Result<&Sandbox, Refusal> {
        let sandbox = self.sandbox(id)?;
        if sandbox.ready {
            return Ok(sandbox);
        }
        Err(Refusal::WrongState {
            kind: "sandbox",
            id: id.into(),
            state: "SANDBOX_NOTREADY",
        })
    }

    pub(super) fn container(&self, id: &str) -> Result<&Container, Refusal> {
        self.containers.get(id).ok_or_else(|| Refusal::NotFound {
            kind: "container",
            id: id.into(),
        })
    }

    /// Returns the references of all images on this node.
    pub(super) fn images(&self) -> impl Iterator<Item = &Reference> {
        self.images.iter()
    }

    pub(super) fn add_image(&mut self, reference: Reference) {
        self.changes.images |= self.images.insert(reference);
    }

    /// Finds an image by name, or by the id that `PullImage` returned.
    pub(super) fn find_image(&self, name: &str) -> Option<&Reference> {
        self.images
            .iter()
            .find(|image| image.id() == name || image.bare_id() == name)
            .or_else(|| {
                let wanted = Reference::parse(name).ok()?;
                self.images.get(&wanted)
            })
    }

    pub(super) fn remove_image(&mut self, name: &str) {
        if let Some(found) = self.find_image(name).cloned() {
            self.images.remove(&found);
            self.changes.images = true;
        }
    }

    /// Records an event; `id` is the container's, or the sandbox's own.
    fn event(&mut self, kind: ContainerEventType, id: &str, sandbox_id: &str, now: Nanos) {
        let Some(sandbox) = self.sandboxes.get(sandbox_id) else {
            return;
        };
        self.changes.events.push(ContainerEventResponse {
            container_id: id.into(),
            container_event_type: kind.into(),
            created_at: now,
            pod_sandbox_status: Some(sandbox.status()),
            containers_statuses: self.statuses_in(sandbox),
        });
    }
}
