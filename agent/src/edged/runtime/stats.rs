//! The calls that ask what pods use.

use wire::cri;

use super::{CALL_TIMEOUT, Result, Runtime, limited};
use crate::edged::stats::pid_in;

impl Runtime {
    /// What each running container uses.
    pub(crate) async fn container_stats(&self) -> Result<Vec<cri::ContainerStats>> {
        let request = cri::ListContainerStatsRequest::default();
        Ok(limited("ListContainerStats", CALL_TIMEOUT, self.runtime.clone().list_container_stats(request))
            .await?
            .stats)
    }

    /// What each pod uses as a whole.
    pub(crate) async fn sandbox_stats(&self) -> Result<Vec<cri::PodSandboxStats>> {
        let request = cri::ListPodSandboxStatsRequest::default();
        let mut client = self.runtime.clone();
        Ok(limited("ListPodSandboxStats", CALL_TIMEOUT, client.list_pod_sandbox_stats(request)).await?.stats)
    }

    /// The first process of a sandbox, where the runtime tells it.
    pub(crate) async fn sandbox_pid(&self, id: &str) -> Result<Option<u32>> {
        let request = cri::PodSandboxStatusRequest { pod_sandbox_id: id.to_owned(), verbose: true };
        let mut client = self.runtime.clone();
        let answer = limited("PodSandboxStatus", CALL_TIMEOUT, client.pod_sandbox_status(request)).await?;
        Ok(pid_in(&answer.info))
    }

    /// The disks of images and of containers' own layers.
    pub(crate) async fn image_fs(&self) -> Result<cri::ImageFsInfoResponse> {
        let request = cri::ImageFsInfoRequest {};
        limited("ImageFsInfo", CALL_TIMEOUT, self.images.clone().image_fs_info(request)).await
    }
}
