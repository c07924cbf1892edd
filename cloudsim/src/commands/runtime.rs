//! `cloudsim runtime`: the simulated runtime on a unix socket.

use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use super::{say, until_told};
use crate::runtime::{Options, SimRuntime};

pub(super) async fn run(socket: &Path, root: Option<PathBuf>) -> anyhow::Result<()> {
    let runtime = SimRuntime::new(Options { root, ..Options::default() })?;
    let shutdown = CancellationToken::new();
    let serving = runtime.serve_unix(socket, shutdown.clone())?;
    say(&format!("the simulated runtime serves CRI v1 on unix://{}", super::up::absolute(socket).display()));
    let serving = tokio::spawn(serving);
    until_told().await?;
    shutdown.cancel();
    Ok(serving.await??)
}
