//! The state of a container runtime for a bug report: version, conditions, pods, containers and images, without environment variables,
//! annotations and mounts, which may contain secrets.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use tokio::time::timeout;

use super::{RuntimeChannel, names, runtime::Runtime, runtime_info::RuntimeInfoError};

/// How long the runtime may take for all these calls together.
const RUNTIME_TIMEOUT: Duration = Duration::from_secs(20);

/// The state of a container runtime.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeState {
    name: String,
    version: String,
    api_version: String,
    conditions: Vec<Condition>,
    pods: Vec<PodEntry>,
    containers: Vec<ContainerEntry>,
    images: Vec<ImageEntry>,
}

#[derive(Clone, Debug, Serialize)]
struct Condition {
    r#type: String,
    status: bool,
    reason: String,
    message: String,
}

#[derive(Clone, Debug, Serialize)]
struct PodEntry {
    id: String,
    namespace: String,
    name: String,
    uid: String,
    state: String,
    created: String,
}

#[derive(Clone, Debug, Serialize)]
struct ContainerEntry {
    id: String,
    pod: String,
    name: String,
    image: String,
    attempt: u32,
    state: String,
    created: String,
}

#[derive(Clone, Debug, Serialize)]
struct ImageEntry {
    id: String,
    tags: Vec<String>,
    bytes: u64,
}

/// Reads the state of the runtime behind `channel`.
///
/// # Errors
/// The runtime does not answer.
pub async fn runtime_state(channel: RuntimeChannel) -> Result<RuntimeState, RuntimeInfoError> {
    let late =
        |_| RuntimeInfoError::NoAnswer(format!("no answer within {} s", RUNTIME_TIMEOUT.as_secs()));
    timeout(RUNTIME_TIMEOUT, read(Runtime::new(channel, None)))
        .await
        .map_err(late)?
}

async fn read(runtime: Runtime) -> Result<RuntimeState, RuntimeInfoError> {
    let version = runtime.version().await?;
    let status = runtime.status().await?.status.unwrap_or_default();
    let pods = runtime.sandboxes(None).await?.into_iter().map(|pod| {
        let metadata = pod.metadata.clone().unwrap_or_default();
        PodEntry {
            state: pod.state().as_str_name().to_owned(),
            created: time(pod.created_at),
            id: pod.id,
            namespace: metadata.namespace,
            name: metadata.name,
            uid: metadata.uid,
        }
    });
    let containers = runtime.containers(None).await?.into_iter().map(|one| {
        let metadata = one.metadata.clone().unwrap_or_default();
        let label = |name| one.labels.get(name).map_or("", String::as_str);
        ContainerEntry {
            pod: format!("{}/{}", label(names::POD_NAMESPACE), label(names::POD_NAME)),
            state: one.state().as_str_name().to_owned(),
            created: time(one.created_at),
            image: one
                .image
                .as_ref()
                .map(|image| image.image.clone())
                .unwrap_or_default(),
            name: metadata.name,
            attempt: metadata.attempt,
            id: one.id,
        }
    });
    let images = runtime
        .list_images()
        .await?
        .into_iter()
        .map(|image| ImageEntry {
            id: image.id,
            tags: image.repo_tags,
            bytes: image.size,
        });
    let conditions = status.conditions.into_iter().map(|one| Condition {
        r#type: one.r#type,
        status: one.status,
        reason: one.reason,
        message: one.message,
    });
    Ok(RuntimeState {
        name: version.runtime_name,
        version: version.runtime_version,
        api_version: version.runtime_api_version,
        conditions: conditions.collect(),
        pods: pods.collect(),
        containers: containers.collect(),
        images: images.collect(),
    })
}

/// Returns a time of CRI, which is in nanoseconds.
fn time(nanos: i64) -> String {
    let time = Timestamp::from_nanosecond(nanos.into());
    time.map_or_else(|_| nanos.to_string(), |time| format!("{time:.3}"))
}
