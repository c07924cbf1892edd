//! Starts one container: image, environment, mounts, then create and start.

use std::{os::unix::fs::PermissionsExt, path::PathBuf, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use wire::cri;

use super::{
    Context, Identity,
    act::{Done, held_up_until},
    cache::Blocked,
    fetch, hooks, images, record_event, refuse,
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

/// Which container.
#[derive(Clone, Copy, Debug)]
pub(super) struct What<'a> {
    /// Its name in the pod.
    pub(super) name: &'a str,
    /// How many there were before.
    pub(super) attempt: u32,
    /// How many restarts in a row lead to it.
    pub(super) step: u32,
}

/// Why a container does not start.
pub(super) enum Obstacle {
    /// Something has to end first, and will trigger the pod.
    Pending,
    /// It is tried again later, each time a little later.
    Failed(Waiting),
    /// It is tried again then.
    Until(Waiting, Timestamp),
}

impl Obstacle {
    fn config(message: impl std::fmt::Display) -> Self {
        Self::Failed(Waiting::new("CreateContainerConfigError", message.to_string()))
    }
}

/// Starts the container, or remembers why not.
pub(super) async fn container(
    context: &Arc<Context>,
    pod: &Arc<Pod>,
    identity: &Identity<'_>,
    observed: &Observed,
    what: What<'_>,
) -> Done {
    let now = Timestamp::now();
    let blocked = context.pod_cache.with(identity.uid, |state| {
        let blocked = state.blocked.get(what.name).filter(|blocked| !blocked.is_over(now));
        blocked.map(|blocked| blocked.retry_at)
    });
    if let Some(at) = blocked.or_else(|| held_up_until(context, identity, now)) {
        return Done::again_at(at);
    }
    let (Some(spec), Some(sandbox)) = (&pod.spec, observed.current()) else { return Done::default() };
    let Some(container) = plan::spec_of(pod, what.name) else { return Done::default() };
    let target = target(spec, observed, what.name);
    let result = start(context, pod, identity, (spec, &container, sandbox), (what, target)).await;
    if let Err(obstacle) = &result {
        tell_obstacle(context, pod, what.name, obstacle);
    }
    let last_name = what.name.to_owned();
    context.pod_cache.with(identity.uid, |state| {
        let blocked = match result {
            Ok(id) => {
                state.blocked.remove(what.name);
                return Done::made(Made::Container { id, sandbox_id: sandbox.id.clone() });
            }
            Err(Obstacle::Pending) => {
                state.blocked.remove(what.name);
                return Done::default();
            }
            Err(Obstacle::Failed(waiting)) => Blocked::after(state.blocked.get(what.name), waiting, now),
            Err(Obstacle::Until(waiting, retry_at)) => Blocked { waiting, failures: 0, retry_at },
        };
        let at = blocked.retry_at;
        state.blocked.insert(last_name, blocked);
        Done::again_at(at)
    })
}

/// Says the container's id.
async fn start(
    context: &Arc<Context>,
    pod: &Arc<Pod>,
    identity: &Identity<'_>,
    (spec, container, sandbox): (&PodSpec, &Container, &Sandbox),
    (what, target_id): (What<'_>, Option<String>),
) -> Result<String, Obstacle> {
    if let Some(why) = refuse::container(context, container).await {
        return Err(Obstacle::config(why));
    }
    let config = context.sandbox_config(pod, sandbox.attempt).await;
    let image = images::ensure(context, pod, identity, container, &config).await?;
    convert::refuse_root(spec, container, &image).map_err(|why| {
        Obstacle::config(format!("{why} (pod: {:?}, container: {})", record_event::full_name(pod), what.name))
    })?;
    let environment = environment(context, pod, identity, container, sandbox).await?;
    let mounts =
        mounts(context, pod, identity, (container, what.attempt), (sandbox, environment.clone())).await?;
    let log = context.dirs.pod_logs(identity.namespace, identity.name, identity.uid);
    let log = log.join(convert::log_path(what.name, what.attempt));
    if let Some(parent) = log.parent() {
        let made = tokio::fs::create_dir_all(parent).await;
        made.map_err(|error| Obstacle::config(format!("{}: {error}", parent.display())))?;
    }
    let made = convert::Made {
        environment: &environment,
        mounts,
        image,
        attempt: what.attempt,
        step: what.step,
        means: &context.means,
        target_id,
        profiles: &context.dirs.seccomp(),
        boot: context.runtime.boot(),
    };
    let wanted = convert::container(pod, container, made);
    limit(context, pod, identity.uid).await;
    let created = context.runtime.create_container(&sandbox.id, wanted, config).await;
    let id = created.map_err(|e| Obstacle::Failed(Waiting::new("CreateContainerError", e.message())))?;
    let tell = |reason, text| context.events.container(pod, what.name, Severity::Normal, reason, text);
    tell(reason::CREATED, format!("Created container: {}", what.name));
    let started = context.runtime.start_container(&id).await;
    context.moved.notify_one();
    started.map_err(|e| Obstacle::Failed(Waiting::new("RunContainerError", e.message())))?;
    link_log(context, identity, (what.name, &id), log).await;
    limit(context, pod, identity.uid).await;
    tell(reason::STARTED, format!("Started container {}", what.name));
    let ips = pod_ips(context, pod, sandbox).into_iter();
    hooks::post_start(context, pod, container, &id, ips.take(1).collect()).await;
    Ok(id)
}

/// Links to the log where collectors look. Nothing depends on it.
async fn link_log(context: &Context, identity: &Identity<'_>, (container, id): (&str, &str), log: PathBuf) {
    let name = links::name((identity.namespace, identity.name), container, id);
    let dirs = context.dirs.clone();
    let made = tokio::task::spawn_blocking(move || links::make(&dirs, &name, &log)).await;
    if let Ok(Err(error)) = made {
        tracing::warn!(container, id, %error, "there is no link to a container's log");
    }
}

/// Limits the pod as a whole, unless that was done for good.
async fn limit(context: &Context, pod: &Pod, uid: &str) {
    if !context.pod_cache.with(uid, |state| state.limited) {
        let limited = context.groups.limit(pod, &context.pods.state()).await;
        context.pod_cache.with(uid, |state| state.limited = limited);
    }
}

/// The container whose processes an ephemeral one is to see.
fn target(spec: &PodSpec, observed: &Observed, name: &str) -> Option<String> {
    let ephemeral = spec.ephemeral_containers.iter().flatten().find(|container| container.name == name)?;
    let target = ephemeral.target_container_name.as_deref().filter(|name| !name.is_empty())?;
    observed.latest(target).map(|container| container.id.clone())
}

/// A container that does not start: what its status says is told too.
fn tell_obstacle(context: &Context, pod: &Pod, name: &str, obstacle: &Obstacle) {
    let (Obstacle::Failed(waiting) | Obstacle::Until(waiting, _)) = obstacle else { return };
    // Images tell of themselves, and of them only the word is repeated.
    let about_image = waiting.reason.contains("Image");
    let text = if about_image { &waiting.reason } else { &waiting.message };
    context.events.container(pod, name, Severity::Warning, reason::FAILED, format!("Error: {text}"));
}

/// The addresses of a pod in this sandbox.
fn pod_ips(context: &Context, pod: &Pod, sandbox: &Sandbox) -> Vec<String> {
    if convert::is_host_network(pod) { context.addresses.ips() } else { sandbox.ips.clone() }
}

async fn environment(
    context: &Context,
    pod: &Pod,
    identity: &Identity<'_>,
    container: &Container,
    sandbox: &Sandbox,
) -> Result<Environment, Obstacle> {
    let references = references::of_env(container);
    let (objects, services) = futures::join!(
        fetch::objects((&context.client, context.api_ca.as_deref()), identity.namespace, references),
        fetch::service_variables((&context.client, &context.services), pod, identity.namespace)
    );
    let (host_ips, pod_ips) = (context.addresses.ips(), pod_ips(context, pod, sandbox));
    let downward = Downward { pod, host_ips: &host_ips, pod_ips: &pod_ips, allocatable: context.allocatable };
    env::build(container, services, &objects, &downward).map_err(Obstacle::config)
}

async fn mounts(
    context: &Arc<Context>,
    pod: &Arc<Pod>,
    identity: &Identity<'_>,
    (container, attempt): (&Container, u32),
    (sandbox, environment): (&Sandbox, Environment),
) -> Result<Vec<cri::Mount>, Obstacle> {
    let names = convert::host_names(pod, &context.node_name, &context.dns.domain);
    let (path, ips) = (context.dirs.etc_hosts(identity.uid), sandbox.ips.clone());
    let words = context.dirs.termination_message(identity.uid, &container.name, attempt);
    let recursive =
        volumes::may_be_recursive(container) && context.runtime.can(Ability::RecursiveReadOnly).await;
    let (context, pod, container) = (context.clone(), pod.clone(), container.clone());
    let done = tokio::task::spawn_blocking(move || {
        // Read each time: it is the node's, and may change.
        let nodes = std::fs::read_to_string(NODES_HOSTS).unwrap_or_default();
        let hosts = convert::etc_hosts(&pod, &names, &ips, &nodes);
        write_if_changed(&path, &hosts).map_err(|error| format!("{}: {error}", path.display()))?;
        volumes::make_termination_message_file(&words, attempt).map_err(|error| with_causes(&error))?;
        let places =
            Places { dirs: &context.dirs, pod: &pod, etc_hosts: path, termination_message: words, recursive };
        volumes::of_container(&places, &container, &environment).map_err(|error| with_causes(&error))
    });
    done.await.unwrap_or_else(|error| Err(error.to_string())).map_err(Obstacle::config)
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
