//! `cloudsim token`: the join token, as it stands in the API, or one for a node, a time, a number of uses.

use std::path::Path;

use anyhow::Context;

use http::Method;
use serde::Deserialize;

use super::{connect::connect, remote::Remote, say};
use crate::{
    cli::TokenScope,
    pki::{JoinToken, TokenRequest},
};

#[derive(Deserialize)]
struct Made {
    token: String,
}

pub(super) async fn run(kubeconfig: Option<&Path>, scope: TokenScope) -> anyhow::Result<()> {
    let TokenScope { node, ttl, uses } = scope;
    if node.is_some() || ttl.is_some() || uses.is_some() {
        // one node is one machine
        let uses = uses.or(node.is_some().then_some(1));
        let seconds = ttl.map(|ttl| ttl.get().as_secs());
        let cloud = Remote::of(kubeconfig).await?;
        let made = cloud.ask::<Made>(Method::POST, "tokens", &TokenRequest { node, seconds, uses }).await?;
        say(made.token.trim());
        return Ok(());
    }
    let (client, server) = connect(kubeconfig).await?;
    let token = JoinToken::read(&client)
        .await
        .with_context(|| format!("{server} gives no token; check that the cloud runs"))?;
    say(token.context("this cloud has no join token")?.trim());
    Ok(())
}
