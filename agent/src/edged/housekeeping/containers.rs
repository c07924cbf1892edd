//! Which containers and sandboxes that have ended are forgotten. Pure.
//!
//! Source: <https://kubernetes.io/docs/concepts/architecture/garbage-collection/#container-image-garbage-collection>.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use jiff::Timestamp;
use wire::cri;

use crate::{
    config::Housekeeping,
    edged::{moment, names},
};

/// A container that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Dead {
    /// The runtime's id.
    pub(super) id: String,
    uid: String,
    name: String,
    created_at: Timestamp,
}

/// The containers that have ended, of those that are an agent's.
pub(super) fn dead(containers: &[cri::Container]) -> Vec<Dead> {
    let ended = containers.iter().filter(|c| c.state() == cri::ContainerState::ContainerExited);
    ended
        .filter_map(|container| {
            Some(Dead {
                id: container.id.clone(),
                uid: container.labels.get(names::POD_UID)?.clone(),
                name: container.labels.get(names::CONTAINER_NAME)?.clone(),
                created_at: moment::from_nanos(container.created_at).unwrap_or(Timestamp::UNIX_EPOCH),
            })
        })
        .collect()
}

/// What a pod is, for its ended containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// It runs, or is to run.
    Alive,
    /// It has succeeded or failed.
    Over,
    /// The API does not have it: whoever looks for orphans sees to it.
    Unknown,
}

/// Ids of the containers that go, oldest first. `all`: none of a pod that is over is kept.
pub(super) fn surplus(
    dead: Vec<Dead>,
    owner: impl Fn(&str) -> Owner,
    limits: &Housekeeping,
    all: bool,
    now: Timestamp,
) -> Vec<String> {
    let old_enough = |one: &Dead| moment::since(one.created_at, now) >= limits.container_min_age;
    let mut units: BTreeMap<(String, String), Vec<Dead>> = BTreeMap::new();
    let mut gone = Vec::new();
    for one in dead {
        match owner(&one.uid) {
            Owner::Unknown => {}
            _ if !old_enough(&one) => {}
            Owner::Over if all => gone.push(one),
            Owner::Over | Owner::Alive => {
                units.entry((one.uid.clone(), one.name.clone())).or_default().push(one);
            }
        }
    }
    for unit in units.values_mut() {
        unit.sort_by_key(|one| Reverse(one.created_at));
    }
    if let Some(most) = limits.containers_per_name {
        keep(&mut units, most as usize, &mut gone);
    }
    if let Some(most) = limits.containers_in_all.map(|most| most as usize)
        && count(&units) > most
    {
        // The same number for each, but one at least; then the newest of all.
        let each = (most / units.len().max(1)).max(1);
        keep(&mut units, each, &mut gone);
        let mut rest: Vec<Dead> = units.into_values().flatten().collect();
        rest.sort_by_key(|one| Reverse(one.created_at));
        gone.extend(rest.split_off(most.min(rest.len())));
    }
    gone.sort_by_key(|one| one.created_at);
    gone.into_iter().map(|one| one.id).collect()
}

fn count(units: &BTreeMap<(String, String), Vec<Dead>>) -> usize {
    units.values().map(Vec::len).sum()
}

fn keep(units: &mut BTreeMap<(String, String), Vec<Dead>>, most: usize, gone: &mut Vec<Dead>) {
    for unit in units.values_mut() {
        gone.extend(unit.split_off(most.min(unit.len())));
    }
}

