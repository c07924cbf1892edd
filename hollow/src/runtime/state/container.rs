//! The life of a container, without a process.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use wire::cri::{
    ContainerConfig, ContainerEventType, CreateContainerRequest, LinuxContainerResources,
    PodSandboxConfig,
};

use super::{
    super::{
        behaviour::{self, Behaviour, Exit, Invalid, KILLED},
        command::{self, Known},
        files,
    },
    Nanos, Reference, Refusal, RuntimeState, proto,
};

/// The annotation in which our agent marks an init container or a sidecar.
const CONTAINER_KIND: &str = "outrigger.kubeedge.io/container-kind";
/// The label of a pod that a Job has created.
const JOB_NAME: &str = "batch.kubernetes.io/job-name";
/// The annotation of a pod whose end Helm waits for.
const HELM_HOOK: &str = "helm.sh/hook";

/// A container.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Container {
    pub(super) id: String,
    pub(super) sandbox_id: String,
    #[serde(with = "proto")]
    pub(super) config: ContainerConfig,
    pub(super) image: Reference,
    pub(super) log_path: Option<PathBuf>,
    pub(super) created_at: Nanos,
    pub(super) phase: Phase,
    /// What the container does, computed when first needed: neither its configuration nor its sandbox's annotations change.
    #[serde(skip)]
    behaviour: OnceLock<Arc<Behaviour>>,
}

/// What the commands of a running container need to know of it.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) config: ContainerConfig,
    pub(crate) hostname: String,
    pub(crate) behaviour: Arc<Behaviour>,
    pub(crate) log_path: Option<PathBuf>,
}

/// The phase of a container. It can be removed in each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Phase {
    /// Created. Next: `Running` by `StartContainer`, or `Exited` if the start fails.
    Created,
    /// Running. Next: `Exited`, when `end` has come or its sandbox stops. Without `end` it runs until asked to stop.
    Running { started_at: Nanos, end: Option<End> },
    /// Exited, the last phase: a restart is a new container. `started_at` is 0 if it never ran.
    Exited {
        started_at: Nanos,
        finished_at: Nanos,
        exit: Exit,
    },
}

/// When and how a running container will end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct End {
    pub(super) at: Nanos,
    pub(super) exit: Exit,
}

impl Phase {
    pub(super) fn end(&self) -> Option<&End> {
        match self {
            Self::Running { end, .. } => end.as_ref(),
            Self::Created | Self::Exited { .. } => None,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Created => "CONTAINER_CREATED",
            Self::Running { .. } => "CONTAINER_RUNNING",
            Self::Exited { .. } => "CONTAINER_EXITED",
        }
    }
}

/// Returns how a container ends that is asked to stop: by itself if it is quick enough, otherwise by being killed.
fn end_when_asked(behaviour: &Behaviour, grace: Duration, now: Nanos) -> End {
    match behaviour.stop_time {
        Some(time) if !grace.is_zero() && time <= grace => End {
            at: later(now, time),
            exit: Exit::code(behaviour.stop_code),
        },
        _ => End {
            at: later(now, grace),
            exit: Exit::code(KILLED),
        },
    }
}

/// Returns what a container of the sandbox does.
fn behaviour(sandbox: &PodSandboxConfig, config: &ContainerConfig) -> Result<Behaviour, Invalid> {
    let metadata = config.metadata.clone().unwrap_or_default();
    let words = command::words(config);
    let variables = config
        .envs
        .iter()
        .map(|env| (env.key.clone(), env.value.clone()))
        .collect();
    let image = config.image.clone().unwrap_or_default();
    let kind = config.annotations.get(CONTAINER_KIND).map(String::as_str);
    let is_work =
        sandbox.labels.contains_key(JOB_NAME) || sandbox.annotations.contains_key(HELM_HOOK);
    let known = Known {
        words: &words,
        variables: &variables,
        hostname: &sandbox.hostname,
        image: command::pod_image_name(&image),
        ends: kind == Some("init") || (is_work && kind != Some("sidecar")),
        has_input: config.stdin,
        has_terminal: config.tty,
    };
    behaviour::parse(
        &sandbox.annotations,
        &metadata.name,
        metadata.attempt,
        known,
    )
}

fn later(now: Nanos, wait: Duration) -> Nanos {
    now.saturating_add(Nanos::try_from(wait.as_nanos()).unwrap_or(Nanos::MAX))
}

impl Container {
    pub(crate) fn log_path(&self) -> Option<&PathBuf> {
        self.log_path.as_ref()
    }

    /// Returns the container's name in its pod.
    pub(crate) fn name(&self) -> &str {
        self.config
            .metadata
            .as_ref()
            .map_or("", |metadata| &metadata.name)
    }

