//! Rotates large logs. The runtime is called only if a log is too large.

use wire::cri;

use super::{keeper::Keeper, logs};
use wire::text::with_causes;

use crate::{names, runtime::CallError};

impl Keeper {
    /// Rotates the logs that are too large.
    pub(super) async fn rotate(&self) -> Result<(), CallError> {
        let Some(most) = self.limits.log_max_size else {
            return Ok(());
        };
        let root = self.deps.dirs.logs.clone();
        let large = componentbase::spawn_blocking(move || logs::large_logs(&root, most))
            .await
            .unwrap_or_default();
        if large.is_empty() {
            return Ok(());
        }
        let state = cri::ContainerStateValue {
            state: cri::ContainerState::ContainerRunning as i32,
        };
        let filter = cri::ContainerFilter {
            state: Some(state),
            ..Default::default()
        };
        let running = self.deps.runtime.containers(Some(filter)).await?;
        for log in large {
            // The log of an ended container does not grow, and an empty new file would replace it.
            let writer = running.iter().find(|container| {
                let label = |name: &str| container.labels.get(name).map(String::as_str);
                label(names::POD_UID) == Some(&log.uid)
                    && label(names::CONTAINER_NAME) == Some(&log.container)
                    && container
                        .metadata
                        .as_ref()
                        .is_some_and(|metadata| metadata.attempt == log.attempt)
            });
            if let Some(container) = writer
                && let Err(error) = self.rotate_one(&container.id, &log).await
            {
                tracing::warn!(
                    container = log.container,
                    error,
                    "failed to rotate container log; retrying"
                );
            }
        }
        Ok(())
    }

    async fn rotate_one(&self, id: &str, log: &logs::LargeLog) -> Result<(), String> {
        let (path, most) = (log.path.clone(), self.limits.log_max_files as usize);
        let renamed = componentbase::spawn_blocking(move || {
            logs::prepare_rotation(&path, most)?;
            logs::rename_current(&path, clock::now())
        });
        let renamed = renamed
            .await
            .map_err(|error| error.to_string())?
            .map_err(|error| with_causes(&error))?;
        if let Err(error) = self.deps.runtime.reopen_log(id).await {
            logs::rename_back(&renamed, &log.path).map_err(|error| with_causes(&error))?;
            return Err(error.to_string());
        }
        tracing::debug!(container = log.container, path = %log.path.display(), "container log rotated");
        Ok(())
    }
}
