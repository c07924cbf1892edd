//! Starts one container: image, environment and mounts, then create and start.

use std::{os::unix::fs::PermissionsExt, path::PathBuf, sync::Arc};

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use wire::{cri, text::with_causes};

use super::{
    cache::Blocked,
    context::Context,
    fetch, hooks,
    identity::Identity,
    progress::{Progress, StartError},
    record_event, sandbox, unsupported,
};
use crate::{
    convert,
    downward::Downward,
    env::{self, Environment},
    events::{EventType, reason},
    fields::RuntimeFeature,
    log_links,
    observed::{CreatedItem, ObservedPod, Sandbox},
    plan, references,
    status::Waiting,
    volumes::{self, MountInputs},
};

/// The node's hosts file, from which that of a pod on the host's network is made.
const HOST_HOSTS_FILE: &str = "/etc/hosts";
/// Mode of pods' hosts files, the kubelet's, whatever the process's umask.
const HOSTS_MODE: u32 = 0o644;

/// The container to be started.
#[derive(Clone, Copy, Debug)]
pub(super) struct StartRequest<'a> {
    /// Its name in the pod.
    pub(super) name: &'a str,
    /// How many containers of its name the pod had before.
    pub(super) attempt: u32,
    /// How many restarts in a row lead to it.
    pub(super) restart_step: u32,
}

/// Starts the container, or stores why it failed.
pub(super) async fn container(
    context: &Arc<Context>,
    pod: &Arc<Pod>,
    identity: &Identity<'_>,
    observed: &ObservedPod,
    request: StartRequest<'_>,
) -> Progress {
    let now = clock::now();
    let not_before = context.pod_cache.with(identity.uid, |state| {
        let blocked = state
            .blocked
            .get(request.name)
            .filter(|blocked| !blocked.may_retry(now));
        blocked
            .map(|blocked| blocked.retry_at)
            .or_else(|| state.held_up_until(now))
    });
    if let Some(at) = not_before {
        return Progress::retry_at(at);
    }
    let (Some(spec), Some(sandbox)) = (&pod.spec, observed.ready_sandbox()) else {
        return Progress::default();
    };
    let Some(container) = plan::spec_of(pod, request.name) else {
        return Progress::default();
    };
    let target = target_container(spec, observed, request.name);
    let start = ContainerStart {
        context,
        pod,
        identity,
        spec,
        container: &container,
        sandbox,
        request,
    };
    let result = start.start(target).await;
    if let Err(error) = &result {
        record_failure(context, pod, request.name, error);
    }
    context.pod_cache.with(identity.uid, |state| {
        let blocked = match result {
            Ok(id) => {
                state.blocked.remove(request.name);
                let resources = container.resources.clone().unwrap_or_default();
                state.resources.insert(id.clone(), resources);
                return Progress::created(CreatedItem::Container {
                    id,
                    sandbox_id: sandbox.id.clone(),
                });
            }
            // the reason of the last attempt stays until this one ends, as in the kubelet
            Err(StartError::Pending) => return Progress::default(),
            Err(StartError::Failed(waiting)) => {
                Blocked::next(state.blocked.get(request.name), waiting, now)
            }
            Err(StartError::RetryAt(waiting, retry_at)) => Blocked {
                waiting,
                failures: 0,
                retry_at,
            },
        };
        let at = blocked.retry_at;
        state.blocked.insert(request.name.to_owned(), blocked);
        Progress::retry_at(at)
    })
}

/// The start of one container in the pod's sandbox.
struct ContainerStart<'a> {
    context: &'a Arc<Context>,
    pod: &'a Arc<Pod>,
    identity: &'a Identity<'a>,
    spec: &'a PodSpec,
    container: &'a Container,
    sandbox: &'a Sandbox,
    request: StartRequest<'a>,
}

