//! Housekeeping: removes ended containers and unused images, and rotates logs.
//!
//! Reads the pods, the runtime's lists and the disks; removes and renames, and records events of the node.
//!
//! | part | what |
//! |---|---|
//! | `containers`, `images` | decisions without input or output |
//! | `logs`, `rotate` | rotation of log files |
//! | `keeper` | the periodic work |

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
pub(crate) async fn remove_container(
    runtime: &Runtime,
    dirs: &Dirs,
    id: &str,
) -> Result<(), CallError> {
    let log = runtime.log_path(id).await?;
    runtime.remove_container(id).await?;
    // The path comes from the runtime; only files in the directory of logs are removed.
    if let Some(log) = log
        .map(PathBuf::from)
        .filter(|log| log.starts_with(&dirs.logs))
    {
        // Waiting for a task fails only when the program ends.
        let _ = componentbase::spawn_blocking(move || logs::remove(&log)).await;
    }
    Ok(())
}
