//! What pods leave behind on this machine, and pods of which something is here that the API does not have.
//!
//! | part | what |
//! |---|---|
//! | `orphans` | sandboxes, containers and directories of pods that are gone |
//! | `removing` | which pods that are gone are being removed right now |
//! | `missing_pods` | pods that run here and that a store which was begun anew does not have |
//! | `all_pods` | everything of all pods, for a machine that is to be no node any more |

pub(super) mod all_pods;
pub(super) mod missing_pods;
pub(super) mod orphans;
pub(super) mod removing;

use std::path::Path;

/// Names of what is in a directory; none where it cannot be read.
fn entries(directory: &Path) -> Vec<String> {
    let all = std::fs::read_dir(directory).into_iter().flatten().flatten();
    all.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}
