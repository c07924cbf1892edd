//! Selects the ended containers and sandboxes to remove. Pure.
//!
//! Source: <https://kubernetes.io/docs/concepts/architecture/garbage-collection/#container-image-garbage-collection>.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use jiff::Timestamp;
use wire::cri;

use crate::{names, settings::Housekeeping, timestamps};

/// A container that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EndedContainer {
    /// The runtime's id.
    pub(super) id: String,
    uid: String,
    name: String,
    created_at: Timestamp,
}

/// Returns the containers that have ended and carry a pod's labels.
pub(super) fn ended_containers(containers: &[cri::Container]) -> Vec<EndedContainer> {
    let ended = containers
        .iter()
        .filter(|c| c.state() == cri::ContainerState::ContainerExited);
    ended
        .filter_map(|container| {
            Some(EndedContainer {
                id: container.id.clone(),
                uid: container.labels.get(names::POD_UID)?.clone(),
                name: container.labels.get(names::CONTAINER_NAME)?.clone(),
                created_at: timestamps::from_nanos(container.created_at)
                    .unwrap_or(Timestamp::UNIX_EPOCH),
            })
        })
        .collect()
}

/// The state of the pod that owns an ended container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PodState {
    /// The pod runs or shall run.
    Active,
    /// The pod has succeeded or failed.
    Terminated,
    /// The API does not have the pod; `gc` takes care of it.
    Unknown,
}

/// Returns the ids of containers to remove, oldest first. With `all`, no container of a terminated pod is kept.
pub(super) fn surplus(
    ended: Vec<EndedContainer>,
    owner: impl Fn(&str) -> PodState,
    limits: &Housekeeping,
    all: bool,
    now: Timestamp,
) -> Vec<String> {
    let old_enough =
        |one: &EndedContainer| timestamps::since(one.created_at, now) >= limits.container_min_age;
    let mut by_name: BTreeMap<(String, String), Vec<EndedContainer>> = BTreeMap::new();
    let mut surplus = Vec::new();
    for one in ended {
        match owner(&one.uid) {
            PodState::Unknown => {}
            _ if !old_enough(&one) => {}
            PodState::Terminated if all => surplus.push(one),
            PodState::Terminated | PodState::Active => {
                by_name
                    .entry((one.uid.clone(), one.name.clone()))
                    .or_default()
                    .push(one);
            }
        }
    }
    for instances in by_name.values_mut() {
        instances.sort_by_key(|one| Reverse(one.created_at));
    }
    if let Some(most) = limits.containers_per_name {
        keep_newest(&mut by_name, most as usize, &mut surplus);
    }
    if let Some(most) = limits.containers_in_all.map(|most| most as usize)
        && count(&by_name) > most
    {
        // An equal number for each name, at least one; then the newest of all.
        let each = (most / by_name.len().max(1)).max(1);
        keep_newest(&mut by_name, each, &mut surplus);
        let mut rest: Vec<EndedContainer> = by_name.into_values().flatten().collect();
        rest.sort_by_key(|one| Reverse(one.created_at));
        surplus.extend(rest.split_off(most.min(rest.len())));
    }
    surplus.sort_by_key(|one| one.created_at);
    surplus.into_iter().map(|one| one.id).collect()
}

fn count(by_name: &BTreeMap<(String, String), Vec<EndedContainer>>) -> usize {
    by_name.values().map(Vec::len).sum()
}

fn keep_newest(
    by_name: &mut BTreeMap<(String, String), Vec<EndedContainer>>,
    most: usize,
    surplus: &mut Vec<EndedContainer>,
) {
    for instances in by_name.values_mut() {
        surplus.extend(instances.split_off(most.min(instances.len())));
    }
}

