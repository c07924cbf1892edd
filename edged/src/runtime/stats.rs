//! Calls that return resource usage.

use std::collections::BTreeMap;

use wire::cri;

use super::{CALL_TIMEOUT, Result, Runtime, with_timeout};

impl Runtime {
    /// Returns the usage of each running container.
    pub(crate) async fn container_stats(&self) -> Result<Vec<cri::ContainerStats>> {
        let request = cri::ListContainerStatsRequest::default();
        Ok(with_timeout(
            "ListContainerStats",
            CALL_TIMEOUT,
            self.runtime.clone().list_container_stats(request),
        )
        .await?
        .stats)
    }

    /// Returns the usage of each pod as a whole.
    pub(crate) async fn sandbox_stats(&self) -> Result<Vec<cri::PodSandboxStats>> {
        let request = cri::ListPodSandboxStatsRequest::default();
        let mut client = self.runtime.clone();
        Ok(with_timeout(
            "ListPodSandboxStats",
            CALL_TIMEOUT,
            client.list_pod_sandbox_stats(request),
        )
        .await?
        .stats)
    }

    /// Returns the pid of a sandbox's first process, if the runtime reports it.
    pub(crate) async fn sandbox_pid(&self, id: &str) -> Result<Option<u32>> {
        let request = cri::PodSandboxStatusRequest {
            pod_sandbox_id: id.to_owned(),
            verbose: true,
        };
        let mut client = self.runtime.clone();
        let answer = with_timeout(
            "PodSandboxStatus",
            CALL_TIMEOUT,
            client.pod_sandbox_status(request),
        )
        .await?;
        Ok(sandbox_pid(&answer.info))
    }

    /// Returns the file systems of images and of containers' writable layers.
    pub(crate) async fn image_fs(&self) -> Result<cri::ImageFsInfoResponse> {
        let request = cri::ImageFsInfoRequest {};
        with_timeout(
            "ImageFsInfo",
            CALL_TIMEOUT,
            self.images.clone().image_fs_info(request),
        )
        .await
    }
}

/// Returns the pid from a sandbox's verbose status.
fn sandbox_pid(info: &BTreeMap<String, String>) -> Option<u32> {
    let info: serde_json::Value = serde_json::from_str(info.get("info")?).ok()?;
    u32::try_from(info.get("pid")?.as_u64()?)
        .ok()
        .filter(|pid| *pid > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pid_is_read_from_what_runtimes_tell() {
        let info = |text: &str| [("info".to_owned(), text.to_owned())].into();
        assert_eq!(
            sandbox_pid(&info(r#"{"pid": 4711, "processStatus": "running"}"#)),
            Some(4711)
        );
        for text in [
            "",
            "{}",
            "[]",
            r#"{"pid": 0}"#,
            r#"{"pid": -1}"#,
            r#"{"pid": 1e30}"#,
            r#"{"pid": "1"}"#,
        ] {
            assert_eq!(sandbox_pid(&info(text)), None, "{text}");
        }
        assert_eq!(sandbox_pid(&BTreeMap::new()), None);
    }
}