    /// Returns what the container executes, as far as its client has given it: the rest is in the image.
    pub(crate) fn command_line(&self) -> String {
        let words: Vec<&str> = self
            .config
            .command
            .iter()
            .chain(&self.config.args)
            .map(String::as_str)
            .collect();
        if words.is_empty() {
            format!("the entrypoint of {}", self.image)
        } else {
            words.join(" ")
        }
    }

    fn wrong_state(&self) -> Refusal {
        Refusal::WrongState {
            kind: "container",
            id: self.id.clone(),
            state: self.phase.name(),
        }
    }
}

impl RuntimeState {
    pub(crate) fn create_container(
        &mut self,
        id: String,
        request: CreateContainerRequest,
        now: Nanos,
    ) -> Result<(), Refusal> {
        let sandbox = self.ready_sandbox(&request.pod_sandbox_id)?;
        let config = request.config.unwrap_or_default();
        let Some(metadata) = config
            .metadata
            .as_ref()
            .filter(|metadata| !metadata.name.is_empty())
        else {
            return Err(Refusal::Invalid("config.metadata needs a name".into()));
        };
        let siblings = sandbox
            .containers
            .iter()
            .filter_map(|id| self.containers.get(id));
        if let Some(owner) = siblings
            .into_iter()
            .find(|c| c.config.metadata.as_ref() == Some(metadata))
        {
            let name = format!("{}_{}", metadata.name, metadata.attempt);
            return Err(Refusal::NameTaken {
                kind: "container",
                name,
                owner: owner.id.clone(),
            });
        }
        let behaviour = Arc::new(behaviour(&sandbox.config, &config)?);
        let wanted = config.image.as_ref().map_or("", |image| &image.image);
        let image = self
            .find_image(wanted)
            .cloned()
            .ok_or_else(|| Refusal::NoImage(wanted.into()))?;
        let log_path = files::log_path(&sandbox.config.log_directory, &config.log_path)
            .map_err(|fault| Refusal::Invalid(fault.into()))?;
        let sandbox_id = request.pod_sandbox_id;
        if let Some(sandbox) = self.sandboxes.get_mut(&sandbox_id) {
            sandbox.containers.insert(id.clone());
        }
        let container = Container {
            id: id.clone(),
            sandbox_id: sandbox_id.clone(),
            config,
            image,
            log_path,
            created_at: now,
            phase: Phase::Created,
            behaviour: behaviour.into(),
        };
        self.containers.insert(id.clone(), container);
        self.changes.containers.insert(id.clone());
        self.event(
            ContainerEventType::ContainerCreatedEvent,
            &id,
            &sandbox_id,
            now,
        );
        Ok(())
    }

    /// Returns what the container does, if it may be started.
    pub(crate) fn startable(&self, id: &str) -> Result<Arc<Behaviour>, Refusal> {
        let container = self.container(id)?;
        if container.phase != Phase::Created {
            return Err(container.wrong_state());
        }
        // A sandbox that stops keeps its containers that were never started.
        self.ready_sandbox(&container.sandbox_id)?;
        self.behaviour_of(container)
    }

    pub(crate) fn start_container(&mut self, id: &str, now: Nanos) -> Result<(), Refusal> {
        let behaviour = self.startable(id)?;
        let end = behaviour.exit.clone().map(|(after, exit)| End {
            at: later(now, after),
            exit,
        });
        self.enter(
            id,
            Phase::Running {
                started_at: now,
                end,
            },
            ContainerEventType::ContainerStartedEvent,
            now,
        );
        self.advance(now);
        Ok(())
    }

    /// Records a failed start: as in containerd, the container has exited without having run.
    pub(crate) fn fail_start(&mut self, id: &str, message: &str, now: Nanos) {
        if self.startable(id).is_ok() {
            let phase = Phase::Exited {
                started_at: 0,
                finished_at: now,
                exit: Exit::start_error(message),
            };
            self.enter(id, phase, ContainerEventType::ContainerStoppedEvent, now);
        }
    }

    /// Asks a running container to end; of two requests, the earlier end counts. A container that does not run stays as it is.
    pub(crate) fn stop_container(
        &mut self,
        id: &str,
        grace: Duration,
        now: Nanos,
    ) -> Result<(), Refusal> {
        let Some(container) = self.containers.get(id) else {
            return Ok(());
        };
        if matches!(container.phase, Phase::Running { .. }) {
            let behaviour = self.behaviour_of(container)?;
            self.end_at(id, end_when_asked(&behaviour, grace, now));
            self.advance(now);
        }
        Ok(())
    }

