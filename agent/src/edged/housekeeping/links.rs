//! `/var/log/containers`, where an agent with another runtime linked to each log: links that lead nowhere any more.

use std::{fs, path::Path};

/// Removes the links beside `logs`, in `containers`, that point below `logs` at nothing.
pub(super) fn remove_dead(logs: &Path) {
    let Some(links) = logs.parent().map(|parent| parent.join("containers")) else { return };
    for entry in fs::read_dir(links).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(target) = fs::read_link(&path) else { continue };
        if target.starts_with(logs) && !target.exists() {
            // One that stays is tried again.
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_dead_links_of_ours_go() {
        let dir = tempfile::tempdir().unwrap();
        let (logs, links) = (dir.path().join("pods"), dir.path().join("containers"));
        fs::create_dir_all(&logs).unwrap();
        fs::create_dir_all(&links).unwrap();
        fs::write(logs.join("here"), "").unwrap();
        fs::write(links.join("file"), "").unwrap();
        symlink(logs.join("here"), links.join("alive")).unwrap();
        symlink(logs.join("gone"), links.join("dead")).unwrap();
        symlink(dir.path().join("elsewhere"), links.join("foreign")).unwrap();
        remove_dead(&logs);
        assert!(fs::symlink_metadata(links.join("dead")).is_err());
        for left in ["file", "alive", "foreign"] {
            assert!(fs::symlink_metadata(links.join(left)).is_ok(), "{left}");
        }
    }
}
