//! The calls that keep the node tidy: images, logs.

use wire::cri;

use super::{CALL_TIMEOUT, Result, Runtime, gone_is_fine, limited};

impl Runtime {
    /// The image that the runtime makes sandboxes from, where it tells: containerd has it in its verbose status. A node that
    /// lost it could start no pod before it is pulled again.
    pub(crate) async fn sandbox_image(&self) -> Result<Option<String>> {
        let request = cri::StatusRequest { verbose: true };
        let answer = limited("Status", CALL_TIMEOUT, self.runtime.clone().status(request)).await?;
        let config = answer.info.get("config").and_then(|text| serde_json::from_str(text).ok());
        let config: serde_json::Value = config.unwrap_or_default();
        Ok(config.get("sandboxImage").and_then(serde_json::Value::as_str).map(str::to_owned))
    }

    /// Tells the runtime which addresses the cloud gives to this node's pods: one range of each family, with commas between them.
    pub(crate) async fn set_pod_cidr(&self, ranges: &str) -> Result<()> {
        let network_config = Some(cri::NetworkConfig { pod_cidr: ranges.to_owned() });
        let runtime_config = Some(cri::RuntimeConfig { network_config });
        let request = cri::UpdateRuntimeConfigRequest { runtime_config };
        limited("UpdateRuntimeConfig", CALL_TIMEOUT, self.runtime.clone().update_runtime_config(request))
            .await
            .map(drop)
    }

    /// All images on this node.
    pub(crate) async fn list_images(&self) -> Result<Vec<cri::Image>> {
        let request = cri::ListImagesRequest::default();
        Ok(limited("ListImages", CALL_TIMEOUT, self.images.clone().list_images(request)).await?.images)
    }

    /// Removes an image and all of its names.
    pub(crate) async fn remove_image(&self, id: &str) -> Result<()> {
        let image = Some(cri::ImageSpec { image: id.to_owned(), ..Default::default() });
        let request = cri::RemoveImageRequest { image };
        gone_is_fine(limited("RemoveImage", CALL_TIMEOUT, self.images.clone().remove_image(request)).await)
            .map(drop)
    }

    /// Where the container logs to; `None` when it is gone, empty when it has no log.
    pub(crate) async fn log_path(&self, id: &str) -> Result<Option<String>> {
        Ok(self.container_status(id).await?.map(|status| status.log_path))
    }

    /// Makes the container's log anew, after its file was moved.
    pub(crate) async fn reopen_log(&self, id: &str) -> Result<()> {
        let request = cri::ReopenContainerLogRequest { container_id: id.to_owned() };
        limited("ReopenContainerLog", CALL_TIMEOUT, self.runtime.clone().reopen_container_log(request))
            .await
            .map(drop)
    }
}
