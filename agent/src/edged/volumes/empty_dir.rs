//! Volumes that begin empty and end with the pod: on the node's disk, or in memory.
//!
//! Source: <https://kubernetes.io/docs/concepts/storage/volumes/#emptydir>.

use std::{fs, path::Path};

use k8s_openapi::api::core::v1::EmptyDirVolumeSource;
use kubeapi::quantity;

use super::{atomic, error::Error, memory, mounted, payload::fs_group};
use crate::edged::{admit, downward::Downward};

/// Open to every user of the pod, as the kubelet's.
const MODE: u32 = 0o777;
/// What is made of a volume that is not whole yet. Names of volumes have no dots.
const UNFINISHED: &str = "new";

/// Makes the volume at `place`, or leaves it as it is.
pub(super) fn set_up(
    place: &Path,
    source: &EmptyDirVolumeSource,
    downward: &Downward<'_>,
) -> Result<(), Error> {
    let group = fs_group(downward.pod);
    if !place.is_dir() {
        make(place, group)?;
    }
    if source.medium.as_deref() == Some("Memory") {
        memory::provide(place, MODE, group, size(source, downward))
    } else {
        Ok(())
    }
}

/// A directory that is whole as soon as it is there, wherever this is cut off.
fn make(place: &Path, group: Option<u32>) -> Result<(), Error> {
    let unfinished = place.with_extension(UNFINISHED);
    mounted::remove(&unfinished)?;
    fs::create_dir_all(&unfinished).map_err(Error::io(&unfinished))?;
    match group {
        Some(group) => atomic::give(&unfinished, group, MODE)?,
        None => atomic::set_mode(&unfinished, MODE)?,
    }
    fs::rename(&unfinished, place).map_err(Error::io(place))
}

/// Bytes that a volume in memory may hold: no more than the pod may use, or all pods of the node.
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
    fn what_was_cut_off_is_made_anew() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("volumes/v");
        fs::create_dir_all(place.with_extension(UNFINISHED).join("half")).unwrap();
        make(&place, None).unwrap();
        assert_eq!(fs::metadata(&place).unwrap().mode() & 0o7777, MODE);
        assert!(!memory::has_content(&place).unwrap() && !memory::is_mounted(&place).unwrap());
        assert!(!place.with_extension(UNFINISHED).exists());
    }
}