    /// Ends a running container as if by itself; returns false if it does not run.
    pub(crate) fn crash(&mut self, id: &str, code: i32, now: Nanos) -> bool {
        let running = self.is_running(id);
        if running {
            self.end_at(
                id,
                End {
                    at: now,
                    exit: Exit::code(code),
                },
            );
            self.advance(now);
        }
        running
    }

    pub(super) fn kill(&mut self, id: &str, now: Nanos) {
        self.crash(id, KILLED, now);
    }

    pub(crate) fn remove_container(&mut self, id: &str, now: Nanos) {
        self.kill(id, now);
        let Some(container) = self.containers.remove(id) else {
            return;
        };
        if let Some(sandbox) = self.sandboxes.get_mut(&container.sandbox_id) {
            sandbox.containers.remove(id);
        }
        self.changes.containers.insert(id.into());
        self.event(
            ContainerEventType::ContainerDeletedEvent,
            id,
            &container.sandbox_id,
            now,
        );
    }

    pub(crate) fn update_resources(
        &mut self,
        id: &str,
        resources: LinuxContainerResources,
    ) -> Result<(), Refusal> {
        self.container(id)?;
        if let Some(container) = self.containers.get_mut(id) {
            container.config.linux.get_or_insert_default().resources = Some(resources);
            self.changes.containers.insert(id.into());
        }
        Ok(())
    }

    pub(crate) fn is_running(&self, id: &str) -> bool {
        self.containers
            .get(id)
            .is_some_and(|container| matches!(container.phase, Phase::Running { .. }))
    }

    /// Returns the ids of the running containers.
    pub(crate) fn running_ids(&self) -> Vec<String> {
        self.containers
            .keys()
            .filter(|id| self.is_running(id))
            .cloned()
            .collect()
    }

    /// Returns a running container and what it does.
    pub(crate) fn running(&self, id: &str) -> Result<Running, Refusal> {
        let container = self.container(id)?;
        if !self.is_running(id) {
            return Err(container.wrong_state());
        }
        Ok(Running {
            config: container.config.clone(),
            hostname: self.sandbox(&container.sandbox_id)?.config.hostname.clone(),
            behaviour: self.behaviour_of(container)?,
            log_path: container.log_path.clone(),
        })
    }

    /// Ends all containers whose end has come.
    pub(crate) fn advance(&mut self, now: Nanos) {
        while self.next_deadline().is_some_and(|at| at <= now) {
            let Some((at, id)) = self.deadlines.pop_first() else {
                return;
            };
            let Some(Phase::Running {
                started_at,
                end: Some(end),
            }) = self
                .containers
                .get(&id)
                .map(|container| container.phase.clone())
            else {
                continue;
            };
            let phase = Phase::Exited {
                started_at,
                finished_at: at,
                exit: end.exit,
            };
            self.enter(&id, phase, ContainerEventType::ContainerStoppedEvent, now);
        }
    }

    pub(super) fn behaviour_of(&self, container: &Container) -> Result<Arc<Behaviour>, Refusal> {
        if let Some(known) = container.behaviour.get() {
            return Ok(Arc::clone(known));
        }
        let read = Arc::new(behaviour(
            &self.sandbox(&container.sandbox_id)?.config,
            &container.config,
        )?);
        Ok(Arc::clone(container.behaviour.get_or_init(|| read)))
    }

    /// Reports whether the container runs, or ran this long after its start.
    pub(crate) fn ran_for(&self, id: &str, time: Duration) -> bool {
        match self.containers.get(id).map(|container| &container.phase) {
            Some(Phase::Running { .. }) => true,
            Some(Phase::Exited {
                started_at,
                finished_at,
                ..
            }) => *finished_at >= later(*started_at, time),
            Some(Phase::Created) | None => false,
        }
    }

    /// Moves a running container's end to an earlier time, never to a later one.
    fn end_at(&mut self, id: &str, new: End) {
        let Some(Phase::Running { end, .. }) = self.containers.get_mut(id).map(|c| &mut c.phase)
        else {
            return;
        };
        if let Some(old) = end {
            if old.at <= new.at {
                return;
            }
            self.deadlines.remove(&(old.at, id.to_owned()));
        }
        self.deadlines.insert((new.at, id.into()));
        *end = Some(new);
        self.changes.containers.insert(id.into());
    }

    fn enter(&mut self, id: &str, phase: Phase, kind: ContainerEventType, now: Nanos) {
        let Some(container) = self.containers.get_mut(id) else {
            return;
        };
        if let Some(end) = container.phase.end() {
            self.deadlines.remove(&(end.at, id.to_owned()));
        }
        if let Some(end) = phase.end() {
            self.deadlines.insert((end.at, id.into()));
        }
        container.phase = phase;
        let sandbox_id = container.sandbox_id.clone();
        self.changes.containers.insert(id.into());
        self.event(kind, id, &sandbox_id, now);
    }
}
