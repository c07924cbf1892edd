//! `cloudsim ui`: prints a login link to the live page for the user of a kubeconfig.

use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{print, print_line, remote::Remote};
use crate::cli::{Access, Output};

/// A login link.
#[derive(Debug, Deserialize, Serialize)]
struct LoginLink {
    url: String,
    /// How long it is valid.
    seconds: u64,
}

pub(super) async fn run(access: &Access, output: Option<Output>) -> anyhow::Result<()> {
    let cloud = Remote::of(access).await?;
    let link: LoginLink = cloud.ask(Method::POST, "login", &json!({})).await?;
    match output {
        Some(format) => print(format, &link)?,
        None => print_line(&link.url),
    }
    Ok(())
}
