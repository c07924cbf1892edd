//! Chooses the pods that are preempted for a critical one: as few as possible, best-effort pods before burstable and guaranteed
//! ones.
//!
//! Source: the kubelet's critical pod admission.

use std::cmp::Ordering;

use k8s_openapi::api::core::v1::Pod;

use super::{is_critical, priority, requests_of};
use crate::specs::qos;

/// Resources that are missing, each with the missing amount.
type MissingResources = Vec<(String, i64)>;

/// Returns the uids of pods that together free what is `missing`.
pub(super) fn victims(
    pod: &Pod,
    others: &[&Pod],
    missing: MissingResources,
) -> Result<Vec<String>, String> {
    let of_class = |class: &str| -> Vec<&Pod> {
        let preemptable = others
            .iter()
            .copied()
            .filter(|other| is_preemptable(other, pod));
        preemptable.filter(|other| qos(other) == class).collect()
    };
    let (best_effort, burstable, guaranteed) = (
        of_class("BestEffort"),
        of_class("Burstable"),
        of_class("Guaranteed"),
    );
    // From each class, as many pods are chosen as are needed if all pods of the lesser classes are preempted too.
    let rest = subtract(&missing, best_effort.iter().chain(&burstable));
    let guaranteed = closest_pods(guaranteed, rest)?;
    let rest = subtract(&missing, best_effort.iter().chain(&guaranteed));
    let burstable = closest_pods(burstable, rest)?;
    let rest = subtract(&missing, burstable.iter().chain(&guaranteed));
    let best_effort = closest_pods(best_effort, rest)?;
    let all = best_effort.into_iter().chain(burstable).chain(guaranteed);
    Ok(all
        .filter_map(|victim| victim.metadata.uid.clone())
        .collect())
}

fn is_preemptable(other: &Pod, pod: &Pod) -> bool {
    let outranked = priority(pod)
        .zip(priority(other))
        .is_some_and(|(own, other)| own > other);
    (is_critical(pod) && !is_critical(other)) || outranked
}

fn request(pod: &Pod, name: &str) -> i64 {
    if name == "pods" {
        1
    } else {
        requests_of(pod).get(name).copied().unwrap_or(0)
    }
}

/// Returns what is still missing after these pods have ended.
fn subtract<'a>(
    missing: &MissingResources,
    gone: impl Iterator<Item = &'a &'a Pod> + Clone,
) -> MissingResources {
    let rest = missing.iter().map(|(name, amount)| {
        let freed = gone
            .clone()
            .map(|pod| request(pod, name))
            .fold(0, i64::saturating_add);
        (name.clone(), amount.saturating_sub(freed))
    });
    rest.filter(|(_, amount)| *amount > 0).collect()
}

/// Chooses pods, one at a time, whose requests are closest to what is missing.
fn closest_pods(mut pods: Vec<&Pod>, mut missing: MissingResources) -> Result<Vec<&Pod>, String> {
    let mut chosen = Vec::new();
    while !missing.is_empty() {
        let best = pods.iter().enumerate().min_by(|(_, one), (_, other)| {
            distance(one, &missing)
                .total_cmp(&distance(other, &missing))
                .then_with(|| compare_requests(one, other))
        });
        let Some((index, _)) = best else {
            let texts: Vec<_> = missing
                .iter()
                .map(|(name, amount)| format!("(res: {name}, q: {amount}), "))
                .collect();
            return Err(format!(
                "preemption: error finding a set of pods to preempt: no set of running pods found to reclaim resources: [{}]",
                texts.concat()
            ));
        };
        let pod = pods.swap_remove(index);
        missing = subtract(&missing, std::iter::once(&pod));
        chosen.push(pod);
    }
    Ok(chosen)
}

/// Returns how much of what is missing stays missing if the pod ends, as a sum of squares in which every resource has the same
/// weight.
#[expect(
    clippy::cast_precision_loss,
    reason = "a measure of nearness need not be exact"
)]
fn distance(pod: &Pod, missing: &MissingResources) -> f64 {
    let rest = missing.iter().map(|(name, amount)| {
        let rest = amount.saturating_sub(request(pod, name)).max(0) as f64;
        (rest / *amount as f64).powi(2)
    });
    rest.sum()
}

fn compare_requests(one: &Pod, other: &Pod) -> Ordering {
    let by = |name: &str| request(one, name).cmp(&request(other, name));
    by("memory").then_with(|| by("cpu"))
}
