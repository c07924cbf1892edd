//! Volumes in memory, whose content never reaches a disk and is lost at a power cut. Needs root.
//!
//! Source: <https://kubernetes.io/docs/concepts/configuration/secret/#information-security-for-secrets>.

use std::{
    io::{self, ErrorKind},
    os::unix::fs::MetadataExt,
    path::Path,
};

use fs_err as fs;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kubeapi::object::quantity;
use nix::{
    errno::Errno,
    mount::{MsFlags, mount},
};

use super::{atomic, error::Error};
use crate::{admit, downward::Downward};

/// Mount option that excludes the volume from swap. Kernels before 6.3 do not support it.
const NO_SWAP: &str = "noswap";

/// Mounts a tmpfs at `dir` for a volume of the pod if there is none, for example after a reboot. If the directory already contains
/// files, they are in use and it stays on disk. `size_limit` is the volume's own.
pub(super) fn ensure_tmpfs(
    dir: &Path,
    mode: u32,
    size_limit: Option<&Quantity>,
    downward: &Downward<'_>,
) -> Result<(), Error> {
    if is_mounted(dir)? || has_content(dir)? {
        return Ok(());
    }
    let mut options = match downward.fs_group() {
        Some(group) => format!("mode={:o},gid={group}", atomic::SET_GID | mode),
        None => format!("mode={mode:o}"),
    };
    if let Some(bytes) = size(size_limit, downward) {
        options += &format!(",size={bytes}");
    }
    let mounted = match mount_tmpfs(dir, &format!("{options},{NO_SWAP}")) {
        Err(Errno::EINVAL) => mount_tmpfs(dir, &options),
        mounted => mounted,
    };
    match mounted {
        // without root, a volume on disk is better than a pod that does not run
        Err(Errno::EPERM) => {
            tracing::warn!(path = %dir.display(), "cannot mount tmpfs without root; volume is on disk");
            Ok(())
        }
        mounted => mounted.map_err(|errno| mount_failed(dir, errno).into()),
    }
}

/// Returns the size of a volume in memory in bytes: at most its own limit, the pod's memory limit, and what all pods of the node may
/// use. `None` means half of the machine's memory.
fn size(size_limit: Option<&Quantity>, downward: &Downward<'_>) -> Option<i64> {
    let own = size_limit.and_then(quantity::positive);
    let pods = admit::limit_of(downward.pod, "memory");
    let all = Some(downward.allocatable.memory).filter(|bytes| *bytes > 0);
    [own, pods, all].into_iter().flatten().min()
}

fn mount_tmpfs(dir: &Path, options: &str) -> nix::Result<()> {
    mount(
        Some("tmpfs"),
        dir,
        Some("tmpfs"),
        MsFlags::MS_NOSUID | MsFlags::MS_NODEV,
        Some(options),
    )
}

fn mount_failed(dir: &Path, errno: Errno) -> io::Error {
    let cause = io::Error::from(errno);
    io::Error::new(
        cause.kind(),
        format!("cannot mount tmpfs at {}: {cause}", dir.display()),
    )
}

/// Reports whether something is mounted at `dir`.
pub(super) fn is_mounted(dir: &Path) -> Result<bool, Error> {
    let device = |path: &Path| fs::metadata(path).map(|meta| meta.dev());
    Ok(device(dir)? != device(dir.parent().unwrap_or(dir))?)
}

/// Reports whether the directory has content, which a mount would hide.
pub(super) fn has_content(dir: &Path) -> Result<bool, Error> {
    match fs::read_dir(dir) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::*;
    use crate::downward::Allocatable;

    #[test]
    fn memory_is_no_more_than_the_pod_or_the_node_has() {
        let limited = |memory| json!({"resources": {"limits": {"memory": memory}}});
        let table = [
            (None, json!([{}]), 1000, Some(1000)),
            (Some("100"), json!([{}]), 1000, Some(100)),
            (Some("0"), json!([{}]), 1000, Some(1000)),
            (Some("2000"), json!([{}]), 1000, Some(1000)),
            (
                None,
                json!([limited("100"), limited("200")]),
                1000,
                Some(300),
            ),
            (None, json!([limited("100"), {}]), 1000, Some(1000)),
            (None, json!([{}]), 0, None),
        ];
        for (size_limit, mut containers, memory, wanted) in table {
            for container in containers.as_array_mut().unwrap() {
                container["name"] = json!("c");
            }
            let pod: Pod =
                serde_json::from_value(json!({"spec": {"containers": containers}})).unwrap();
            let quantity = size_limit.map(|limit| Quantity(limit.to_owned()));
            let allocatable = Allocatable {
                memory,
                ..Allocatable::default()
            };
            let downward = Downward {
                pod: &pod,
                host_ips: &[],
                pod_ips: &[],
                allocatable,
            };
            assert_eq!(
                size(quantity.as_ref(), &downward),
                wanted,
                "{size_limit:?} {containers}"
            );
        }
    }
}
