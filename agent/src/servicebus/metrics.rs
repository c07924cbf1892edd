//! The counters for `/metrics`.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use componentbase::{Metric, Queue};
use http::StatusCode;
use parking_lot::Mutex;

use super::shares::{self, ConcurrencyLimits};

/// The counters.
#[derive(Debug, Default)]
pub(super) struct ServiceBusMetrics {
    /// The calls of the cloud that a local server answered, and those that failed, by the status in the answer.
    answered: AtomicU64,
    refused: Mutex<BTreeMap<u16, u64>>,
    /// The answers that were not sent because the cloud was not connected any more.
    unsent: AtomicU64,
    /// The requests of local programs, by the status of the response.
    local: Mutex<BTreeMap<u16, u64>>,
    shares: Mutex<Option<ConcurrencyLimits>>,
}

impl ServiceBusMetrics {
    /// Adds the number of running calls.
    pub(super) fn set_shares(self: &Arc<Self>, shares: ConcurrencyLimits) {
        *self.shares.lock() = Some(shares);
    }

    pub(super) fn count_answer(&self) {
        self.answered.fetch_add(1, Relaxed);
    }

    pub(super) fn count_refused(&self, status: StatusCode) {
        *self.refused.lock().entry(status.as_u16()).or_default() += 1;
    }

    pub(super) fn unsent(&self) {
        self.unsent.fetch_add(1, Relaxed);
    }

    pub(super) fn local(&self, status: StatusCode) {
        *self.local.lock().entry(status.as_u16()).or_default() += 1;
    }

    pub(super) fn queues(&self) -> Vec<Queue> {
        let shares = self.shares.lock();
        let queue = |shares: &ConcurrencyLimits| Queue {
            name: "servicebus/calls",
            waiting: shares.under_way(),
            bound: shares::MAX_CALLS,
        };
        shares.iter().map(queue).collect()
    }

    pub(super) fn metrics(&self) -> Vec<Metric> {
        let by_code = |metric: Metric, counts: &BTreeMap<u16, u64>| {
            counts.iter().fold(metric, |metric, (code, count)| {
                metric.with(&[("code", code.to_string().as_str())], *count)
            })
        };
        let answered = Metric::counter(
            "servicebus_calls_answered_total",
            "Calls of the cloud that a server on the node answered.",
        );
        let refused = Metric::counter(
            "servicebus_calls_refused_total",
            "Calls of the cloud that no server on the node answered, by the status that the caller received.",
        );
        let unsent = Metric::counter(
            "servicebus_answers_unsent_total",
            "Responses that were not sent because the cloud had disconnected.",
        );
        let local = Metric::counter(
            "servicebus_local_requests_total",
            "Requests of programs on the node to the cloud, by the status that they received.",
        );
        // a status without calls has no sample
        let coded = [
            by_code(refused, &self.refused.lock()),
            by_code(local, &self.local.lock()),
        ];
        let always = [
            answered.of(self.answered.load(Relaxed)),
            unsent.of(self.unsent.load(Relaxed)),
        ];
        always
            .into_iter()
            .chain(
                coded
                    .into_iter()
                    .filter(|metric| !metric.samples.is_empty()),
            )
            .collect()
    }
}
