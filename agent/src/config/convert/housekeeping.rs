//! Garbage collection of containers and images, and log rotation.

use std::time::Duration;

use edged::Housekeeping;
use kubeapi::object::quantity;

use super::values::{KUBELET, Values};
use crate::config::file;

pub(super) fn convert(edged: &file::Edged, values: &mut Values<'_>) -> Housekeeping {
    let kubelet = &edged.tailored_kubelet_config;
    let at = |key: &str| format!("{KUBELET}.{key}");
    let high = values.number(
        &at("imageGCHighThresholdPercent"),
        kubelet.image_gc_high_threshold_percent,
        0,
        100,
    );
    let low = values.number(
        &at("imageGCLowThresholdPercent"),
        kubelet.image_gc_low_threshold_percent,
        0,
        100,
    );
    if low >= high && high > 0 {
        let rule = "must be less than imageGCHighThresholdPercent";
        values.error(
            &at("imageGCLowThresholdPercent"),
            format!("is {low}, but {rule} ({high})"),
        );
    }
    let max_age = values.duration(&at("imageMaximumGCAge"), &kubelet.image_maximum_gc_age);
    let min_age = values.duration(&at("imageMinimumGCAge"), &kubelet.image_minimum_gc_age);
    if !max_age.is_zero() && max_age <= min_age {
        values.error(
            &at("imageMaximumGCAge"),
            "must be longer than imageMinimumGCAge, or 0s for no limit",
        );
    }
    let kubelets = Housekeeping::default();
    Housekeeping {
        container_min_age: values.duration("modules.edged.minimumGCAge", &edged.minimum_gc_age),
        containers_per_name: count(
            "modules.edged.maxPerPodContainerCount",
            edged.max_per_pod_container_count,
            values,
        ),
        containers_in_all: count(
            "modules.edged.maxContainerCount",
            edged.max_container_count,
            values,
        ),
        container_period: period(
            "modules.edged.containerGCPeriod",
            &edged.container_gc_period,
            kubelets.container_period,
            values,
        ),
        image_period: period(
            "modules.edged.imageGCPeriod",
            &edged.image_gc_period,
            kubelets.image_period,
            values,
        ),
        image_high_percent: high,
        image_low_percent: low,
        image_min_age: min_age,
        image_max_age: (!max_age.is_zero()).then_some(max_age),
        log_max_size: log_size(
            &at("containerLogMaxSize"),
            &kubelet.container_log_max_size,
            values,
        ),
        log_max_files: values.number(
            &at("containerLogMaxFiles"),
            kubelet.container_log_max_files,
            2,
            1000,
        ),
        log_interval: values.frequency(
            &at("containerLogMonitorInterval"),
            &kubelet.container_log_monitor_interval,
        ),
    }
}

/// Converts an optional period.
fn period(path: &str, written: &str, otherwise: Duration, values: &mut Values<'_>) -> Duration {
    if written.is_empty() {
        otherwise
    } else {
        values.frequency(path, written)
    }
}

/// Converts a limit; a negative number is no limit.
fn count(path: &str, written: i64, values: &mut Values<'_>) -> Option<u32> {
    (written >= 0).then(|| values.number(path, written, 0, i64::from(i32::MAX)))
}

/// Converts a size; a negative one is no limit.
fn log_size(path: &str, text: &str, values: &mut Values<'_>) -> Option<u64> {
    match quantity::bytes(text) {
        Some(0) | None => {
            values.error(
                path,
                format!("is {text:?}, but must be a size such as 10Mi"),
            );
            None
        }
        Some(size) => u64::try_from(size).ok(),
    }
}
