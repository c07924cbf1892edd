//! `cloudsim token`: the join token, as it stands in the API.

use std::path::Path;

use anyhow::Context;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

use super::say;
use crate::pki::JoinToken;

pub(super) async fn run(kubeconfig: &Path) -> anyhow::Result<()> {
    let read = Kubeconfig::read_from(kubeconfig).with_context(|| {
        format!(
            "{} is no kubeconfig; give the one that `cloudsim up` wrote with --kubeconfig",
            kubeconfig.display()
        )
    })?;
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
    let server = config.cluster_url.clone();
    let token = JoinToken::read(&Client::try_from(config)?)
        .await
        .with_context(|| format!("{server} gives no token; check that the cloud runs"))?;
    say(token.context("this cloud has no join token")?.trim());
    Ok(())
}
