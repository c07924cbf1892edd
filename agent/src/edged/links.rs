//! `/var/log/containers`: a link to the log of each container, by whose name collectors of logs know the pod.
//!
//! Source: <https://github.com/kubernetes/design-proposals-archive/blob/main/node/kubelet-cri-logging.md>.

use std::{
    fs,
    io::{self, ErrorKind},
    os::unix::fs::symlink,
    path::Path,
};

use super::names::Dirs;

/// Longest name of a file.
const LONGEST: usize = 255;
const ENDING: &str = ".log";

/// Links to a log that is there. Blocks on the disk.
///
/// # Errors
/// The disk refuses.
pub(super) fn make(dirs: &Dirs, name: &str, log: &Path) -> io::Result<()> {
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

/// The name of the link to a container's log. What is too long loses its end.
pub(super) fn name((namespace, pod): (&str, &str), container: &str, id: &str) -> String {
    let mut name = format!("{pod}_{namespace}_{container}-{id}");
    // all of it is ASCII; a name that is not is left as it is, for the disk to refuse
    if name.is_char_boundary(LONGEST - ENDING.len()) {
        name.truncate(LONGEST - ENDING.len());
    }
    name + ENDING
}

/// Removes the links that point at nothing where logs of pods are. Blocks on the disk.
pub(super) fn remove_dead(dirs: &Dirs) {
    for entry in fs::read_dir(dirs.log_links()).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(target) = fs::read_link(&path) else { continue };
        if target.starts_with(&dirs.logs) && !target.exists() {
            // One that stays is tried again.
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
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
        let dirs = Dirs { root: dir.path().into(), logs, secrets_in_memory: false };
        make(&dirs, "new", &dirs.logs.join("here")).unwrap();
        make(&dirs, "new", &dirs.logs.join("here")).unwrap();
        make(&dirs, "none", &dirs.logs.join("not-yet")).unwrap();
        remove_dead(&dirs);
        assert!(fs::symlink_metadata(links.join("dead")).is_err());
        assert!(fs::symlink_metadata(links.join("none")).is_err());
        for left in ["file", "alive", "foreign", "new"] {
            assert!(fs::symlink_metadata(links.join(left)).is_ok(), "{left}");
        }
    }

    #[test]
    fn names_tell_of_the_pod_and_are_not_too_long() {
        let name_of = |pod: &str| name(("shop", pod), "web", "0a1b");
        assert_eq!(name_of("web-0"), "web-0_shop_web-0a1b.log");
        let long = name_of(&"a".repeat(253));
        assert_eq!(long, format!("{}.log", "a".repeat(251)));
    }
}