/// Returns the ids of sandboxes to remove: those that have ended and have no container. The newest of each pod is kept, because
/// the pod's next sandbox is numbered after it.
pub(super) fn empty_sandboxes(
    sandboxes: &[cri::PodSandbox],
    containers: &[cri::Container],
    owner: impl Fn(&str) -> PodState,
    limits: &Housekeeping,
    now: Timestamp,
) -> Vec<String> {
    let in_use: BTreeSet<&str> = containers
        .iter()
        .map(|one| one.pod_sandbox_id.as_str())
        .collect();
    let attempt = |one: &cri::PodSandbox| {
        (
            one.metadata.as_ref().map_or(0, |m| m.attempt),
            one.created_at,
        )
    };
    let mut newest: BTreeMap<&str, &cri::PodSandbox> = BTreeMap::new();
    for one in sandboxes {
        let Some(uid) = one.labels.get(names::POD_UID) else {
            continue;
        };
        let last = newest.entry(uid).or_insert(one);
        if attempt(one) > attempt(last) {
            *last = one;
        }
    }
    let goes = |one: &&cri::PodSandbox| {
        let Some(uid) = one.labels.get(names::POD_UID) else {
            return false;
        };
        let made = timestamps::from_nanos(one.created_at).unwrap_or(Timestamp::UNIX_EPOCH);
        one.state() == cri::PodSandboxState::SandboxNotready
            && owner(uid) != PodState::Unknown
            && !in_use.contains(one.id.as_str())
            && newest
                .get(uid.as_str())
                .is_none_or(|last| last.id != one.id)
            && timestamps::since(made, now) >= limits.container_min_age
    };
    sandboxes
        .iter()
        .filter(goes)
        .map(|one| one.id.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn now() -> Timestamp {
        Timestamp::from_second(1000).unwrap()
    }

    fn labels(uid: &str, name: &str) -> std::collections::BTreeMap<String, String> {
        [
            (names::POD_UID.to_owned(), uid.to_owned()),
            (names::CONTAINER_NAME.to_owned(), name.to_owned()),
        ]
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

    fn pod_state(uid: &str) -> PodState {
        match uid {
            "over" => PodState::Terminated,
            "stranger" => PodState::Unknown,
            _ => PodState::Active,
        }
    }

    fn plan_removal(limits: &Housekeeping, all: bool) -> String {
        let exited = cri::ContainerState::ContainerExited;
        let mut list: Vec<_> = [
            ("a1", "a", 10),
            ("a2", "a", 20),
            ("a3", "a", 30),
            ("b1", "b", 5),
            ("b2", "b", 990),
        ]
        .map(|(id, uid, made)| container(id, uid, made, exited))
        .into();
        list.push(container("over1", "over", 1, exited));
        list.push(container("x1", "stranger", 1, exited));
        list.push(container(
            "live",
            "a",
            2,
            cri::ContainerState::ContainerRunning,
        ));
        list.push(cri::Container {
            labels: Default::default(),
            ..container("foreign", "", 1, exited)
        });
        surplus(ended_containers(&list), pod_state, limits, all, now()).join(" ")
    }

    #[test]
    fn containers_beyond_the_limits_are_removed_oldest_first() {
        let limits = |per_name, in_all, age| Housekeeping {
            containers_per_name: per_name,
            containers_in_all: in_all,
            container_min_age: Duration::from_secs(age),
            ..Housekeeping::default()
        };
        assert_eq!(plan_removal(&limits(Some(1), None, 0), false), "b1 a1 a2");
        assert_eq!(
            plan_removal(&limits(Some(1), None, 0), true),
            "over1 b1 a1 a2"
        );
        assert_eq!(plan_removal(&limits(Some(2), None, 0), false), "a1");
        assert_eq!(
            plan_removal(&limits(Some(0), None, 0), false),
            "over1 b1 a1 a2 a3 b2"
        );
        assert_eq!(plan_removal(&limits(None, None, 0), false), "");
        assert_eq!(
            plan_removal(&limits(Some(0), None, 995), false),
            "over1 b1",
            "young ones stay"
        );
        assert_eq!(
            plan_removal(&limits(Some(1), None, 100), false),
            "a1 a2",
            "b2 is young, and not counted"
        );
        assert_eq!(plan_removal(&limits(None, Some(3), 0), false), "b1 a1 a2");
        assert_eq!(
            plan_removal(&limits(None, Some(1), 0), false),
            "over1 b1 a1 a2 a3"
        );
        assert_eq!(plan_removal(&limits(Some(9), Some(9), 0), false), "");
    }

    #[test]
    fn empty_sandboxes_are_removed_except_the_newest_of_a_pod() {
        let sandbox = |id: &str, uid: &str, attempt, ready: bool| cri::PodSandbox {
            id: id.into(),
            metadata: Some(cri::PodSandboxMetadata {
                attempt,
                ..Default::default()
            }),
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
            cri::PodSandbox {
                labels: Default::default(),
                ..sandbox("foreign", "", 0, false)
            },
        ];
        let in_use = [container(
            "held",
            "a",
            1,
            cri::ContainerState::ContainerExited,
        )];
        let removed = empty_sandboxes(
            &sandboxes,
            &in_use,
            pod_state,
            &Housekeeping::default(),
            now(),
        );
        assert_eq!(removed, ["a0"]);
    }
}
