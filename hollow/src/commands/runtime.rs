//! `cloudsim runtime`: runs the simulated runtime on a unix socket.

use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use super::{Signals, paste, print_line};
use crate::runtime::{Options, SimRuntime};

pub(super) async fn run(socket: &Path, root: Option<PathBuf>) -> anyhow::Result<()> {
    let mut signals = Signals::listen()?;
    let stored = root.as_deref().map(paste::path);
    let stored = stored.map_or_else(String::new, |root| format!("; its data is in {root}"));
    let runtime = SimRuntime::new(Options {
        root,
        ..Options::default()
    })?;
    let shutdown = CancellationToken::new();
    let serving = runtime.serve_unix(socket, shutdown.clone())?;
    print_line(&format!(
        "the simulated runtime serves CRI v1 on unix://{}{stored}",
        std::path::absolute(socket)
            .as_deref()
            .unwrap_or(socket)
            .display()
    ));
    let serving = tokio::spawn(serving);
    clock::select! {
        // cancel-safe: they only wait.
        _ = signals.wait() => {}
        panicked = runtime.wait_panicked() => return Err(panicked.into()),
    }
    shutdown.cancel();
    Ok(serving.await??)
}