impl ContainerStart<'_> {
    /// Creates and starts the container and returns its id. `target` is the container whose process namespace it joins.
    async fn start(&self, target: Option<String>) -> Result<String, StartError> {
        let Self {
            context,
            pod,
            container,
            sandbox,
            request: StartRequest { name, .. },
            ..
        } = *self;
        if let Some(why) = unsupported::in_container(context, container).await {
            return Err(StartError::config(why));
        }
        let sandbox_config = sandbox::config(context, pod, sandbox.attempt).await;
        let config = self.container_config(&sandbox_config, target).await?;
        let log = self.make_log_directory().await?;
        self.apply_pod_limits().await;
        let created = context
            .runtime
            .create_container(&sandbox.id, config, sandbox_config)
            .await;
        let id = created
            .map_err(|e| StartError::Failed(Waiting::new("CreateContainerError", e.message())))?;
        let record = |reason, text| {
            context
                .events
                .container(pod, name, EventType::Normal, reason, text)
        };
        record(reason::CREATED, format!("Created container: {name}"));
        let started = context.runtime.start_container(&id).await;
        context.runtime_changed.notify_one();
        let warnings = started
            .map_err(|e| StartError::Failed(Waiting::new("RunContainerError", e.message())))?;
        self.link_log(&id, log).await;
        self.apply_pod_limits().await;
        record(reason::STARTED, format!("Started container {name}"));
        for warning in warnings {
            context.events.container(
                pod,
                name,
                EventType::Warning,
                reason::RUNTIME_WARNING,
                warning,
            );
        }
        let ips = context.sandbox_ips(pod, sandbox).into_iter();
        hooks::post_start(context, pod, container, &id, ips.take(1).collect()).await;
        Ok(id)
    }

    /// Returns the container's configuration, after ensuring its image, environment and mounts.
    async fn container_config(
        &self,
        sandbox_config: &cri::PodSandboxConfig,
        target_id: Option<String>,
    ) -> Result<cri::ContainerConfig, StartError> {
        let Self {
            context,
            pod,
            identity,
            spec,
            container,
            request,
            ..
        } = *self;
        let image = context
            .images
            .ensure(pod, identity, container, sandbox_config)
            .await?;
        convert::refuse_root(spec, container, &image).map_err(|why| {
            let pod = record_event::full_name(pod);
            StartError::config(format!("{why} (pod: {pod:?}, container: {})", request.name))
        })?;
        let devices = context.devices.container_devices(pod, container).await;
        let devices = devices.map_err(StartError::config)?;
        let mut environment = self.environment().await?;
        environment.add_missing(&devices.envs);
        let mounts = self.mounts(environment.clone()).await?;
        let inputs = convert::ContainerInputs {
            environment: &environment,
            mounts,
            devices,
            image,
            attempt: request.attempt,
            restart_step: request.restart_step,
            machine_resources: &context.node.machine_resources,
            target_id,
            profiles: &context.dirs.seccomp(),
            boot_id: context.runtime.boot_id(),
        };
        Ok(convert::container(pod, container, inputs))
    }

    /// Creates the directory of the container's log and returns the path of the log.
    async fn make_log_directory(&self) -> Result<PathBuf, StartError> {
        let Identity {
            namespace,
            name,
            uid,
        } = self.identity;
        let log = self.context.dirs.pod_logs(namespace, name, uid);
        let log = log.join(convert::log_path(self.request.name, self.request.attempt));
        if let Some(parent) = log.parent() {
            let made = clock::fs::create_dir_all(parent).await;
            made.map_err(|error| StartError::config(format!("{}: {error}", parent.display())))?;
        }
        Ok(log)
    }

    /// Links the log to where log collectors look for it. A failure is only logged.
    async fn link_log(&self, id: &str, log: PathBuf) {
        let container = self.request.name;
        let name = log_links::name(self.identity.namespace, self.identity.name, container, id);
        let dirs = self.context.dirs.clone();
        let made =
            componentbase::spawn_blocking(move || log_links::create(&dirs, &name, &log)).await;
        if let Ok(Err(error)) = made {
            tracing::warn!(container, id, %error, "failed to create the link to a container's log");
        }
    }

    /// Sets the limits of the pod's control group, unless they are final.
    async fn apply_pod_limits(&self) {
        let (context, uid) = (self.context, self.identity.uid);
        if !context.pod_cache.with(uid, |state| state.has_final_limits) {
            let limited = context
                .groups
                .apply_limits(self.pod, &context.pods.state())
                .await;
            context
                .pod_cache
                .with(uid, |state| state.has_final_limits = limited);
        }
    }

    /// Builds the container's environment from its own variables, ConfigMaps, Secrets and services.
    async fn environment(&self) -> Result<Environment, StartError> {
        let Self {
            context,
            pod,
            identity,
            container,
            sandbox,
            ..
        } = *self;
        let references = references::of_env(container);
        let (objects, services) = futures::join!(
            fetch::objects(
                &context.client,
                context.node.api_ca.as_deref(),
                identity.namespace,
                references
            ),
            fetch::service_variables(
                &context.client,
                &context.node.services,
                pod,
                identity.namespace
            )
        );
        let (host_ips, pod_ips) = (
            context.node.addresses.ips(),
            context.sandbox_ips(pod, sandbox),
        );
        let allocatable = context.node.allocatable;
        let downward = Downward {
            pod,
            host_ips: &host_ips,
            pod_ips: &pod_ips,
            allocatable,
        };
        env::build(container, services, &objects, &downward).map_err(StartError::config)
    }

    /// Returns the container's mounts, after writing the files that they need.
    async fn mounts(&self, environment: Environment) -> Result<Vec<cri::Mount>, StartError> {
        let Self {
            context,
            pod,
            identity,
            container,
            sandbox,
            request,
            ..
        } = *self;
        let attempt = request.attempt;
        let names = convert::host_names(pod, &context.node.name, &context.node.dns.domain);
        let (path, ips) = (context.dirs.etc_hosts(identity.uid), sandbox.ips.clone());
        let message = context
            .dirs
            .termination_message(identity.uid, &container.name, attempt);
        let recursive = volumes::may_be_recursive(container)
            && context
                .runtime
                .supports(RuntimeFeature::RecursiveReadOnly)
                .await;
        let (dirs, pod, container) = (context.dirs.clone(), pod.clone(), container.clone());
        let done = componentbase::spawn_blocking(move || {
            // Read each time, as the node's file may change.
            let host_file = std::fs::read_to_string(HOST_HOSTS_FILE).unwrap_or_default();
            let hosts = convert::etc_hosts(&pod, &names, &ips, &host_file);
            write_if_changed(&path, &hosts)
                .map_err(|error| format!("{}: {error}", path.display()))?;
            volumes::make_termination_message_file(&message, attempt)
                .map_err(|error| with_causes(&error))?;
            let inputs = MountInputs {
                dirs: &dirs,
                pod: &pod,
                etc_hosts: path,
                termination_message: message,
                recursive,
            };
            volumes::of_container(&inputs, &container, &environment)
                .map_err(|error| with_causes(&error))
        });
        done.await
            .unwrap_or_else(|error| Err(error.to_string()))
            .map_err(StartError::config)
    }
}

