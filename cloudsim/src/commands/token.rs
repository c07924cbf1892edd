//! `cloudsim token`: the join token, as it stands in the API.

use std::path::Path;

use anyhow::Context;

use super::{connect::connect, say};
use crate::pki::JoinToken;

pub(super) async fn run(kubeconfig: Option<&Path>) -> anyhow::Result<()> {
    let (client, server) = connect(kubeconfig).await?;
    let token = JoinToken::read(&client)
        .await
        .with_context(|| format!("{server} gives no token; check that the cloud runs"))?;
    say(token.context("this cloud has no join token")?.trim());
    Ok(())
}
