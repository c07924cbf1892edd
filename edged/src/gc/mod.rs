//! Garbage collection of deleted pods, and recovery of pods that run here and that the API does not have.
//!
//! | part | what |
//! |---|---|
//! | `orphans` | sandboxes, containers and directories of deleted pods |
//! | `removing` | which removals are in progress |
//! | `missing_pods` | pods that run here and that a new, empty store does not have |
//! | `all_pods` | removal of all pods, when the machine stops being a node |

pub(super) mod all_pods;
pub(super) mod missing_pods;
pub(super) mod orphans;

use std::path::Path;

/// Returns the names in a directory; none if it cannot be read.
fn entries(directory: &Path) -> Vec<String> {
    let all = std::fs::read_dir(directory).into_iter().flatten().flatten();
    all.filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}
