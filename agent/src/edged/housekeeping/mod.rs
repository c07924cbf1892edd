//! Keeps the node tidy: containers that have ended, images that nobody uses, logs that grow.
//!
//! In: the pods, the runtime's lists, the disks. Out: calls that remove, files that are renamed, events about the node.
//!
//! | part | what |
//! |---|---|
//! | `containers`, `images` | decisions, pure |
//! | `logs` | files |
//! | `keeper` | what is done, and when |

mod containers;
mod images;
mod keeper;
mod logs;
mod rotate;

use std::path::PathBuf;

pub(crate) use self::keeper::{Deps, Keeper, run};
use super::{
    names::Dirs,
    runtime::{CallError, Runtime},
};

/// Removes a container that has ended, and its log files.
pub(crate) async fn remove_container(runtime: &Runtime, dirs: &Dirs, id: &str) -> Result<(), CallError> {
    let log = runtime.log_path(id).await?;
    runtime.remove_container(id).await?;
    // Only what is where logs of pods are: the path is what the runtime says.
    if let Some(log) = log.map(PathBuf::from).filter(|log| log.starts_with(&dirs.logs)) {
        // A task that cannot be waited for is one of a program that ends.
        let _ = tokio::task::spawn_blocking(move || logs::remove(&log)).await;
    }
    Ok(())
}
