//! Starts one container: image, environment, mounts, then create and start.

use std::{os::unix::fs::PermissionsExt, path::PathBuf, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use wire::cri;

use super::{
    cache::Blocked,
    context::Context,
    fetch, hooks,
    identity::Identity,
    progress::{Progress, StartError},
    record_event, sandbox, unsupported,
};
use crate::edged::{
    convert,
    downward::Downward,
    env::{self, Environment},
    events::{Severity, reason},
    fields::Ability,
    links,
    observed::{Made, Observed, Sandbox},
    plan, references,
    status::Waiting,
    volumes::{self, Places},
    with_causes,
};

/// What a pod on the node's network has to begin with.
const NODES_HOSTS: &str = "/etc/hosts";
/// As the kubelet's, whatever the process's umask.
const HOSTS_MODE: u32 = 0o644;

/// The container that is to be started.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    /// Its name in the pod.
    pub(super) name: &'a str,
    /// How many there were before.
    pub(super) attempt: u32,
    /// How many restarts in a row lead to it.
    pub(super) step: u32,
}

/// Starts the container, or remembers why not.
pub(super) async fn container(
    context: &Arc<Context>,
    pod: &Arc<Pod>,
    identity: &Identity<'_>,
    observed: &Observed,
    wanted: Wanted<'_>,
) -> Progress {
    let now = Timestamp::now();
    let not_before = context.pod_cache.with(identity.uid, |state| {
        let blocked = state.blocked.get(wanted.name).filter(|blocked| !blocked.is_over(now));
        blocked.map(|blocked| blocked.retry_at).or_else(|| state.held_up_until(now))
    });
    if let Some(at) = not_before {
        return Progress::retry_at(at);
    }
    let (Some(spec), Some(sandbox)) = (&pod.spec, observed.current()) else { return Progress::default() };
    let Some(container) = plan::spec_of(pod, wanted.name) else { return Progress::default() };
    let target = target(spec, observed, wanted.name);
    let starting = Starting { context, pod, identity, spec, container: &container, sandbox, wanted };
    let result = starting.start(target).await;
    if let Err(error) = &result {
        record_failure(context, pod, wanted.name, error);
    }
    context.pod_cache.with(identity.uid, |state| {
        let blocked = match result {
            Ok(id) => {
                state.blocked.remove(wanted.name);
                return Progress::made(Made::Container { id, sandbox_id: sandbox.id.clone() });
            }
            Err(StartError::Pending) => {
                state.blocked.remove(wanted.name);
                return Progress::default();
            }
            Err(StartError::Failed(waiting)) => Blocked::after(state.blocked.get(wanted.name), waiting, now),
            Err(StartError::RetryAt(waiting, retry_at)) => Blocked { waiting, failures: 0, retry_at },
        };
        let at = blocked.retry_at;
        state.blocked.insert(wanted.name.to_owned(), blocked);
        Progress::retry_at(at)
    })
}

/// The start of one container in the pod's sandbox.
struct Starting<'a> {
    context: &'a Arc<Context>,
    pod: &'a Arc<Pod>,
    identity: &'a Identity<'a>,
    spec: &'a PodSpec,
    container: &'a Container,
    sandbox: &'a Sandbox,
    wanted: Wanted<'a>,
}

