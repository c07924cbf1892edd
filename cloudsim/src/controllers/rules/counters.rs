//! What has gone the way of each rule: counted here, written into the rules' statuses by whoever asks for what has changed. No IO.

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

#[derive(Debug)]
struct Count {
    place: Place,
    successes: i64,
    failures: i64,
    errors: VecDeque<String>,
    problem: Option<String>,
    is_changed: bool,
}

impl Count {
    fn status(&self) -> RuleStatus {
        let problem = self.problem.iter().map(|why| format!("{NOT_IN_FORCE}{why}"));
        RuleStatus {
            success_messages: Some(self.successes),
            fail_messages: Some(self.failures),
            errors: problem.chain(self.errors.iter().cloned()).take(ERRORS).collect(),
        }
    }
}

/// The counts of all rules.
#[derive(Debug, Default)]
pub(super) struct Counters(Mutex<HashMap<String, Count>>);

impl Counters {
    /// These are the rules, each with its status as it was read and why it is not in force. What is known of others is forgotten;
    /// a status counts only where nothing was counted yet.
    pub(super) fn update(&self, rules: impl Iterator<Item = (Place, Option<RuleStatus>, Option<String>)>) {
        let mut all = self.0.lock();
        let mut before = std::mem::take(&mut *all);
        for (place, status, problem) in rules {
            let mut count = before.remove(&place.uid).unwrap_or_else(|| read(place.clone(), status));
            count.is_changed |= count.problem != problem;
            count.problem = problem;
            all.insert(place.uid, count);
        }
    }

    /// A message of the rule arrived, or did not: why.
    pub(super) fn count(&self, uid: &str, outcome: Result<(), &str>) {
        let mut all = self.0.lock();
        // the rule may be gone by now
        let Some(count) = all.get_mut(uid) else { return };
        count.is_changed = true;
        match outcome {
            Ok(()) => count.successes += 1,
            Err(why) => {
                count.failures += 1;
                let short: String = printable_lines(why).chars().take(ERROR_LENGTH).collect();
                count.errors.push_front(format!("{:.0} {short}", Timestamp::now()));
                count.errors.truncate(ERRORS);
            }
        }
    }

    /// The statuses that have changed since they were asked for last.
    pub(super) fn take_changed(&self) -> Vec<(Place, RuleStatus)> {
        let mut all = self.0.lock();
        let taken = |count: &mut Count| {
            let is_changed = std::mem::take(&mut count.is_changed);
            is_changed.then(|| (count.place.clone(), count.status()))
        };
        all.values_mut().filter_map(taken).collect()
    }

    /// The status could not be written.
    pub(super) fn unwritten(&self, uid: &str) {
        if let Some(count) = self.0.lock().get_mut(uid) {
            count.is_changed = true;
        }
    }
}

fn read(place: Place, status: Option<RuleStatus>) -> Count {
    let is_new = status.is_none();
    let status = status.unwrap_or_default();
    let (problems, errors): (Vec<_>, Vec<_>) =
        status.errors.into_iter().partition(|error| error.starts_with(NOT_IN_FORCE));
    let problem =
        problems.into_iter().next().and_then(|text| text.strip_prefix(NOT_IN_FORCE).map(str::to_owned));
    Count {
        place,
        successes: status.success_messages.unwrap_or_default(),
        failures: status.fail_messages.unwrap_or_default(),
        errors: errors.into(),
        problem,
        is_changed: is_new,
    }
}
