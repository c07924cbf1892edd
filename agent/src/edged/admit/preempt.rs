//! Which pods make room for a critical one: as few as possible, best-effort ones before burstable ones before guaranteed ones.
//!
//! Source: the kubelet's critical pod admission.

use std::cmp::Ordering;

use k8s_openapi::api::core::v1::Pod;

use super::{is_critical, priority, requests_of};
use crate::edged::status::qos;

/// A resource, and how much of it is missing.
type Missing = Vec<(String, i64)>;

/// The uids of pods that together free what is `missing`.
pub(super) fn victims(pod: &Pod, others: &[&Pod], missing: Missing) -> Result<Vec<String>, String> {
    let of_class = |class: &str| -> Vec<&Pod> {
        let lesser = others.iter().copied().filter(|other| is_lesser(other, pod));
        lesser.filter(|other| qos(other) == class).collect()
    };
    let (best_effort, burstable, guaranteed) =
        (of_class("BestEffort"), of_class("Burstable"), of_class("Guaranteed"));
    // Of each class, as many as are needed when all of the lesser classes go too.
    let rest = without(&missing, best_effort.iter().chain(&burstable));
    let guaranteed = nearest(guaranteed, rest)?;
    let rest = without(&missing, best_effort.iter().chain(&guaranteed));
    let burstable = nearest(burstable, rest)?;
    let rest = without(&missing, burstable.iter().chain(&guaranteed));
    let best_effort = nearest(best_effort, rest)?;
    let all = best_effort.into_iter().chain(burstable).chain(guaranteed);
    Ok(all.filter_map(|victim| victim.metadata.uid.clone()).collect())
}

fn is_lesser(other: &Pod, pod: &Pod) -> bool {
    let outranked = priority(pod).zip(priority(other)).is_some_and(|(own, other)| own > other);
    (is_critical(pod) && !is_critical(other)) || outranked
}

fn request(pod: &Pod, name: &str) -> i64 {
    if name == "pods" { 1 } else { requests_of(pod).get(name).copied().unwrap_or(0) }
}

/// What is still missing when these have gone.
fn without<'a>(missing: &Missing, gone: impl Iterator<Item = &'a &'a Pod> + Clone) -> Missing {
    let rest = missing.iter().map(|(name, amount)| {
        let freed = gone.clone().map(|pod| request(pod, name)).fold(0, i64::saturating_add);
        (name.clone(), amount.saturating_sub(freed))
    });
    rest.filter(|(_, amount)| *amount > 0).collect()
}

/// The pods that come nearest to what is missing, one after the other.
fn nearest(mut pods: Vec<&Pod>, mut missing: Missing) -> Result<Vec<&Pod>, String> {
    let mut chosen = Vec::new();
    while !missing.is_empty() {
        let best = pods.iter().enumerate().min_by(|(_, one), (_, other)| {
            distance(one, &missing).total_cmp(&distance(other, &missing)).then_with(|| size(one, other))
        });
        let Some((index, _)) = best else {
            let texts: Vec<_> =
                missing.iter().map(|(name, amount)| format!("(res: {name}, q: {amount}), ")).collect();
            return Err(format!(
                "preemption: error finding a set of pods to preempt: no set of running pods found to reclaim resources: [{}]",
                texts.concat()
            ));
        };
        let pod = pods.swap_remove(index);
        missing = without(&missing, std::iter::once(&pod));
        chosen.push(pod);
    }
    Ok(chosen)
}

/// How much of what is missing stays missing without the pod, each resource as important as the other.
#[expect(clippy::cast_precision_loss, reason = "a measure of nearness need not be exact")]
fn distance(pod: &Pod, missing: &Missing) -> f64 {
    let rest = missing.iter().map(|(name, amount)| {
        let rest = amount.saturating_sub(request(pod, name)).max(0) as f64;
        (rest / *amount as f64).powi(2)
    });
    rest.sum()
}

fn size(one: &Pod, other: &Pod) -> Ordering {
    let by = |name: &str| request(one, name).cmp(&request(other, name));
    by("memory").then_with(|| by("cpu"))
}
