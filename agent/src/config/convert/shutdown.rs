//! `shutdownGracePeriod*` of `tailoredKubeletConfig`: graceful node shutdown.

use std::time::Duration;

use edged::{NodeShutdown, ShutdownPeriod};

use super::values::{KUBELET, Values};
use crate::config::file;

const TOTAL: &str = "shutdownGracePeriod";
const CRITICAL: &str = "shutdownGracePeriodCriticalPods";
const BY_PRIORITY: &str = "shutdownGracePeriodByPodPriority";

/// Converts and checks the periods by the kubelet's rules.
pub(super) fn convert(kubelet: &file::Kubelet, values: &mut Values<'_>) -> NodeShutdown {
    let at = |key: &str| format!("{KUBELET}.{key}");
    let total = values.duration(&at(TOTAL), &kubelet.shutdown_grace_period);
    let critical = values.duration(&at(CRITICAL), &kubelet.shutdown_grace_period_critical_pods);
    for (key, period) in [(TOTAL, total), (CRITICAL, critical)] {
        if !period.is_zero() && period < Duration::from_secs(1) {
            values.error(&at(key), "must be 0s, or 1s or more");
        }
    }
    if critical > total {
        values.error(
            &at(CRITICAL),
            format!("is a part of {TOTAL}, and must not be longer"),
        );
    }
    let written = kubelet.shutdown_grace_period_by_pod_priority.iter();
    let periods: Vec<_> = written
        .enumerate()
        .map(|(index, period)| ShutdownPeriod {
            priority: period.priority,
            grace: values.seconds(
                &format!("{}[{index}].shutdownGracePeriodSeconds", at(BY_PRIORITY)),
                period.shutdown_grace_period_seconds,
                0,
            ),
        })
        .collect();
    if periods.is_empty() {
        return NodeShutdown::with_critical_pods(total, critical);
    }
    if !total.is_zero() || !critical.is_zero() {
        values.error(
            &at(BY_PRIORITY),
            format!("cannot be used together with {TOTAL}; remove one of them"),
        );
    }
    NodeShutdown::by_priority(periods)
}
