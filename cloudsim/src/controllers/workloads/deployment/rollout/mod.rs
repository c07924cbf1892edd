//! Plans the numbers of pods of a deployment's replica sets. Pure.
//!
//! Source: Kubernetes' deployment controller (`rolling.go`, `recreate.go`, `util/deployment_util.go`).

use k8s_openapi::{
    api::apps::v1::{Deployment, ReplicaSet},
    apimachinery::pkg::util::intstr::IntOrString,
};
use kube::ResourceExt;

/// The annotation of a replica set with its deployment's wanted number when it was last scaled.
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
/// The annotation of a replica set with that number and the surge.
pub(super) const MAXIMUM: &str = "deployment.kubernetes.io/max-replicas";

/// The limits of a rolling update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// The wanted number of pods.
    pub(super) desired: i32,
    /// How many more pods may exist for a while.
    pub(super) surge: i32,
    /// How many of the wanted pods may be unavailable for a while.
    pub(super) unavailable: i32,
}

impl Limits {
    /// Returns the limits of a deployment.
    pub(super) fn of(deployment: &Deployment) -> Self {
        let spec = deployment.spec.clone().unwrap_or_default();
        let desired = spec.replicas.unwrap_or(1);
        let strategy = spec.strategy.unwrap_or_default();
        if strategy.type_.as_deref() == Some("Recreate") {
            return Self {
                desired,
                surge: 0,
                unavailable: desired,
            };
        }
        let rolling = strategy.rolling_update.unwrap_or_default();
        let amount = |value: Option<IntOrString>, up| amount(value.as_ref(), desired, up);
        let (surge, unavailable) = (
            amount(rolling.max_surge, true),
            amount(rolling.max_unavailable, false),
        );
        // with both 0 there could be no progress
        let unavailable = if surge == 0 && unavailable == 0 {
            1
        } else {
            unavailable
        };
        Self {
            desired,
            surge,
            unavailable: unavailable.min(desired),
        }
    }

    /// Returns the largest number of pods at any time.
    pub(super) fn maximum(self) -> i32 {
        if self.desired == 0 {
            0
        } else {
            self.desired + self.surge
        }
    }
}

/// Resolves a number or percentage; `up` rounds percentages up.
pub(crate) fn amount(value: Option<&IntOrString>, of: i32, up: bool) -> i32 {
    match value {
        None => 0,
        Some(IntOrString::Int(number)) => *number,
        Some(IntOrString::String(text)) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or_default();
            let product = percent * i64::from(of);
            let rounded = if up {
                (product + 99) / 100
            } else {
                product / 100
            };
            i32::try_from(rounded).unwrap_or(of)
        }
    }
}

/// The numbers of a replica set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Set {
    pub(super) name: String,
    /// `spec.replicas`
    pub(super) wanted: i32,
    /// `status.replicas`
    pub(super) there: i32,
    /// `status.availableReplicas`, not more than are wanted
    pub(super) available: i32,
    /// The annotation [`MAXIMUM`].
    pub(super) maximum: Option<i32>,
    /// The annotation [`DESIRED`].
    pub(super) desired: Option<i32>,
}

impl Set {
    /// Returns the numbers of a replica set.
    pub(super) fn of(set: &ReplicaSet) -> Self {
        let status = set.status.clone().unwrap_or_default();
        let wanted = set
            .spec
            .as_ref()
            .and_then(|spec| spec.replicas)
            .unwrap_or(1);
        let number = |name| {
            set.annotations()
                .get(name)
                .and_then(|number| number.parse().ok())
        };
        Self {
            name: set.name_any(),
            wanted,
            there: status.replicas,
            // the status may be older than the last scaling, which deletes pods that it still counts
            available: status.available_replicas.unwrap_or_default().min(wanted),
            maximum: number(MAXIMUM),
            desired: number(DESIRED),
        }
    }
}

/// The name of a replica set and its new number of pods.
pub(super) type Scaling = (String, i32);

/// Returns the next step of a rolling update, `None` if nothing is to be done now; `old` has the earlier templates, the oldest first.
pub(super) fn rolling(limits: Limits, new: &Set, old: &[Set]) -> Option<Vec<Scaling>> {
    let total = new.wanted + old.iter().map(|set| set.wanted).sum::<i32>();
    if new.wanted != limits.desired {
        let room = limits.maximum() - total;
        let target = if new.wanted > limits.desired {
            limits.desired
        } else {
            new.wanted + room.clamp(0, limits.desired - new.wanted)
        };
        if target != new.wanted {
            return Some(vec![(new.name.clone(), target)]);
        }
    }
    let scaled = shrink(limits, new, old);
    (!scaled.is_empty()).then_some(scaled)
}

/// Scales old sets down: first pods that are not available anyway, then as many as may be unavailable.
fn shrink(limits: Limits, new: &Set, old: &[Set]) -> Vec<Scaling> {
    let mut left: Vec<Set> = old.iter().filter(|set| set.wanted > 0).cloned().collect();
    let minimum = limits.desired - limits.unavailable;
    let total = new.wanted + left.iter().map(|set| set.wanted).sum::<i32>();
    // new pods that are not available yet must not be counted on
    let mut budget = total - minimum - (new.wanted - new.available);
    if budget <= 0 {
        return Vec::new();
    }
    for set in &mut left {
        let broken = (set.wanted - set.available).min(budget).max(0);
        set.wanted -= broken;
        budget -= broken;
    }
    let available: i32 = new.available + left.iter().map(|set| set.available).sum::<i32>();
    let mut surplus = available - minimum;
    for set in &mut left {
        let taken = set.wanted.min(surplus).max(0);
        set.wanted -= taken;
        surplus -= taken;
    }
    let before = |set: &Set| {
        old.iter()
            .find(|old| old.name == set.name)
            .map(|old| old.wanted)
    };
    left.iter()
        .filter(|set| before(set) != Some(set.wanted))
        .map(|set| (set.name.clone(), set.wanted))
        .collect()
}

/// Scales proportionally when the deployment itself was scaled during a rollout, or is paused. `sets` has the new one, if there is one,
/// and the old ones; returns `None` if the rollout continues by its own rules.
pub(super) fn proportional(limits: Limits, sets: &[Set]) -> Option<Vec<Scaling>> {
    let mut active: Vec<&Set> = sets.iter().filter(|set| set.wanted > 0).collect();
    let scaled = active
        .iter()
        .any(|set| set.desired.is_some_and(|desired| desired != limits.desired));
    if !scaled {
        return None;
    }
    if let [only] = active.as_slice() {
        return Some(vec![(only.name.clone(), limits.desired)]);
    }
    let total: i32 = active.iter().map(|set| set.wanted).sum();
    let mut left = limits.maximum() - total;
    active.sort_by_key(|set| std::cmp::Reverse(set.wanted));
    let mut shares: Vec<Scaling> = Vec::new();
    for set in &active {
        let before = set
            .maximum
            .filter(|maximum| *maximum > 0)
            .unwrap_or(total.max(1));
        let exact = f64::from(set.wanted) * f64::from(limits.maximum()) / f64::from(before);
        #[allow(
            clippy::cast_possible_truncation,
            reason = "a share of a 32 bit number"
        )]
        let share = (exact.round() as i32 - set.wanted).clamp(left.min(0), left.max(0));
        left -= share;
        shares.push((set.name.clone(), set.wanted + share));
    }
    if let Some((_, largest)) = shares.first_mut() {
        *largest = (*largest + left).max(0);
    }
    Some(shares)
}

#[cfg(test)]
mod tests;
