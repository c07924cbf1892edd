//! Links in `/var/log/containers`: one for the log of each container, whose name contains the pod for log collectors.
//!
//! Source: <https://github.com/kubernetes/design-proposals-archive/blob/main/node/kubelet-cri-logging.md>.

use std::{
    fs,
    io::{self, ErrorKind},
    os::unix::fs::symlink,
    path::Path,
};

use super::names::Dirs;

/// Maximum length of a file name in bytes.
const MAX_NAME_BYTES: usize = 255;
const SUFFIX: &str = ".log";

/// Creates the link `name` to a container's log if the log exists. Blocks on the disk.
///
/// # Errors
/// The link cannot be created.
pub(super) fn create(dirs: &Dirs, name: &str, log: &Path) -> io::Result<()> {
    if !log.exists() {
        return Ok(());
    }
    let links = dirs.log_links();
    let link = links.join(name);
    let made = match symlink(log, &link) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            fs::create_dir_all(&links).and_then(|()| symlink(log, &link))
        }
        made => made,
    };
    match made {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Returns the name of the link to a container's log. A name that is too long is truncated.
pub(super) fn name(namespace: &str, pod: &str, container: &str, id: &str) -> String {
    let mut name = format!("{pod}_{namespace}_{container}-{id}");
    // names are ASCII; one that is not is left as it is, and the file system rejects it
    if name.is_char_boundary(MAX_NAME_BYTES - SUFFIX.len()) {
        name.truncate(MAX_NAME_BYTES - SUFFIX.len());
    }
    name + SUFFIX
}

/// Removes dangling links to logs of pods. Blocks on the disk.
pub(super) fn remove_dangling(dirs: &Dirs) {
    for entry in fs::read_dir(dirs.log_links())
        .into_iter()
        .flatten()
        .flatten()
    {
        let path = entry.path();
        let Ok(target) = fs::read_link(&path) else {
            continue;
        };
        if target.starts_with(&dirs.logs) && !target.exists() {
            // A link that cannot be removed is tried again next time.
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_dangling_links_to_pod_logs_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (logs, links) = (dir.path().join("pods"), dir.path().join("containers"));
        fs::create_dir_all(&logs).unwrap();
        fs::create_dir_all(&links).unwrap();
        fs::write(logs.join("here"), "").unwrap();
        fs::write(links.join("file"), "").unwrap();
        symlink(logs.join("here"), links.join("alive")).unwrap();
        symlink(logs.join("gone"), links.join("dead")).unwrap();
        symlink(dir.path().join("elsewhere"), links.join("foreign")).unwrap();
        let dirs = Dirs {
            root: dir.path().into(),
            logs,
            secrets_in_memory: false,
        };
        create(&dirs, "new", &dirs.logs.join("here")).unwrap();
        create(&dirs, "new", &dirs.logs.join("here")).unwrap();
        create(&dirs, "none", &dirs.logs.join("not-yet")).unwrap();
        remove_dangling(&dirs);
        assert!(fs::symlink_metadata(links.join("dead")).is_err());
        assert!(fs::symlink_metadata(links.join("none")).is_err());
        for left in ["file", "alive", "foreign", "new"] {
            assert!(fs::symlink_metadata(links.join(left)).is_ok(), "{left}");
        }
    }

    #[test]
    fn link_names_contain_the_pod_and_are_truncated() {
        let name_of = |pod: &str| name("shop", pod, "web", "0a1b");
        assert_eq!(name_of("web-0"), "web-0_shop_web-0a1b.log");
        let long = name_of(&"a".repeat(253));
        assert_eq!(long, format!("{}.log", "a".repeat(251)));
    }
}
