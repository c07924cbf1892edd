//! Counts the messages of each rule between two writes of its status. Totals are only in the statuses, since several clouds may count. No
//! I/O.

use std::collections::VecDeque;

use clock::HashMap;
use crds::rules::RuleStatus;
use parking_lot::Mutex;
use wire::text::printable_lines;

/// The number of last errors in a status.
const MAX_ERRORS: usize = 10;
/// The longest error, characters.
const MAX_ERROR_LENGTH: usize = 300;
/// The prefix of the error for a rule that is not in force.
const NOT_IN_FORCE: &str = "not in force: ";

/// Identifies a rule's object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RuleRef {
    /// The uid, by which messages are counted.
    pub(super) uid: String,
    /// The namespace of the rule.
    pub(super) namespace: String,
    /// The name of the rule.
    pub(super) name: String,
}

/// What is to be added to a rule's status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StatusDelta {
    successes: i64,
    failures: i64,
    /// The newest first.
    errors: VecDeque<String>,
    /// Why the rule is not in force.
    problem: Option<String>,
}

impl StatusDelta {
    /// Returns the status with this added.
    pub(super) fn to(&self, status: &RuleStatus) -> RuleStatus {
        let problem = self
            .problem
            .iter()
            .map(|why| format!("{NOT_IN_FORCE}{why}"));
        let before = status
            .errors
            .iter()
            .filter(|error| !error.starts_with(NOT_IN_FORCE));
        let errors = self.errors.iter().chain(before).cloned();
        RuleStatus {
            success_messages: Some(
                status
                    .success_messages
                    .unwrap_or_default()
                    .saturating_add(self.successes),
            ),
            fail_messages: Some(
                status
                    .fail_messages
                    .unwrap_or_default()
                    .saturating_add(self.failures),
            ),
            errors: problem.chain(errors).take(MAX_ERRORS).collect(),
        }
    }

    fn note(&mut self, outcome: Result<(), &str>) {
        match outcome {
            Ok(()) => self.successes += 1,
            Err(why) => {
                self.failures += 1;
                let short: String = printable_lines(why)
                    .chars()
                    .take(MAX_ERROR_LENGTH)
                    .collect();
                self.errors
                    .push_front(format!("{:.0} {short}", clock::now()));
                self.errors.truncate(MAX_ERRORS);
            }
        }
    }
}

#[derive(Debug)]
struct Count {
    place: RuleRef,
    put_back: StatusDelta,
    is_changed: bool,
}

/// The counters of all rules.
#[derive(Debug, Default)]
pub(super) struct Counters(Mutex<HashMap<String, Count>>);

impl Counters {
    /// Replaces the set of rules, each with its status as read and why it is not in force. Other rules are forgotten. A status is used
    /// only for a rule that was not counted yet.
    pub(super) fn update<'a>(
        &self,
        rules: impl Iterator<Item = (RuleRef, Option<&'a RuleStatus>, Option<&'a String>)>,
    ) {
        let mut all = self.0.lock();
        let mut before = std::mem::take(&mut *all);
        for (place, status, problem) in rules {
            let mut count = before
                .remove(&place.uid)
                .unwrap_or_else(|| first(place.clone(), status));
            let known = &mut count.put_back.problem;
            if known.as_ref() != problem {
                *known = problem.cloned();
                count.is_changed = true;
            }
            all.insert(place.uid, count);
        }
    }

    /// Counts a message of the rule that was delivered, or why it was not.
    pub(super) fn count(&self, uid: &str, outcome: Result<(), &str>) {
        let mut all = self.0.lock();
        // the rule may be deleted by now
        let Some(count) = all.get_mut(uid) else {
            return;
        };
        count.is_changed = true;
        count.put_back.note(outcome);
    }

    /// Takes what has changed since the last call.
    pub(super) fn take_changed(&self) -> Vec<(RuleRef, StatusDelta)> {
        let mut all = self.0.lock();
        let taken = |count: &mut Count| {
            let is_changed = std::mem::take(&mut count.is_changed);
            is_changed.then(|| {
                let kept = StatusDelta {
                    problem: count.put_back.problem.clone(),
                    ..StatusDelta::default()
                };
                (
                    count.place.clone(),
                    std::mem::replace(&mut count.put_back, kept),
                )
            })
        };
        all.values_mut().filter_map(taken).collect()
    }

    /// Puts back what could not be written; it is added to what was counted since.
    pub(super) fn put_back(&self, uid: &str, addition: StatusDelta) {
        let mut all = self.0.lock();
        let Some(count) = all.get_mut(uid) else {
            return;
        };
        count.is_changed = true;
        let new = &mut count.put_back;
        new.successes += addition.successes;
        new.failures += addition.failures;
        new.errors.extend(addition.errors);
        new.errors.truncate(MAX_ERRORS);
    }
}

