//! Ensures that one agent of a network namespace manages the addresses of Services: two would remove each other's routes.

use std::{fs, os::linux::fs::MetadataExt, path::Path};

use objectstore::{LockError, StoreLock};

/// The directory of the locks.
const FOLDER: &str = "/run";
/// The network namespace of this process.
const NAMESPACE: &str = "/proc/self/ns/net";

/// Another agent manages the addresses.
#[derive(Debug, thiserror::Error)]
#[error(
    "another agent runs EdgeMesh in this network namespace ({}); set modules.edgeMesh.enable to false for one of them, or start this \
     agent in a network namespace of its own",
    process.map_or_else(|| "unknown process".to_owned(), |process| format!("process {process}"))
)]
pub(super) struct OtherAgent {
    process: Option<u32>,
}

/// Takes the lock of this network namespace. `None` without permission: such an agent cannot add routes either.
///
/// # Errors
/// Another agent has it.
pub(super) fn lock() -> Result<Option<StoreLock>, OtherAgent> {
    lock_in(Path::new(FOLDER))
}

fn lock_in(folder: &Path) -> Result<Option<StoreLock>, OtherAgent> {
    let Some(name) = name() else { return Ok(None) };
    match StoreLock::take(&folder.join(name)) {
        Ok(lock) => Ok(Some(lock)),
        Err(LockError::Held { holder, .. }) => Err(OtherAgent { process: holder }),
        Err(LockError::File { .. }) => Ok(None),
    }
}

/// Reports whether an agent manages the addresses of this network namespace now.
pub(super) fn is_locked() -> bool {
    name().is_some_and(|name| StoreLock::holder(&Path::new(FOLDER).join(name)).is_some())
}

/// Returns the name of the lock, which has the number of the namespace.
fn name() -> Option<String> {
    let namespace = fs::metadata(NAMESPACE).ok()?.st_ino();
    Some(format!("edge-agent-edgemesh-{namespace}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_agent_of_a_network_namespace_is_refused_until_the_first_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let first = lock_in(folder.path()).unwrap();
        assert!(first.is_some());
        let said = lock_in(folder.path()).unwrap_err().to_string();
        for part in [
            &format!("process {}", std::process::id()),
            "edgeMesh.enable",
        ] {
            assert!(said.contains(part), "{said}");
        }
        drop(first);
        assert!(lock_in(folder.path()).unwrap().is_some());
        // without permission for the directory
        assert!(lock_in(&folder.path().join("missing")).unwrap().is_none());
    }
}
