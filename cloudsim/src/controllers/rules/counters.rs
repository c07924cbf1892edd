//! What has gone the way of each rule since it was written last: counted here, and added to the rules' statuses by whoever asks for it.
//! The sums stand in the statuses alone, since there may be several clouds that count. No IO.

use std::collections::{HashMap, VecDeque};

use crds::rules::RuleStatus;
use jiff::Timestamp;
use parking_lot::Mutex;
use wire::text::printable_lines;

/// How many reasons of failures a status keeps, the last ones.
const ERRORS: usize = 10;
/// The longest of them, characters.
const ERROR_LENGTH: usize = 300;
/// What the reason begins with for which a rule is not in force.
const NOT_IN_FORCE: &str = "not in force: ";

/// Where a rule's object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The uid, by which it is counted.
    pub(super) uid: String,
    /// The namespace.
    pub(super) namespace: String,
    /// The name.
    pub(super) name: String,
}

/// What is to be added to a rule's status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Addition {
    successes: i64,
    failures: i64,
    /// Newest first.
    errors: VecDeque<String>,
    /// Why the rule is not in force.
    problem: Option<String>,
}

impl Addition {
    /// The status with this.
    pub(super) fn to(&self, status: &RuleStatus) -> RuleStatus {
        let problem = self.problem.iter().map(|why| format!("{NOT_IN_FORCE}{why}"));
        let before = status.errors.iter().filter(|error| !error.starts_with(NOT_IN_FORCE));
        let errors = self.errors.iter().chain(before).cloned();
        RuleStatus {
            success_messages: Some(
                status.success_messages.unwrap_or_default().saturating_add(self.successes),
            ),
            fail_messages: Some(status.fail_messages.unwrap_or_default().saturating_add(self.failures)),
            errors: problem.chain(errors).take(ERRORS).collect(),
        }
    }

    fn note(&mut self, outcome: Result<(), &str>) {
        match outcome {
            Ok(()) => self.successes += 1,
            Err(why) => {
                self.failures += 1;
                let short: String = printable_lines(why).chars().take(ERROR_LENGTH).collect();
                self.errors.push_front(format!("{:.0} {short}", Timestamp::now()));
                self.errors.truncate(ERRORS);
            }
        }
    }
}

#[derive(Debug)]
struct Count {
    place: Place,
    unwritten: Addition,
    is_changed: bool,
}

/// The counts of all rules.
#[derive(Debug, Default)]
pub(super) struct Counters(Mutex<HashMap<String, Count>>);

impl Counters {
    /// These are the rules, each with its status as it was read and why it is not in force. What is known of others is forgotten;
    /// a status counts only where nothing was counted yet.
    pub(super) fn update<'a>(
        &self,
        rules: impl Iterator<Item = (Place, Option<&'a RuleStatus>, Option<&'a String>)>,
    ) {
        let mut all = self.0.lock();
        let mut before = std::mem::take(&mut *all);
        for (place, status, problem) in rules {
            let mut count = before.remove(&place.uid).unwrap_or_else(|| first(place.clone(), status));
            let known = &mut count.unwritten.problem;
            if known.as_ref() != problem {
                *known = problem.cloned();
                count.is_changed = true;
            }
            all.insert(place.uid, count);
        }
    }

    /// A message of the rule arrived, or did not: why.
    pub(super) fn count(&self, uid: &str, outcome: Result<(), &str>) {
        let mut all = self.0.lock();
        // the rule may be gone by now
        let Some(count) = all.get_mut(uid) else { return };
        count.is_changed = true;
        count.unwritten.note(outcome);
    }

    /// What has changed since this was asked for last.
    pub(super) fn take_changed(&self) -> Vec<(Place, Addition)> {
        let mut all = self.0.lock();
        let taken = |count: &mut Count| {
            let is_changed = std::mem::take(&mut count.is_changed);
            is_changed.then(|| {
                let kept = Addition { problem: count.unwritten.problem.clone(), ..Addition::default() };
                (count.place.clone(), std::mem::replace(&mut count.unwritten, kept))
            })
        };
        all.values_mut().filter_map(taken).collect()
    }

    /// It could not be written, and is to be written with what has come since.
    pub(super) fn unwritten(&self, uid: &str, addition: Addition) {
        let mut all = self.0.lock();
        let Some(count) = all.get_mut(uid) else { return };
        count.is_changed = true;
        let new = &mut count.unwritten;
        new.successes += addition.successes;
        new.failures += addition.failures;
        new.errors.extend(addition.errors);
        new.errors.truncate(ERRORS);
    }
}

/// A rule without a status is given one.
fn first(place: Place, status: Option<&RuleStatus>) -> Count {
    let errors = status.map(|status| &status.errors[..]).unwrap_or_default();
    let problem = errors.iter().find_map(|error| error.strip_prefix(NOT_IN_FORCE)).map(str::to_owned);
    Count { place, unwritten: Addition { problem, ..Addition::default() }, is_changed: status.is_none() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted() -> Counters {
        let (counters, place) =
            (Counters::default(), Place { uid: "u".into(), namespace: "n".into(), name: "r".into() });
        counters.update([(place, Some(&RuleStatus::default()), None)].into_iter());
        counters
    }

    #[test]
    fn what_two_clouds_count_is_added_up() {
        let (one, other) = (counted(), counted());
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
        assert_eq!((status.success_messages, status.fail_messages), (Some(2), Some(2)));
        let ends: Vec<_> = status.errors.iter().filter_map(|error| error.split(' ').next_back()).collect();
        assert_eq!(ends, ["second", "first"]);
    }

    #[test]
    fn what_was_not_written_is_written_with_what_came_since() {
        let counters = counted();
        counters.count("u", Err("old"));
        let (_, addition) = counters.take_changed().remove(0);
        counters.count("u", Ok(()));
        counters.count("u", Err("new"));
        counters.unwritten("u", addition);
        let (_, addition) = counters.take_changed().remove(0);
        let status = addition.to(&RuleStatus { success_messages: Some(40), ..RuleStatus::default() });
        assert_eq!((status.success_messages, status.fail_messages), (Some(41), Some(2)));
        assert!(status.errors[0].ends_with("new") && status.errors[1].ends_with("old"));
    }

    #[test]
    fn counts_that_somebody_has_written_do_not_overflow() {
        let addition = Addition { successes: 1, failures: 1, ..Addition::default() };
        let most = RuleStatus {
            success_messages: Some(i64::MAX),
            fail_messages: Some(i64::MAX),
            ..RuleStatus::default()
        };
        let status = addition.to(&most);
        assert_eq!((status.success_messages, status.fail_messages), (Some(i64::MAX), Some(i64::MAX)));
    }

    #[test]
    fn a_problem_stands_first_and_goes() {
        let counters = counted();
        let place = || Place { uid: "u".into(), namespace: "n".into(), name: "r".into() };
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