impl Starting<'_> {
    /// Makes and starts the container, and says its id. `target`: the container whose processes it is to see.
    async fn start(&self, target: Option<String>) -> Result<String, StartError> {
        let Self { context, pod, container, sandbox, wanted: Wanted { name, .. }, .. } = *self;
        if let Some(why) = unsupported::in_container(context, container).await {
            return Err(StartError::config(why));
        }
        let sandbox_config = sandbox::config(context, pod, sandbox.attempt).await;
        let config = self.container_config(&sandbox_config, target).await?;
        let log = self.make_log_directory().await?;
        self.limit_pod().await;
        let created = context.runtime.create_container(&sandbox.id, config, sandbox_config).await;
        let id =
            created.map_err(|e| StartError::Failed(Waiting::new("CreateContainerError", e.message())))?;
        let record = |reason, text| context.events.container(pod, name, Severity::Normal, reason, text);
        record(reason::CREATED, format!("Created container: {name}"));
        let started = context.runtime.start_container(&id).await;
        context.runtime_changed.notify_one();
        started.map_err(|e| StartError::Failed(Waiting::new("RunContainerError", e.message())))?;
        self.link_log(&id, log).await;
        self.limit_pod().await;
        record(reason::STARTED, format!("Started container {name}"));
        let ips = context.sandbox_ips(pod, sandbox).into_iter();
        hooks::post_start(context, pod, container, &id, ips.take(1).collect()).await;
        Ok(id)
    }

    /// The container's configuration, for which its image is pulled, its environment read and its mounts are made.
    async fn container_config(
        &self,
        sandbox_config: &cri::PodSandboxConfig,
        target_id: Option<String>,
    ) -> Result<cri::ContainerConfig, StartError> {
        let Self { context, pod, identity, spec, container, wanted, .. } = *self;
        let image = context.images.ensure(pod, identity, container, sandbox_config).await?;
        convert::refuse_root(spec, container, &image).map_err(|why| {
            let pod = record_event::full_name(pod);
            StartError::config(format!("{why} (pod: {pod:?}, container: {})", wanted.name))
        })?;
        let environment = self.environment().await?;
        let mounts = self.mounts(environment.clone()).await?;
        let made = convert::Made {
            environment: &environment,
            mounts,
            image,
            attempt: wanted.attempt,
            step: wanted.step,
            means: &context.node.means,
            target_id,
            profiles: &context.dirs.seccomp(),
            boot: context.runtime.boot(),
        };
        Ok(convert::container(pod, container, made))
    }

    /// Makes the directory of the container's log, and says where the log is.
    async fn make_log_directory(&self) -> Result<PathBuf, StartError> {
        let Identity { namespace, name, uid } = self.identity;
        let log = self.context.dirs.pod_logs(namespace, name, uid);
        let log = log.join(convert::log_path(self.wanted.name, self.wanted.attempt));
        if let Some(parent) = log.parent() {
            let made = tokio::fs::create_dir_all(parent).await;
            made.map_err(|error| StartError::config(format!("{}: {error}", parent.display())))?;
        }
        Ok(log)
    }

    /// Links to the log where collectors look for it. Nothing depends on the link.
    async fn link_log(&self, id: &str, log: PathBuf) {
        let container = self.wanted.name;
        let name = links::name((self.identity.namespace, self.identity.name), container, id);
        let dirs = self.context.dirs.clone();
        let made = tokio::task::spawn_blocking(move || links::make(&dirs, &name, &log)).await;
        if let Ok(Err(error)) = made {
            tracing::warn!(container, id, %error, "there is no link to a container's log");
        }
    }

    /// Limits the pod as a whole, unless that was done for good.
    async fn limit_pod(&self) {
        let (context, uid) = (self.context, self.identity.uid);
        if !context.pod_cache.with(uid, |state| state.limited) {
            let limited = context.groups.limit(self.pod, &context.pods.state()).await;
            context.pod_cache.with(uid, |state| state.limited = limited);
        }
    }

    /// The container's variables: its own, those of ConfigMaps and Secrets, and those of services.
    async fn environment(&self) -> Result<Environment, StartError> {
        let Self { context, pod, identity, container, sandbox, .. } = *self;
        let references = references::of_env(container);
        let (objects, services) = futures::join!(
            fetch::objects((&context.client, context.node.api_ca.as_deref()), identity.namespace, references),
            fetch::service_variables(&context.client, &context.node.services, pod, identity.namespace)
        );
        let (host_ips, pod_ips) = (context.node.addresses.ips(), context.sandbox_ips(pod, sandbox));
        let allocatable = context.node.allocatable;
        let downward = Downward { pod, host_ips: &host_ips, pod_ips: &pod_ips, allocatable };
        env::build(container, services, &objects, &downward).map_err(StartError::config)
    }

    /// The container's mounts, with the files that they need.
    async fn mounts(&self, environment: Environment) -> Result<Vec<cri::Mount>, StartError> {
        let Self { context, pod, identity, container, sandbox, wanted, .. } = *self;
        let attempt = wanted.attempt;
        let names = convert::host_names(pod, &context.node.name, &context.node.dns.domain);
        let (path, ips) = (context.dirs.etc_hosts(identity.uid), sandbox.ips.clone());
        let message = context.dirs.termination_message(identity.uid, &container.name, attempt);
        let recursive =
            volumes::may_be_recursive(container) && context.runtime.can(Ability::RecursiveReadOnly).await;
        let (dirs, pod, container) = (context.dirs.clone(), pod.clone(), container.clone());
        let done = tokio::task::spawn_blocking(move || {
            // Read each time: it is the node's, and may change.
            let nodes = std::fs::read_to_string(NODES_HOSTS).unwrap_or_default();
            let hosts = convert::etc_hosts(&pod, &names, &ips, &nodes);
            write_if_changed(&path, &hosts).map_err(|error| format!("{}: {error}", path.display()))?;
            volumes::make_termination_message_file(&message, attempt).map_err(|error| with_causes(&error))?;
            let places =
                Places { dirs: &dirs, pod: &pod, etc_hosts: path, termination_message: message, recursive };
            volumes::of_container(&places, &container, &environment).map_err(|error| with_causes(&error))
        });
        done.await.unwrap_or_else(|error| Err(error.to_string())).map_err(StartError::config)
    }
}

/// The container whose processes an ephemeral one is to see.
fn target(spec: &PodSpec, observed: &Observed, name: &str) -> Option<String> {
    let ephemeral = spec.ephemeral_containers.iter().flatten().find(|container| container.name == name)?;
    let target = ephemeral.target_container_name.as_deref().filter(|name| !name.is_empty())?;
    observed.latest(target).map(|container| container.id.clone())
}

/// Records an event of a container that does not start: what its status says.
fn record_failure(context: &Context, pod: &Pod, name: &str, error: &StartError) {
    let (StartError::Failed(waiting) | StartError::RetryAt(waiting, _)) = error else { return };
    // Images have events of their own, and of them only the reason is repeated.
    let about_image = waiting.reason.contains("Image");
    let text = if about_image { &waiting.reason } else { &waiting.message };
    context.events.container(pod, name, Severity::Warning, reason::FAILED, format!("Error: {text}"));
}

fn write_if_changed(path: &std::path::Path, text: &str) -> std::io::Result<()> {
    if std::fs::read_to_string(path).is_ok_and(|now| now == text) {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    // In place: containers that run have this very file. They read it as whoever they are.
    std::fs::write(path, text)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(HOSTS_MODE))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn hosts_are_written_in_place_and_for_everybody() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("pod/etc-hosts");
        write_if_changed(&path, "one").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let mut held = fs::File::open(&path).unwrap();
        write_if_changed(&path, "one").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "nothing changed");
        write_if_changed(&path, "other").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!(std::io::read_to_string(&mut held).unwrap(), "other", "a container that runs sees it");
    }
}
