//! `emptyDir` volumes: on the node's disk or in memory, removed with the pod.
//!
//! Source: <https://kubernetes.io/docs/concepts/storage/volumes/#emptydir>.

use std::{fs, path::Path};

use k8s_openapi::api::core::v1::EmptyDirVolumeSource;
use kubeapi::quantity;

use super::{atomic, error::Error, memory, payload::fs_group, remove};
use crate::edged::{admit, downward::Downward};

/// Mode of the directory, which every user of the pod may use, as the kubelet's.
const MODE: u32 = 0o777;
/// Extension of a directory that is not complete yet. Names of volumes contain no dots.
const UNFINISHED: &str = "new";

/// Creates the volume at `dir` if it does not exist.
pub(super) fn set_up(
    dir: &Path,
    source: &EmptyDirVolumeSource,
    downward: &Downward<'_>,
) -> Result<(), Error> {
    let group = fs_group(downward.pod);
    if !dir.is_dir() {
        create(dir, group)?;
    }
    if source.medium.as_deref() == Some("Memory") {
        memory::ensure_tmpfs(dir, MODE, group, size(source, downward))
    } else {
        Ok(())
    }
}

/// Creates the directory atomically: an interruption leaves no incomplete one.
fn create(dir: &Path, group: Option<u32>) -> Result<(), Error> {
    let unfinished = dir.with_extension(UNFINISHED);
    remove::remove(&unfinished)?;
    fs::create_dir_all(&unfinished).map_err(Error::io(&unfinished))?;
    match group {
        Some(group) => atomic::set_group(&unfinished, group, MODE)?,
        None => atomic::set_mode(&unfinished, MODE)?,
    }
    fs::rename(&unfinished, dir).map_err(Error::io(dir))
}

/// Returns the size limit of a volume in memory in bytes: at most the pod's memory limit, and what all pods of the node may use.
pub(super) fn size(source: &EmptyDirVolumeSource, downward: &Downward<'_>) -> Option<i64> {
    let own = source.size_limit.as_ref().and_then(quantity::positive);
    let pods = admit::limit_of(downward.pod, "memory");
    let all = Some(downward.allocatable.memory).filter(|bytes| *bytes > 0);
    [own, pods, all].into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::edged::downward::Allocatable;

    #[test]
    fn memory_is_no_more_than_the_pod_or_the_node_has() {
        let limited = |memory| json!({"resources": {"limits": {"memory": memory}}});
        let table = [
            (json!({}), json!([{}]), 1000, Some(1000)),
            (json!({"sizeLimit": "100"}), json!([{}]), 1000, Some(100)),
            (json!({"sizeLimit": "0"}), json!([{}]), 1000, Some(1000)),
            (json!({"sizeLimit": "2000"}), json!([{}]), 1000, Some(1000)),
            (json!({}), json!([limited("100"), limited("200")]), 1000, Some(300)),
            (json!({}), json!([limited("100"), {}]), 1000, Some(1000)),
            (json!({}), json!([{}]), 0, None),
        ];
        for (source, mut containers, memory, wanted) in table {
            for container in containers.as_array_mut().unwrap() {
                container["name"] = json!("c");
            }
            let pod: Pod = serde_json::from_value(json!({"spec": {"containers": containers}})).unwrap();
            let source = serde_json::from_value(source).unwrap();
            let allocatable = Allocatable { memory, ..Allocatable::default() };
            let downward = Downward { pod: &pod, host_ips: &[], pod_ips: &[], allocatable };
            assert_eq!(size(&source, &downward), wanted, "{source:?} {containers}");
        }
    }

    #[test]
    fn interrupted_creation_is_repeated() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("volumes/v");
        fs::create_dir_all(dir.with_extension(UNFINISHED).join("half")).unwrap();
        create(&dir, None).unwrap();
        assert_eq!(fs::metadata(&dir).unwrap().mode() & 0o7777, MODE);
        assert!(!memory::has_content(&dir).unwrap() && !memory::is_mounted(&dir).unwrap());
        assert!(!dir.with_extension(UNFINISHED).exists());
    }
}
