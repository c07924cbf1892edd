//! Back-off before failed pods are replaced: a node that refuses a pod refuses the next one too.

use std::time::Duration;

use clock::HashMap;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use parking_lot::Mutex;

use super::pods::phase;

/// The back-off of replica sets: the first, which doubles, and the longest.
const REFUSED_BACKOFF: SignedDuration = SignedDuration::from_secs(10);
const LONGEST_REFUSED_BACKOFF: SignedDuration = SignedDuration::from_mins(10);
/// The back-off of daemon sets; Kubernetes'.
const FAILED_BACKOFF: SignedDuration = SignedDuration::from_secs(1);
const LONGEST_FAILED_BACKOFF: SignedDuration = SignedDuration::from_mins(15);
/// The back-off starts over after this long without a failure.
const RESET_AFTER: SignedDuration = SignedDuration::from_mins(30);
/// How many keys are remembered.
const MAX_PLACES: usize = 10_000;

/// Returns the rest of the back-off after this many failures in a row; it doubles with each.
pub(super) fn remaining_delay(
    first: SignedDuration,
    longest: SignedDuration,
    failures: usize,
    last: Timestamp,
    now: Timestamp,
) -> Option<Duration> {
    let doublings = u32::try_from(failures.checked_sub(1)?)
        .unwrap_or(u32::MAX)
        .min(20);
    let wait = first.saturating_mul(1 << doublings).min(longest);
    Duration::try_from(wait - now.duration_since(last))
        .ok()
        .filter(|left| !left.is_zero())
}

/// Reports whether the node rejected the pod, which so never ran.
fn is_refused(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let ran = status.is_some_and(|status| {
        status
            .container_statuses
            .as_ref()
            .is_some_and(|all| all.iter().any(|one| one.container_id.is_some()))
    });
    let is_evicted = status.and_then(|status| status.reason.as_deref()) == Some("Evicted");
    phase(pod) == "Failed" && !ran && !is_evicted
}

/// Returns how long not to create pods in addition to these, of which the newest were rejected. An accepted one ends the row.
pub(super) fn after_refusals<'a>(
    pods: impl Iterator<Item = &'a Pod> + Clone,
    now: Timestamp,
) -> Option<Duration> {
    let created = |pod: &Pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let had = pods
        .clone()
        .filter(|pod| phase(pod) == "Running")
        .filter_map(created)
        .max();
    let refused = pods.filter(|pod| is_refused(pod)).filter_map(created);
    let refused: Vec<_> = refused
        .filter(|time| had.is_none_or(|had| *time > had))
        .collect();
    let last = refused.iter().max()?;
    remaining_delay(
        REFUSED_BACKOFF,
        LONGEST_REFUSED_BACKOFF,
        refused.len(),
        *last,
        now,
    )
}

#[derive(Clone, Debug)]
struct Failures {
    count: usize,
    /// The uid of the pod that failed last, with the time at which that was observed.
    uid: String,
    last: Timestamp,
}

/// The failures by key: owner and node, or owner and ordinal. Lost with the process.
#[derive(Debug, Default)]
pub(crate) struct FailureBackoff(Mutex<HashMap<String, Failures>>);

impl FailureBackoff {
    /// Returns how long this failed pod is kept before it is replaced.
    pub(crate) fn remaining_delay(
        &self,
        place: &str,
        pod: &Pod,
        now: Timestamp,
    ) -> Option<Duration> {
        let mut places = self.0.lock();
        if places.len() >= MAX_PLACES && !places.contains_key(place) {
            places.retain(|_, failures| now.duration_since(failures.last) < RESET_AFTER);
            if places.len() >= MAX_PLACES {
                places.clear();
            }
        }
        let uid = pod.uid().unwrap_or_default();
        let fresh = || Failures {
            count: 0,
            uid: String::new(),
            last: now,
        };
        let failures = places.entry(place.to_owned()).or_insert_with(fresh);
        if failures.uid != uid {
            let is_forgiven = now.duration_since(failures.last) >= RESET_AFTER;
            failures.count = if is_forgiven {
                1
            } else {
                failures.count.saturating_add(1)
            };
            (failures.uid, failures.last) = (uid, now);
        }
        remaining_delay(
            FAILED_BACKOFF,
            LONGEST_FAILED_BACKOFF,
            failures.count,
            failures.last,
            now,
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_750_000_000 + second).unwrap()
    }

    fn pod(uid: &str, phase: &str, created: i64) -> Pod {
        serde_json::from_value(
            json!({"metadata": {"uid": uid, "creationTimestamp": at(created)}, "spec": {"containers": []},
            "status": {"phase": phase, "reason": "OutOfcpu"}}),
        )
        .unwrap()
    }

    #[test]
    fn refusals_in_a_row_make_the_wait_longer() {
        let left =
            |pods: &[Pod], now| after_refusals(pods.iter(), at(now)).map(|left| left.as_secs());
        let refused = |created| pod("", "Failed", created);
        assert_eq!(left(&[], 0), None);
        assert_eq!(left(&[refused(0)], 0), Some(10));
        assert_eq!(left(&[refused(0)], 10), None);
        assert_eq!(left(&[refused(0), refused(10)], 10), Some(20));
        assert_eq!(left(&[refused(0), refused(10), refused(30)], 30), Some(40));
        assert_eq!(
            left(&[refused(0), refused(10), pod("", "Running", 20)], 20),
            None
        );
        assert_eq!(left(&[pod("", "Running", 5), refused(10)], 10), Some(10));
    }

    #[test]
    fn the_same_place_waits_longer_each_time_until_it_is_forgiven() {
        let backoff = FailureBackoff::default();
        let left = |uid: &str, now| {
            backoff
                .remaining_delay("a", &pod(uid, "Failed", 0), at(now))
                .map(|left| left.as_secs())
        };
        assert_eq!(
            (left("1", 0), left("1", 0), left("1", 1)),
            (Some(1), Some(1), None)
        );
        assert_eq!((left("2", 1), left("2", 3)), (Some(2), None));
        assert_eq!(left("3", 3), Some(4));
        assert_eq!(left("4", 3 + 1800), Some(1));
        assert_eq!(
            backoff
                .remaining_delay("b", &pod("5", "Failed", 0), at(3))
                .map(|left| left.as_secs()),
            Some(1)
        );
    }
}
