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

pub(crate) use self::keeper::{Keeper, run};

/// Removes a container's log files.
pub(crate) async fn remove_log(path: std::path::PathBuf) {
    // A task that cannot be waited for is one of a program that ends.
    let _ = tokio::task::spawn_blocking(move || logs::remove(&path)).await;
}
