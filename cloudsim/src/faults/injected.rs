//! The faults that are injected now, the latest ones before, and the sessions of nodes.

use std::collections::{BTreeMap, VecDeque};

use clock::HashMap;

use super::{
    Fault, FaultTarget, Injection,
    conditions::{MAX_FAULTS_OF_TARGET, MAX_TARGETS},
    fault::ActiveFault,
};

/// How many faults that have ended are remembered.
const MAX_PAST: usize = 500;

/// What the methods of [`Faults`](super::Faults) share.
#[derive(Debug, Default)]
pub(super) struct InjectedFaults {
    /// By target, in the order in which they were injected: each session looks for its own.
    pub(super) faults: BTreeMap<FaultTarget, Vec<ActiveFault>>,
    pub(super) past: VecDeque<Fault>,
    pub(super) next_id: u64,
    pub(super) hostile: HashMap<String, VecDeque<Injection>>,
    /// The number of sessions that each node has had.
    pub(super) session_numbers: HashMap<String, u64>,
}

impl InjectedFaults {
    /// Ends faults of a target, or of all of them. Returns whether there were any.
    pub(super) fn end(
        &mut self,
        target: Option<&FaultTarget>,
        is_meant: impl Fn(&ActiveFault) -> bool,
    ) -> bool {
        let mut ended = Vec::new();
        let mut end = |faults: &mut Vec<ActiveFault>| {
            ended.extend(faults.extract_if(.., |one| is_meant(one)));
            !faults.is_empty()
        };
        match target {
            Some(target) => {
                if self
                    .faults
                    .get_mut(target)
                    .is_some_and(|faults| !end(faults))
                {
                    self.faults.remove(target);
                }
            }
            None => self.faults.retain(|_, faults| end(faults)),
        }
        let has_any = !ended.is_empty();
        ended.sort_by_key(|one| one.fault.id);
        for mut one in ended {
            one.fault.until = Some(clock::now());
            self.past.push_back(one.fault);
        }
        while self.past.len() > MAX_PAST {
            self.past.pop_front();
        }
        has_any
    }

    /// Reports whether this target, or all of them together, can have no more faults.
    pub(super) fn is_full(&self, target: &FaultTarget) -> bool {
        let of_target = self.faults.get(target).map_or(0, Vec::len);
        of_target >= MAX_FAULTS_OF_TARGET || self.faults.len() >= MAX_TARGETS && of_target == 0
    }
}
