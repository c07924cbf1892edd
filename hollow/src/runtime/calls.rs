//! Counts the CRI calls and makes some of them fail before they reach the services.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    task::{Context, Poll},
};

use futures::future::{Either, Ready, ready};
use parking_lot::Mutex;
use tonic::{Status, body::Body};
use tower::{Layer, Service};

/// The most call names that are counted; CRI has fewer, so a client that invents names cannot fill the memory.
const MAX_NAMES: usize = 64;

/// The counts of calls, and the failures that are ordered. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Calls(Arc<Mutex<Ledger>>);

#[derive(Default)]
struct Ledger {
    counts: BTreeMap<String, u64>,
    faults: BTreeMap<String, VecDeque<Status>>,
}

impl Calls {
    pub(super) fn count(&self, rpc: &str) -> u64 {
        self.0.lock().counts.get(rpc).copied().unwrap_or(0)
    }

    pub(super) fn fail_next(&self, rpc: &str, status: Status) {
        self.0
            .lock()
            .faults
            .entry(rpc.into())
            .or_default()
            .push_back(status);
    }

    /// Counts a call, whose path is `/runtime.v1.<Service>/<Call>`, and returns the failure that was ordered for it.
    pub(super) fn count_call(&self, path: &str) -> Option<Status> {
        let rpc = path.rsplit('/').next().unwrap_or_default();
        let mut ledger = self.0.lock();
        if let Some(count) = ledger.counts.get_mut(rpc) {
            *count += 1;
        } else if ledger.counts.len() < MAX_NAMES {
            ledger.counts.insert(rpc.into(), 1);
        }
        ledger.faults.get_mut(rpc)?.pop_front()
    }
}

impl<S> Layer<S> for Calls {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted {
            calls: self.clone(),
            inner,
        }
    }
}

/// A service whose calls are counted by [`Calls`].
#[derive(Clone)]
pub(super) struct Counted<S> {
    calls: Calls,
    inner: S,
}

impl<S> Service<http::Request<Body>> for Counted<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Either<Ready<Result<S::Response, S::Error>>, S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        match self.calls.count_call(request.uri().path()) {
            Some(status) => Either::Left(ready(Ok(status.into_http()))),
            None => Either::Right(self.inner.call(request)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_come_in_order_and_only_to_their_call() {
        let calls = Calls::default();
        calls.fail_next("PullImage", Status::unknown("one"));
        calls.fail_next("PullImage", Status::unknown("two"));
        assert!(
            calls
                .count_call("/runtime.v1.ImageService/ListImages")
                .is_none()
        );
        let said: Vec<_> = (0..3)
            .map(|_| {
                calls
                    .count_call("/runtime.v1.ImageService/PullImage")
                    .map(|s| s.message().to_owned())
            })
            .collect();
        assert_eq!(said, [Some("one".to_owned()), Some("two".to_owned()), None]);
        assert_eq!(
            (
                calls.count("PullImage"),
                calls.count("ListImages"),
                calls.count("Version")
            ),
            (3, 1, 0)
        );
    }

    #[test]
    fn invented_calls_do_not_fill_the_memory() {
        let calls = Calls::default();
        for n in 0..1000 {
            assert!(calls.count_call(&format!("/x/{n}")).is_none());
        }
        assert_eq!(calls.0.lock().counts.len(), MAX_NAMES);
    }
}
