//! The calls about containers that take time.

use std::{
    path::PathBuf,
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::time::{Instant, sleep_until};
use tonic::Status;
use wire::cri::{CreateContainerRequest, ExecSyncRequest, ExecSyncResponse};

use super::{Refusal, Service, new_id, pause};
use crate::runtime::{attached::Source, core::Core, exec, files, own_command};

impl Service {
    pub(super) fn create(&self, request: CreateContainerRequest) -> Result<String, Status> {
        let id = new_id();
        self.core
            .change(|state, now| state.create_container(id.clone(), request, now))?;
        Ok(id)
    }

    /// Starts a container. The log is written before the container is seen running. Returns why the container does less than it would with
    /// a real runtime.
    pub(super) async fn start(&self, id: &str) -> Result<Option<String>, Status> {
        let (behaviour, log_path, command, name) = self.core.read(|state| {
            let behaviour = state.startable(id)?;
            let container = state.container(id)?;
            let (log_path, command) = (container.log_path().cloned(), container.command_line());
            Ok::<_, Refusal>((behaviour, log_path, command, container.name().to_owned()))
        })?;
        pause(self.core.options.start_latency.max(behaviour.start_delay)).await;
        let (now, later): (Vec<_>, Vec<_>) = behaviour
            .log_lines
            .iter()
            .cloned()
            .partition(|(at, _)| at.is_zero());
        let failure = match (behaviour.start_error.clone(), log_path.clone()) {
            (Some(message), _) => Some(message),
            (None, Some(path)) => {
                let announced = behaviour
                    .is_announced
                    .then(|| format!("started: {}", command.replace('\n', " ")));
                let lines = announced
                    .into_iter()
                    .chain(now.into_iter().map(|(_, line)| line))
                    .collect();
                write_log(path, lines).await.err()
            }
            (None, None) => None,
        };
        if let Some(message) = failure {
            self.core
                .change(|state, now| state.fail_start(id, &message, now));
            return Err(Status::unknown(format!(
                "failed to start container {id:?}: {message}"
            )));
        }
        self.core
            .change(|state, now| state.start_container(id, now))?;
        if behaviour.live.is_some() {
            own_command::start(&self.core, id);
        }
        if !later.is_empty() {
            tokio::spawn(write_later(
                Arc::downgrade(&self.core),
                id.to_owned(),
                log_path,
                later,
            ));
        }
        let warning = behaviour.unread.as_ref().map(|why| {
            format!("container {name}: cannot run its script: {why}; set annotations sim.outrigger.dev/{name}.… instead")
        });
        if let Some(warning) = &warning {
            tracing::warn!(
                container = name,
                id,
                warning,
                "cannot run script of a simulated container"
            );
        }
        Ok(warning)
    }

    /// Returns when the container has ended. If the client leaves before, the container ends nevertheless.
    pub(super) async fn stop(&self, id: &str, timeout_seconds: i64) -> Result<(), Status> {
        let grace = Duration::from_secs(u64::try_from(timeout_seconds).unwrap_or(0));
        self.core
            .change(|state, now| state.stop_container(id, grace, now))?;
        self.core.until_ended(id).await;
        Ok(())
    }

    /// Reopens the log file. It is opened at every write anyway, so it only has to exist again.
    pub(super) async fn reopen_log(&self, id: &str) -> Result<(), Status> {
        let path = self
            .core
            .read(|state| Ok::<_, Refusal>(state.running(id)?.log_path))?;
        let Some(path) = path else { return Ok(()) };
        write_log(path, Vec::new()).await.map_err(Status::unknown)
    }

    pub(super) async fn run_command(
        &self,
        request: ExecSyncRequest,
    ) -> Result<ExecSyncResponse, Status> {
        let ExecSyncRequest {
            container_id,
            cmd,
            timeout,
        } = request;
        let limit = u64::try_from(timeout)
            .ok()
            .filter(|seconds| *seconds > 0)
            .map(Duration::from_secs);
        exec::run(&self.core, &container_id, &cmd, limit).await
    }
}

/// Writes lines at their times while the container runs; ends with it, or with the runtime.
async fn write_later(
    core: Weak<Core>,
    id: String,
    path: Option<PathBuf>,
    lines: Vec<(Duration, String)>,
) {
    let started = Instant::now();
    for (at, line) in lines {
        // The line's time is too far in the future, so it is never written.
        let Some(due) = started.checked_add(at) else {
            return;
        };
        sleep_until(due).await;
        let Some(core) = core
            .upgrade()
            .filter(|core| core.read(|state| state.ran_for(&id, at)))
        else {
            return;
        };
        let seen = format!("{line}\n").into();
        // An unwritable log was already reported at the start.
        if let Some(path) = path.clone()
            && write_log(path, vec![line]).await.is_err()
        {
            return;
        }
        core.attached.notify(&id, Source::Stdout, &seen).await;
    }
}

async fn write_log(path: PathBuf, lines: Vec<String>) -> Result<(), String> {
    let failed = |path: &PathBuf, e| format!("failed to open log file {path:?}: {e}");
    let written =
        blocking(move || files::log(&path, &lines, clock::now()).map_err(|e| failed(&path, e)));
    written
        .await
        .map_err(|status| status.message().to_owned())?
}

async fn blocking<T: Send + 'static>(
    act: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Status> {
    clock::spawn_blocking(act)
        .await
        .map_err(|e| Status::internal(e.to_string()))
}
