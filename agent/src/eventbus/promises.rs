//! What the cloud guarantees for the messages of each rule. CloudCore guarantees nothing. A cloud that promises answers and
//! does not send them is no longer expected to, as after a move of the node to another cloud.

use std::{collections::BTreeMap, sync::Arc};

use mqtt::filter_matches;
use parking_lot::Mutex;
use wire::bus::Terms;

/// The missed answers in a row after which none is expected any more.
const MAX_MISSED_ANSWERS: u32 = 3;

/// The guarantees by filter; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Promises(Arc<Mutex<BTreeMap<String, Promise>>>);

#[derive(Clone, Copy, Debug)]
struct Promise {
    terms: Terms,
    missed: u32,
}

impl Promises {
    /// Sets the guarantees of a filter; `None` removes the filter.
    pub(super) fn set(&self, filter: &str, terms: Option<Terms>) {
        let mut all = self.0.lock();
        match terms {
            Some(terms) => drop(all.insert(filter.to_owned(), Promise { terms, missed: 0 })),
            None => drop(all.remove(filter)),
        }
    }

    /// Returns the guarantees for a message: those that any rule with a matching filter has.
    pub(super) fn of(&self, topic: &str) -> Terms {
        let all = self.0.lock();
        // most rules name their topic exactly, and no rule can add to all guarantees
        if let Some(promise) = all
            .get(topic)
            .filter(|promise| promise.terms == Terms::OURS)
        {
            return promise.terms;
        }
        let of_it = all
            .iter()
            .filter(|(filter, _)| filter_matches(filter, topic));
        of_it.fold(Terms::default(), |all, (_, Promise { terms, .. })| Terms {
            answered: all.answered || terms.answered,
            base64: all.base64 || terms.base64,
        })
    }

    /// Records that a message of the topic was answered.
    pub(super) fn record_answered(&self, topic: &str) {
        self.each(topic, |promise| promise.missed = 0);
    }

    /// Records that a message of the topic was not answered in time. Returns whether answers are no longer expected.
    pub(super) fn record_missed(&self, topic: &str) -> bool {
        let mut is_over = false;
        self.each(topic, |promise| {
            promise.missed += 1;
            if promise.missed >= MAX_MISSED_ANSWERS {
                promise.terms.answered = false;
                is_over = true;
            }
        });
        is_over
    }

    fn each(&self, topic: &str, change: impl FnMut(&mut Promise)) {
        let mut all = self.0.lock();
        let of_it = all
            .iter_mut()
            .filter(|(filter, promise)| promise.terms.answered && filter_matches(filter, topic));
        of_it.map(|(_, promise)| promise).for_each(change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_holds_for_the_topics_of_its_rule_until_it_is_broken() {
        let promises = Promises::default();
        promises.set("default/#", Some(Terms::OURS));
        promises.set("other/up", Some(Terms::default()));
        assert_eq!(
            (promises.of("default/up"), promises.of("other/up")),
            (Terms::OURS, Terms::default())
        );
        assert!(!promises.record_missed("default/up") && !promises.record_missed("default/up"));
        promises.record_answered("default/x");
        assert!(!promises.record_missed("default/up") && !promises.record_missed("default/up"));
        assert!(promises.record_missed("default/up"));
        assert_eq!(
            promises.of("default/up"),
            Terms {
                answered: false,
                base64: true
            }
        );
        promises.set("default/#", Some(Terms::OURS));
        assert!(
            promises.of("default/up").answered,
            "said again, it holds again"
        );
        promises.set("default/#", None);
        assert_eq!(promises.of("default/up"), Terms::default());
    }
}
