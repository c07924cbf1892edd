//! Ends tasks that containerd's CRI plugin has lost. A start that is interrupted because the agent or containerd was killed can
//! leave a running task whose container, according to CRI, was never started or failed to start. CRI does not stop it, and either
//! refuses to remove the container or leaves the processes behind. containerd's own task service, on the same socket, knows them
//! all.
//!
//! Source: containerd 1.6, `pkg/cri/server/container_start.go` and `runtime/v2/manager.go`.

use std::time::Duration;

use nix::sys::signal::Signal;
use tonic::{Code, Request, metadata::MetadataValue};
use wire::containerd::{
    CRI, DeleteTaskRequest, GetRequest, KillRequest, NAMESPACE, Status as TaskStatus, WaitRequest,
};

use super::{Result, Runtime, with_timeout};

/// Name of the runtime that has this service.
pub(super) const CONTAINERD: &str = "containerd";
/// Timeout of each call of the task service.
const TASK_CALL_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn task_request<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request
        .metadata_mut()
        .insert(NAMESPACE, MetadataValue::from_static(CRI));
    request
}

/// Returns `None` if there is no such task, or no task service.
fn missing_as_none<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if matches!(error.status.code(), Code::NotFound | Code::Unimplemented) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

impl Runtime {
    /// Ends the task of a container or sandbox that does not run according to CRI. A failure is only logged: the removal that
    /// comes next is attempted anyway and retried.
    pub(crate) async fn end_lost_task(&self, id: &str) {
        if !self.name().await.is_ok_and(|name| name == CONTAINERD) {
            return;
        }
        match self.end_task(id).await {
            Ok(false) => {}
            Ok(true) => tracing::info!(id, "lost container task stopped"),
            Err(error) => {
                tracing::warn!(
                    id,
                    error = &error as &dyn std::error::Error,
                    "failed to stop a lost container task"
                );
            }
        }
    }

    /// Kills and deletes the task of a container, and reports whether there was one.
    async fn end_task(&self, id: &str) -> Result<bool> {
        let (container_id, exec_id) = (id.to_owned(), String::new());
        let mut tasks = self.tasks.clone();
        let get = GetRequest {
            container_id: container_id.clone(),
            exec_id: exec_id.clone(),
        };
        let Some(task) = missing_as_none(
            with_timeout("Tasks.Get", TASK_CALL_TIMEOUT, tasks.get(task_request(get))).await,
        )?
        else {
            return Ok(false);
        };
        if task
            .process
            .is_none_or(|process| process.status() != TaskStatus::Stopped)
        {
            let signal = Signal::SIGKILL as u32;
            let kill = KillRequest {
                container_id: container_id.clone(),
                exec_id,
                signal,
                all: true,
            };
            // A task that has ended meanwhile cannot be killed; the wait below returns then.
            if let Err(error) = missing_as_none(
                with_timeout(
                    "Tasks.Kill",
                    TASK_CALL_TIMEOUT,
                    tasks.kill(task_request(kill)),
                )
                .await,
            ) {
                tracing::debug!(
                    id,
                    error = &error as &dyn std::error::Error,
                    "failed to kill a lost task"
                );
            }
            let wait = WaitRequest {
                container_id: container_id.clone(),
                exec_id: String::new(),
            };
            missing_as_none(
                with_timeout(
                    "Tasks.Wait",
                    TASK_CALL_TIMEOUT,
                    tasks.wait(task_request(wait)),
                )
                .await,
            )?;
        }
        missing_as_none(
            with_timeout(
                "Tasks.Delete",
                TASK_CALL_TIMEOUT,
                tasks.delete(task_request(DeleteTaskRequest { container_id })),
            )
            .await,
        )?;
        Ok(true)
    }

    /// Returns the runtime's name, requested until the first success.
    pub(crate) async fn name(&self) -> Result<&str> {
        let name = self
            .name
            .get_or_try_init(|| async { Ok(self.version().await?.runtime_name) });
        Ok(name.await?)
    }
}

#[cfg(test)]
mod tests;
