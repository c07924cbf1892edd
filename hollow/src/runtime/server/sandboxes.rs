//! The calls about sandboxes.

use tonic::Status;
use wire::cri::{PodSandboxStats, PodSandboxStatusResponse, RunPodSandboxRequest};

use super::{Refusal, Service, new_id, pause};

impl Service {
    pub(super) async fn run_sandbox(
        &self,
        request: RunPodSandboxRequest,
    ) -> Result<String, Status> {
        let config = request
            .config
            .ok_or_else(|| Status::invalid_argument("config is missing"))?;
        pause(self.core.options.start_latency).await;
        let id = new_id();
        self.core.change(|state, now| {
            state.run_sandbox(id.clone(), config, request.runtime_handler, now)
        })?;
        Ok(id)
    }

    pub(super) fn sandbox_status(&self, id: &str) -> Result<PodSandboxStatusResponse, Status> {
        Ok(self.core.with_state(|state, timestamp| {
            let sandbox = state.sandbox(id)?;
            let containers_statuses = state.statuses_in(sandbox);
            let status = Some(sandbox.status());
            Ok::<_, Refusal>(PodSandboxStatusResponse {
                status,
                containers_statuses,
                timestamp,
                ..Default::default()
            })
        })?)
    }

    pub(super) fn sandbox_stats(&self, id: &str) -> Result<PodSandboxStats, Status> {
        Ok(self
            .core
            .with_state(|state, now| Ok::<_, Refusal>(state.stats_of(state.sandbox(id)?, now)))?)
    }
}
