//! What the cloud promises for the messages of each rule. CloudCore promises nothing; one that promises answers and gives none is not
//! believed any more, as after a move to another.

use std::{collections::BTreeMap, sync::Arc};

use mqtt::filter_matches;
use parking_lot::Mutex;
use wire::bus::Terms;

/// So often in a row an answer may be missing.
const MISSED: u32 = 3;

/// The promises; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Promises(Arc<Mutex<BTreeMap<String, Promise>>>);

#[derive(Clone, Copy, Debug)]
struct Promise {
    terms: Terms,
    missed: u32,
}

impl Promises {
    /// The cloud's word for a filter; `None`: nobody listens to it any more.
    pub(super) fn set(&self, filter: &str, terms: Option<Terms>) {
        let mut all = self.0.lock();
        match terms {
            Some(terms) => drop(all.insert(filter.to_owned(), Promise { terms, missed: 0 })),
            None => drop(all.remove(filter)),
        }
    }

    /// What holds for a message: what any of the rules that listen to its topic has.
    pub(super) fn of(&self, topic: &str) -> Terms {
        let all = self.0.lock();
        // most rules name their topic, and nothing can be added to all that there is
        if let Some(promise) = all.get(topic).filter(|promise| promise.terms == Terms::OURS) {
            return promise.terms;
        }
        let of_it = all.iter().filter(|(filter, _)| filter_matches(filter, topic));
        of_it.fold(Terms::default(), |all, (_, Promise { terms, .. })| Terms {
            answered: all.answered || terms.answered,
            base64: all.base64 || terms.base64,
        })
    }

    /// A message of the topic was answered.
    pub(super) fn kept(&self, topic: &str) {
        self.each(topic, |promise| promise.missed = 0);
    }

    /// A message of the topic was not answered in time. Whether the cloud is not believed any more.
    pub(super) fn broken(&self, topic: &str) -> bool {
        let mut is_over = false;
        self.each(topic, |promise| {
            promise.missed += 1;
            if promise.missed >= MISSED {
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
        assert_eq!((promises.of("default/up"), promises.of("other/up")), (Terms::OURS, Terms::default()));
        assert!(!promises.broken("default/up") && !promises.broken("default/up"));
        promises.kept("default/x");
        assert!(!promises.broken("default/up") && !promises.broken("default/up"));
        assert!(promises.broken("default/up"));
        assert_eq!(promises.of("default/up"), Terms { answered: false, base64: true });
        promises.set("default/#", Some(Terms::OURS));
        assert!(promises.of("default/up").answered, "said again, it holds again");
        promises.set("default/#", None);
        assert_eq!(promises.of("default/up"), Terms::default());
    }
}
