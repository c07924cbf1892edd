//! Restarts the containers of a pod on demand.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use wire::cri;

use crate::{
    RuntimeChannel, names,
    runtime::{CallError, Runtime},
};

/// How long a container may take to stop; EdgeCore's.
const GRACE: Duration = Duration::from_secs(3);

/// Stops the running containers of a pod, but not its init containers; EdgeD starts them again as `restartPolicy` says.
///
/// # Errors
/// The runtime does not answer in time, or returns an error.
pub async fn restart_containers(channel: RuntimeChannel, pod: &Pod) -> Result<(), CallError> {
    let runtime = Runtime::new(channel, None);
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    let filter = cri::ContainerFilter {
        state: Some(cri::ContainerStateValue {
            state: cri::ContainerState::ContainerRunning.into(),
        }),
        label_selector: [(names::POD_UID.to_owned(), uid)].into(),
        ..Default::default()
    };
    let is_main = |container: &cri::Container| {
        let name = container.labels.get(names::CONTAINER_NAME);
        let mut all = pod.spec.iter().flat_map(|spec| &spec.containers);
        all.any(|one| Some(&one.name) == name)
    };
    let running = runtime.containers(Some(filter)).await?;
    for container in running.into_iter().filter(is_main) {
        runtime.stop_container(&container.id, GRACE).await?;
    }
    Ok(())
}
