//! Checks where a kubeconfig may be written: not over that of another cloud that still runs.

use std::{path::Path, time::Duration};

use anyhow::bail;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use tokio::time::timeout;

/// How long a cloud that runs on this machine may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// Checks whether a kubeconfig may be written to `path`.
///
/// # Errors
/// The file is the kubeconfig of a cloud that answers, which would be lost with it.
pub(super) async fn permit(path: &Path) -> anyhow::Result<()> {
    match answering(path).await {
        None => Ok(()),
        Some(server) => bail!(
            "{} is the kubeconfig of the cloud at {server}, which runs; name another file with --kubeconfig, or end that cloud first",
            path.display()
        ),
    }
}

/// Returns the server of the kubeconfig at `path` if it answers. A server with another CA on this port is another cloud and does not count.
async fn answering(path: &Path) -> Option<String> {
    let read = Kubeconfig::read_from(path).ok()?;
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.ok()?;
    let server = config.cluster_url.to_string();
    let client = Client::try_from(config).ok()?;
    match timeout(ANSWER_TIMEOUT, client.apiserver_version()).await {
        // A server that refuses the request answers, too.
        Ok(Ok(_) | Err(kube::Error::Api(_))) => Some(server),
        Ok(Err(_)) | Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cloudsim::{Cloud, Options};

    #[tokio::test]
    async fn the_kubeconfig_of_a_cloud_that_runs_is_not_written_over() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kubeconfig");
        permit(&path).await.unwrap();
        let options = Options { kubeconfig: Some(path.clone()), ..Options::default().any_ports() };
        let cloud = Cloud::start(options).await.unwrap();
        let refused = permit(&path).await.unwrap_err().to_string();
        assert!(
            refused.contains("--kubeconfig") && refused.contains(&path.display().to_string()),
            "{refused}"
        );
        cloud.stop().await.unwrap();
        permit(&path).await.unwrap();
        std::fs::write(&path, "no kubeconfig").unwrap();
        permit(&path).await.unwrap();
    }
}
