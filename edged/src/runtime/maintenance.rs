//! Calls of node maintenance: images, logs, the pods' address range.

use wire::cri;

use super::{CALL_TIMEOUT, Result, Runtime, ignore_not_found, with_timeout};

impl Runtime {
    /// Returns the image of sandboxes, if the runtime reports it; containerd does in its verbose status. Without that image no
    /// pod could start before it is pulled again.
    pub(crate) async fn sandbox_image(&self) -> Result<Option<String>> {
        let request = cri::StatusRequest { verbose: true };
        let answer =
            with_timeout("Status", CALL_TIMEOUT, self.runtime.clone().status(request)).await?;
        let config = answer
            .info
            .get("config")
            .and_then(|text| serde_json::from_str(text).ok());
        let config: serde_json::Value = config.unwrap_or_default();
        Ok(config
            .get("sandboxImage")
            .and_then(serde_json::Value::as_str)
            .map(str::to_owned))
    }

    /// Sets the address ranges of this node's pods: one of each IP family, separated by commas.
    pub(crate) async fn set_pod_cidr(&self, ranges: &str) -> Result<()> {
        let network_config = Some(cri::NetworkConfig {
            pod_cidr: ranges.to_owned(),
        });
        let runtime_config = Some(cri::RuntimeConfig { network_config });
        let request = cri::UpdateRuntimeConfigRequest { runtime_config };
        with_timeout(
            "UpdateRuntimeConfig",
            CALL_TIMEOUT,
            self.runtime.clone().update_runtime_config(request),
        )
        .await
        .map(drop)
    }

    /// Lists all images on this node.
    pub(crate) async fn list_images(&self) -> Result<Vec<cri::Image>> {
        let request = cri::ListImagesRequest::default();
        Ok(with_timeout(
            "ListImages",
            CALL_TIMEOUT,
            self.images.clone().list_images(request),
        )
        .await?
        .images)
    }

    /// Removes an image and all its names.
    pub(crate) async fn remove_image(&self, id: &str) -> Result<()> {
        let image = Some(cri::ImageSpec {
            image: id.to_owned(),
            ..Default::default()
        });
        let request = cri::RemoveImageRequest { image };
        ignore_not_found(
            with_timeout(
                "RemoveImage",
                CALL_TIMEOUT,
                self.images.clone().remove_image(request),
            )
            .await,
        )
        .map(drop)
    }

    /// Returns the path of the container's log: `None` if the container is gone, empty if it has no log.
    pub(crate) async fn log_path(&self, id: &str) -> Result<Option<String>> {
        Ok(self
            .container_status(id)
            .await?
            .map(|status| status.log_path))
    }

    /// Makes the runtime reopen the container's log after its file was renamed.
    pub(crate) async fn reopen_log(&self, id: &str) -> Result<()> {
        let request = cri::ReopenContainerLogRequest {
            container_id: id.to_owned(),
        };
        with_timeout(
            "ReopenContainerLog",
            CALL_TIMEOUT,
            self.runtime.clone().reopen_container_log(request),
        )
        .await
        .map(drop)
    }
}