/// Begins counting; a rule without a status gets one.
fn first(place: RuleRef, status: Option<&RuleStatus>) -> Count {
    let errors = status.map(|status| &status.errors[..]).unwrap_or_default();
    let problem = errors
        .iter()
        .find_map(|error| error.strip_prefix(NOT_IN_FORCE))
        .map(str::to_owned);
    Count {
        place,
        put_back: StatusDelta {
            problem,
            ..StatusDelta::default()
        },
        is_changed: status.is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_counters() -> Counters {
        let (counters, place) = (
            Counters::default(),
            RuleRef {
                uid: "u".into(),
                namespace: "n".into(),
                name: "r".into(),
            },
        );
        counters.update([(place, Some(&RuleStatus::default()), None)].into_iter());
        counters
    }

    #[test]
    fn what_two_clouds_count_is_added_up() {
        let (one, other) = (sample_counters(), sample_counters());
        one.count("u", Ok(()));
        one.count("u", Err("first"));
        other.count("u", Ok(()));
        other.count("u", Err("second"));
        let mut status = RuleStatus::default();
        for counters in [&one, &other] {
            for (_, addition) in counters.take_changed() {
                status = addition.to(&status);
            }
            assert!(counters.take_changed().is_empty());
        }
        assert_eq!(
            (status.success_messages, status.fail_messages),
            (Some(2), Some(2))
        );
        let ends: Vec<_> = status
            .errors
            .iter()
            .filter_map(|error| error.split(' ').next_back())
            .collect();
        assert_eq!(ends, ["second", "first"]);
    }

    #[test]
    fn what_was_not_written_is_written_with_what_came_since() {
        let counters = sample_counters();
        counters.count("u", Err("old"));
        let (_, addition) = counters.take_changed().remove(0);
        counters.count("u", Ok(()));
        counters.count("u", Err("new"));
        counters.put_back("u", addition);
        let (_, addition) = counters.take_changed().remove(0);
        let status = addition.to(&RuleStatus {
            success_messages: Some(40),
            ..RuleStatus::default()
        });
        assert_eq!(
            (status.success_messages, status.fail_messages),
            (Some(41), Some(2))
        );
        assert!(status.errors[0].ends_with("new") && status.errors[1].ends_with("old"));
    }

    #[test]
    fn counts_that_somebody_has_written_do_not_overflow() {
        let addition = StatusDelta {
            successes: 1,
            failures: 1,
            ..StatusDelta::default()
        };
        let most = RuleStatus {
            success_messages: Some(i64::MAX),
            fail_messages: Some(i64::MAX),
            ..RuleStatus::default()
        };
        let status = addition.to(&most);
        assert_eq!(
            (status.success_messages, status.fail_messages),
            (Some(i64::MAX), Some(i64::MAX))
        );
    }

    #[test]
    fn a_problem_stands_first_and_goes() {
        let counters = sample_counters();
        let place = || RuleRef {
            uid: "u".into(),
            namespace: "n".into(),
            name: "r".into(),
        };
        let why = "no endpoint".to_owned();
        counters.count("u", Err("a"));
        counters.update([(place(), None, Some(&why))].into_iter());
        let told = |status: &RuleStatus| counters.take_changed().remove(0).1.to(status);
        let status = told(&RuleStatus::default());
        assert!(status.errors[0] == "not in force: no endpoint" && status.errors[1].ends_with('a'));
        counters.update([(place(), Some(&status), None)].into_iter());
        assert_eq!(told(&status).errors, status.errors[1..]);
    }
}
