//! Runs a lifecycle hook of a container: once, and its output is nobody's.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, LifecycleHandler};

use super::{
    http,
    target::{Target, of_hook},
};
use crate::edged::runtime::Runtime;

/// Runs the hook of the container `id`, in a pod with this address, for at most `limit`.
pub(crate) async fn run(
    runtime: &Runtime,
    hook: &LifecycleHandler,
    (container, id): (&Container, &str),
    pod_ip: &str,
    limit: Duration,
) -> Result<(), String> {
    let target = of_hook(hook, container, pod_ip)?;
    let done = async {
        match &target {
            Target::Exec(command) => match runtime.exec(id, command, limit).await {
                Ok(answer) if answer.exit_code == 0 => Ok(()),
                Ok(answer) => Err(format!("command exited with {}", answer.exit_code)),
                Err(error) => Err(error.message().to_owned()),
            },
            Target::Http(page) => http::get(&**runtime.network(), page).await.map(drop),
            Target::Tcp(address) => http::connect(&**runtime.network(), address).await.map(drop),
            Target::Sleep(seconds) => {
                tokio::time::sleep(Duration::from_secs(*seconds)).await;
                Ok(())
            }
            Target::Grpc(..) => Err("a hook has no gRPC".into()),
        }
    };
    let ended = tokio::time::timeout(limit, done).await;
    ended.unwrap_or_else(|_| Err(format!("it did not end within {} s", limit.as_secs())))
}
