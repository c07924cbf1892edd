//! `cloudsim runtime`: runs the simulated runtime on a unix socket.

use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use super::{Signals, directories, print_line};
use crate::runtime::{Options, SimRuntime};

pub(super) async fn run(socket: &Path, root: Option<PathBuf>) -> anyhow::Result<()> {
    let mut signals = Signals::listen()?;
    directories::announce(root.as_deref());
    let runtime = SimRuntime::new(Options {
        root,
        ..Options::default()
    })?;
    let shutdown = CancellationToken::new();
    let serving = runtime.serve_unix(socket, shutdown.clone())?;
    print_line(&format!(
        "the simulated runtime serves CRI v1 on unix://{}",
        std::path::absolute(socket)
            .as_deref()
            .unwrap_or(socket)
            .display()
    ));
    let serving = tokio::spawn(serving);
    tokio::select! {
        // cancel-safe: they only wait.
        _ = signals.wait() => {}
        panicked = runtime.wait_panicked() => return Err(panicked.into()),
    }
    shutdown.cancel();
    Ok(serving.await??)
}
