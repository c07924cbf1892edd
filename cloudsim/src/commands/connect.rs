//! A client of a cloud that runs, by its kubeconfig.

use std::path::Path;

use anyhow::Context;
use http::Uri;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

/// The client, and the server that it talks to.
pub(super) async fn connect(kubeconfig: &Path) -> anyhow::Result<(Client, Uri)> {
    let read = Kubeconfig::read_from(kubeconfig).with_context(|| {
        format!(
            "{} is no kubeconfig; give the one that `cloudsim up` wrote with --kubeconfig",
            kubeconfig.display()
        )
    })?;
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
    let server = config.cluster_url.clone();
    Ok((Client::try_from(config)?, server))
}
