//! `/metrics`: usage of persistent volume claims. Pure.
//!
//! Names and labels are the kubelet's (`pkg/kubelet/metrics/collectors`); volumes without a claim have no metrics.

use std::collections::BTreeMap;

use kubeapi::describe::exposition::{Text, number};

use crate::stats::summary::{FsStats, VolumeStats};

/// Reads a value of a file system.
type FsValue = fn(&FsStats) -> Option<u64>;

/// The kubelet's metrics: name, help text and value.
const METRICS: [(&str, &str, FsValue); 6] = [
    (
        "kubelet_volume_stats_available_bytes",
        "Number of available bytes in the volume",
        |fs| fs.available_bytes,
    ),
    (
        "kubelet_volume_stats_capacity_bytes",
        "Capacity in bytes of the volume",
        |fs| fs.capacity_bytes,
    ),
    (
        "kubelet_volume_stats_inodes",
        "Maximum number of inodes in the volume",
        |fs| fs.inodes,
    ),
    (
        "kubelet_volume_stats_inodes_free",
        "Number of free inodes in the volume",
        |fs| fs.inodes_free,
    ),
    (
        "kubelet_volume_stats_inodes_used",
        "Number of used inodes in the volume",
        |fs| fs.inodes_used,
    ),
    (
        "kubelet_volume_stats_used_bytes",
        "Number of used bytes in the volume",
        |fs| fs.used_bytes,
    ),
];

/// Appends the metrics. A claim that several pods use is reported once.
pub(super) fn append(text: &mut Text, volumes: &[VolumeStats]) {
    let claims = volumes.iter().filter_map(|volume| {
        let claim = volume.pvc_ref.as_ref()?;
        Some(((&claim.namespace, &claim.name), &volume.fs))
    });
    let claims: BTreeMap<_, _> = claims.collect();
    for (name, help, figure) in METRICS {
        let mut family = text.gauge(name, help);
        for ((namespace, claim), fs) in &claims {
            if let Some(value) = figure(fs) {
                family.sample(
                    &[("namespace", namespace), ("persistentvolumeclaim", claim)],
                    number(value),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::stats::summary::ClaimReference;

    #[test]
    fn a_claim_is_told_once() {
        let fs = FsStats {
            time: Timestamp::UNIX_EPOCH,
            available_bytes: Some(1),
            capacity_bytes: Some(2),
            used_bytes: Some(3),
            inodes_free: None,
            inodes: Some(4),
            inodes_used: Some(5),
        };
        let claim = Some(ClaimReference {
            name: "data".into(),
            namespace: "shop".into(),
        });
        let volume = |pvc_ref| VolumeStats {
            fs: fs.clone(),
            name: "v".into(),
            pvc_ref,
        };
        let mut text = Text::default();
        append(
            &mut text,
            &[volume(claim.clone()), volume(None), volume(claim)],
        );
        insta::assert_snapshot!(text.into_string());
    }
}
