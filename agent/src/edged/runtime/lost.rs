//! Starts that containerd has lost. A call that is cut off in the middle, because agent or containerd was killed, can leave a task
//! that runs below a container of which CRI says that it was never started, or that its start failed: CRI does not stop it,
//! and either refuses to remove the container or leaves the processes behind. containerd's own service of tasks, on the same
//! socket, knows them all.
//!
//! Source: containerd 1.6, `pkg/cri/server/container_start.go` and `runtime/v2/manager.go`.

use std::time::Duration;

use nix::sys::signal::Signal;
use tonic::{Code, Request, metadata::MetadataValue};
use wire::containerd::{
    CRI, DeleteTaskRequest, GetRequest, KillRequest, NAMESPACE, Status as TaskStatus, WaitRequest,
};

use super::{Result, Runtime, limited};

/// What the runtime that has this service calls itself.
pub(super) const CONTAINERD: &str = "containerd";
/// For each call: whoever waits for it has others to look after.
const TASK_CALL_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn request<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert(NAMESPACE, MetadataValue::from_static(CRI));
    request
}

/// `None`: there is no such task, or no service of tasks.
fn found<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if matches!(error.status.code(), Code::NotFound | Code::Unimplemented) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Runtime {
    /// Ends what runs below a container or sandbox that, as CRI has it, does not run. What cannot be ended is only told: the
    /// removal that comes next is tried all the same, and tried again.
    pub(crate) async fn end_lost(&self, id: &str) {
        if !self.name().await.is_ok_and(|name| name == CONTAINERD) {
            return;
        }
        match self.end_task(id).await {
            Ok(false) => {}
            Ok(true) => tracing::info!(id, "a start that the container runtime has lost is ended"),
            Err(error) => {
                tracing::warn!(id, error = &error as &dyn std::error::Error, "a lost start is not ended");
            }
        }
    }

    /// Whether there was a task.
    async fn end_task(&self, id: &str) -> Result<bool> {
        let (container_id, exec_id) = (id.to_owned(), String::new());
        let mut tasks = self.tasks.clone();
        let get = GetRequest { container_id: container_id.clone(), exec_id: exec_id.clone() };
        let Some(task) = found(limited("Tasks.Get", TASK_CALL_TIMEOUT, tasks.get(request(get))).await)?
        else {
            return Ok(false);
        };
        if task.process.is_none_or(|process| process.status() != TaskStatus::Stopped) {
            let signal = Signal::SIGKILL as u32;
            let kill = KillRequest { container_id: container_id.clone(), exec_id, signal, all: true };
            // One that ends by itself meanwhile cannot be killed: the wait tells.
            if let Err(error) =
                found(limited("Tasks.Kill", TASK_CALL_TIMEOUT, tasks.kill(request(kill))).await)
            {
                tracing::debug!(id, error = &error as &dyn std::error::Error, "not killed");
            }
            let wait = WaitRequest { container_id: container_id.clone(), exec_id: String::new() };
            found(limited("Tasks.Wait", TASK_CALL_TIMEOUT, tasks.wait(request(wait))).await)?;
        }
        found(
            limited(
                "Tasks.Delete",
                TASK_CALL_TIMEOUT,
                tasks.delete(request(DeleteTaskRequest { container_id })),
            )
            .await,
        )?;
        Ok(true)
    }

    /// What the runtime calls itself; asked until it has said so.
    pub(crate) async fn name(&self) -> Result<&str> {
        let name = self.name.get_or_try_init(|| async { Ok(self.version().await?.runtime_name) });
        Ok(name.await?)
    }
}

#[cfg(test)]
mod tests;