/// Returns the container whose process namespace an ephemeral container joins.
fn target_container(spec: &PodSpec, observed: &ObservedPod, name: &str) -> Option<String> {
    let ephemeral = spec
        .ephemeral_containers
        .iter()
        .flatten()
        .find(|container| container.name == name)?;
    let target = ephemeral
        .target_container_name
        .as_deref()
        .filter(|name| !name.is_empty())?;
    observed
        .latest(target)
        .map(|container| container.id.clone())
}

/// Records an event that a container does not start, with the text of its status.
fn record_failure(context: &Context, pod: &Pod, name: &str, error: &StartError) {
    let (StartError::Failed(waiting) | StartError::RetryAt(waiting, _)) = error else {
        return;
    };
    // Images have events of their own, so only the reason is repeated.
    let about_image = waiting.reason.contains("Image");
    let text = if about_image {
        &waiting.reason
    } else {
        &waiting.message
    };
    context.events.container(
        pod,
        name,
        EventType::Warning,
        reason::FAILED,
        format!("Error: {text}"),
    );
}

fn write_if_changed(path: &std::path::Path, text: &str) -> std::io::Result<()> {
    if std::fs::read_to_string(path).is_ok_and(|now| now == text) {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    // In place: running containers have this very file mounted. They may read it as any user.
    std::fs::write(path, text)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(HOSTS_MODE))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn hosts_file_is_written_in_place_and_world_readable() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("pod/etc-hosts");
        write_if_changed(&path, "one").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let mut held = fs::File::open(&path).unwrap();
        write_if_changed(&path, "one").unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600,
            "nothing changed"
        );
        write_if_changed(&path, "other").unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o644
        );
        assert_eq!(
            std::io::read_to_string(&mut held).unwrap(),
            "other",
            "a container that runs sees it"
        );
    }
}