/// Ids of the sandboxes that go: those that have ended and hold no container, but not the newest of a pod, by which its next
/// one is numbered.
pub(super) fn empty(
    sandboxes: &[cri::PodSandbox],
    containers: &[cri::Container],
    owner: impl Fn(&str) -> Owner,
    limits: &Housekeeping,
    now: Timestamp,
) -> Vec<String> {
    let held: BTreeSet<&str> = containers.iter().map(|one| one.pod_sandbox_id.as_str()).collect();
    let attempt = |one: &cri::PodSandbox| (one.metadata.as_ref().map_or(0, |m| m.attempt), one.created_at);
    let mut newest: BTreeMap<&str, &cri::PodSandbox> = BTreeMap::new();
    for one in sandboxes {
        let Some(uid) = one.labels.get(names::POD_UID) else { continue };
        let last = newest.entry(uid).or_insert(one);
        if attempt(one) > attempt(last) {
            *last = one;
        }
    }
    let goes = |one: &&cri::PodSandbox| {
        let Some(uid) = one.labels.get(names::POD_UID) else { return false };
        let made = moment::from_nanos(one.created_at).unwrap_or(Timestamp::UNIX_EPOCH);
        one.state() == cri::PodSandboxState::SandboxNotready
            && owner(uid) != Owner::Unknown
            && !held.contains(one.id.as_str())
            && newest.get(uid.as_str()).is_none_or(|last| last.id != one.id)
            && moment::since(made, now) >= limits.container_min_age
    };
    sandboxes.iter().filter(goes).map(|one| one.id.clone()).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn now() -> Timestamp {
        Timestamp::from_second(1000).unwrap()
    }

    fn labels(uid: &str, name: &str) -> std::collections::BTreeMap<String, String> {
        [(names::POD_UID.to_owned(), uid.to_owned()), (names::CONTAINER_NAME.to_owned(), name.to_owned())]
            .into()
    }

    fn container(id: &str, uid: &str, made: i64, state: cri::ContainerState) -> cri::Container {
        cri::Container {
            id: id.into(),
            pod_sandbox_id: format!("s-{id}"),
            state: state as i32,
            created_at: made * 1_000_000_000,
            labels: labels(uid, "c"),
            ..Default::default()
        }
    }

    fn owner(uid: &str) -> Owner {
        match uid {
            "over" => Owner::Over,
            "stranger" => Owner::Unknown,
            _ => Owner::Alive,
        }
    }

    fn gone(limits: &Housekeeping, all: bool) -> String {
        let exited = cri::ContainerState::ContainerExited;
        let mut list: Vec<_> =
            [("a1", "a", 10), ("a2", "a", 20), ("a3", "a", 30), ("b1", "b", 5), ("b2", "b", 990)]
                .map(|(id, uid, made)| container(id, uid, made, exited))
                .into();
        list.push(container("over1", "over", 1, exited));
        list.push(container("x1", "stranger", 1, exited));
        list.push(container("live", "a", 2, cri::ContainerState::ContainerRunning));
        list.push(cri::Container { labels: Default::default(), ..container("foreign", "", 1, exited) });
        surplus(dead(&list), owner, limits, all, now()).join(" ")
    }

    #[test]
    fn what_is_beyond_the_limits_goes_oldest_first() {
        let limits = |per_name, in_all, age| Housekeeping {
            containers_per_name: per_name,
            containers_in_all: in_all,
            container_min_age: Duration::from_secs(age),
            ..Housekeeping::default()
        };
        assert_eq!(gone(&limits(Some(1), None, 0), false), "b1 a1 a2");
        assert_eq!(gone(&limits(Some(1), None, 0), true), "over1 b1 a1 a2");
        assert_eq!(gone(&limits(Some(2), None, 0), false), "a1");
        assert_eq!(gone(&limits(Some(0), None, 0), false), "over1 b1 a1 a2 a3 b2");
        assert_eq!(gone(&limits(None, None, 0), false), "");
        assert_eq!(gone(&limits(Some(0), None, 995), false), "over1 b1", "young ones stay");
        assert_eq!(gone(&limits(Some(1), None, 100), false), "a1 a2", "b2 is young, and not counted");
        assert_eq!(gone(&limits(None, Some(3), 0), false), "b1 a1 a2");
        assert_eq!(gone(&limits(None, Some(1), 0), false), "over1 b1 a1 a2 a3");
        assert_eq!(gone(&limits(Some(9), Some(9), 0), false), "");
    }

    #[test]
    fn empty_sandboxes_go_but_the_newest_of_a_pod() {
        let sandbox = |id: &str, uid: &str, attempt, ready: bool| cri::PodSandbox {
            id: id.into(),
            metadata: Some(cri::PodSandboxMetadata { attempt, ..Default::default() }),
            state: i32::from(!ready),
            created_at: 1,
            labels: labels(uid, ""),
            ..Default::default()
        };
        let sandboxes = [
            sandbox("a0", "a", 0, false),
            sandbox("s-held", "a", 1, false),
            sandbox("a2", "a", 2, false),
            sandbox("b0", "b", 0, true),
            sandbox("b1", "b", 1, false),
            sandbox("x0", "stranger", 0, false),
            sandbox("x1", "stranger", 1, false),
            cri::PodSandbox { labels: Default::default(), ..sandbox("foreign", "", 0, false) },
        ];
        let held = [container("held", "a", 1, cri::ContainerState::ContainerExited)];
        let gone = empty(&sandboxes, &held, owner, &Housekeeping::default(), now());
        assert_eq!(gone, ["a0"]);
    }
}
