//! Creates the sandbox of a pod.

use k8s_openapi::api::core::v1::Pod;
use wire::cri;

use super::{
    cache::Blocked, context::Context, identity::Identity, progress::Progress, record_event,
    unsupported,
};
use crate::{
    convert::{self, NodeDns},
    observed::CreatedItem,
    status::Waiting,
};

/// Creates the pod's sandbox number `attempt`, or stores why it failed.
pub(super) async fn create(
    context: &Context,
    pod: &Pod,
    identity: &Identity<'_>,
    attempt: u32,
) -> Progress {
    let now = clock::now();
    if let Some(at) = context
        .pod_cache
        .with(identity.uid, |state| state.held_up_until(now))
    {
        return Progress::retry_at(at);
    }
    if attempt > 0 {
        record_event::sandbox_changed(&context.events, pod);
    }
    let config = config(context, pod, attempt).await;
    let made = run(context, pod, config).await;
    context.pod_cache.with(identity.uid, |state| match made {
        Ok(id) => {
            state.held_up = None;
            // The runtime has created the control group anew, without limits.
            state.has_final_limits = false;
            Progress::created(CreatedItem::Sandbox { id, attempt })
        }
        Err(error) => {
            let message = format!("Failed to create pod sandbox: {error}");
            record_event::sandbox_failed(&context.events, pod, &message);
            // Logged once, not at each attempt.
            if state
                .held_up
                .as_ref()
                .is_none_or(|before| before.waiting.message != message)
            {
                tracing::warn!(
                    namespace = pod.metadata.namespace,
                    pod = pod.metadata.name, %error,
                    "failed to create pod sandbox"
                );
            }
            let waiting = Waiting::new("ContainerCreating", message);
            let blocked = Blocked::next(state.held_up.as_ref(), waiting, now);
            let at = blocked.retry_at;
            state.held_up = Some(blocked);
            Progress::retry_at(at)
        }
    })
}

/// Runs the sandbox and returns its id, or the reason of failure.
async fn run(
    context: &Context,
    pod: &Pod,
    config: cri::PodSandboxConfig,
) -> Result<String, String> {
    if let Some(why) = unsupported::in_pod(context, pod).await {
        return Err(why);
    }
    let made = clock::fs::create_dir_all(&config.log_directory).await;
    made.map_err(|error| format!("{}: {error}", config.log_directory))?;
    let handler = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.runtime_class_name.clone())
        .unwrap_or_default();
    let made = context
        .sandbox_limit
        .run(context.runtime.run_sandbox(config, handler))
        .await;
    context.runtime_changed.notify_one();
    made.map_err(|error| error.to_string())
}

/// Returns the configuration of the pod's sandbox number `attempt`.
pub(super) async fn config(context: &Context, pod: &Pod, attempt: u32) -> cri::PodSandboxConfig {
    let dns = &context.node.dns;
    // If neither pod nor cluster adds to the node's configuration, the runtime uses that by itself.
    let merged = dns.is_custom
        || !dns.servers.is_empty()
        || pod
            .spec
            .as_ref()
            .is_some_and(|spec| spec.dns_config.is_some());
    let node_config = if merged {
        clock::fs::read_to_string(&context.node.resolv_conf)
            .await
            .ok()
    } else {
        None
    };
    let node_config = convert::parse_resolv_conf(&node_config.unwrap_or_default());
    let mut config = convert::sandbox(
        pod,
        attempt,
        &context.dirs,
        &NodeDns {
            node_config,
            ..dns.clone()
        },
    );
    if let Some(linux) = &mut config.linux {
        linux.cgroup_parent = context.groups.cgroup_parent(pod).await;
    }
    config
}
