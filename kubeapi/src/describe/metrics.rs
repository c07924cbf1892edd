//! The metrics of the API, with the API server's names.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use clock::Instant;
use http::StatusCode;
use parking_lot::Mutex;

use crate::{
    describe::exposition::{Histogram, Label, Text, number},
    registry::Registry,
    request::path::Target,
};
use objectstore::{Resource, Store};

/// The bucket bounds of request durations in seconds: the API server's, and finer ones below, since nothing here crosses a network.
const LATENCY_BUCKETS: &[f64] = &[
    0.0005, 0.001, 0.0025, 0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0,
    4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
];

/// Writes further metric families after those of the API.
pub type MetricsSource = Arc<dyn Fn(&mut Text) + Send + Sync>;

/// The labels of a series. They are limited to served kinds, subresources and verbs, so the number of series is bounded.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Series {
    resource: Resource,
    part: &'static str,
    verb: &'static str,
    scope: &'static str,
}

impl Series {
    fn of(target: &Target, verb: &'static str) -> Self {
        let scope = match (target.name.is_empty(), target.namespace.is_empty()) {
            (true, _) if verb == "create" => "resource",
            (false, _) => "resource",
            (true, false) => "namespace",
            (true, true) => "cluster",
        };
        Self {
            resource: target.kind.resource().clone(),
            part: target.part_name(),
            verb: metric_verb(verb),
            scope,
        }
    }
}

/// The verb as in the API server's metrics: the HTTP method, or `LIST`, `WATCH` and the like.
fn metric_verb(verb: &'static str) -> &'static str {
    match verb {
        "create" => "POST",
        "update" => "PUT",
        "patch" => "PATCH",
        "delete" => "DELETE",
        "deletecollection" => "DELETECOLLECTION",
        "list" => "LIST",
        "watch" => "WATCH",
        _ => "GET",
    }
}

/// The results of the requests of one series.
#[derive(Debug)]
struct RequestStats {
    /// The number of responses by status code; there are few codes.
    codes: Vec<(u16, u64)>,
    took: Histogram,
}

/// The counters. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Metrics(Arc<Counters>);

#[derive(Default)]
struct Counters {
    requests: Mutex<BTreeMap<Series, RequestStats>>,
    /// Requests in progress that read, and that write.
    in_flight: [AtomicI64; 2],
    watchers: Mutex<BTreeMap<Series, i64>>,
    source: Option<MetricsSource>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    /// Makes the counters, with a source of further metrics.
    pub(crate) fn new(source: Option<MetricsSource>) -> Self {
        Self(Arc::new(Counters {
            source,
            ..Counters::default()
        }))
    }

    /// Counts a request from now on. A path that names no served kind is not counted: there would be as many series as typing errors.
    pub(crate) fn begin(&self, target: &Target, verb: &'static str) -> Request {
        let series = Series::of(target, verb);
        let is_reading = matches!(series.verb, "GET" | "LIST" | "WATCH");
        // a watch is counted as long as it goes on, elsewhere
        let slot = (series.verb != "WATCH").then_some(usize::from(!is_reading));
        if let Some(slot) = slot {
            self.0.in_flight[slot].fetch_add(1, Ordering::Relaxed);
        }
        Request {
            metrics: self.clone(),
            series,
            slot,
            begun: Instant::now(),
        }
    }

    /// Counts a watcher until the guard is dropped.
    pub(crate) fn watcher(&self, target: &Target) -> WatcherGuard {
        let series = Series::of(target, "watch");
        *self.0.watchers.lock().entry(series.clone()).or_default() += 1;
        WatcherGuard {
            metrics: self.clone(),
            series,
        }
    }

    /// Returns all metrics as text; `stored` is the number of objects by resource in `store`.
    pub(crate) fn text(
        &self,
        registry: &Registry,
        store: &dyn Store,
        stored: &[(Resource, usize)],
    ) -> String {
        let mut text = Text::default();
        self.requests(registry, &mut text);
        let mut in_flight = text.gauge(
            "apiserver_current_inflight_requests",
            "Running requests that read (readOnly) and write (mutating), without watches.",
        );
        for (kind, count) in ["readOnly", "mutating"].into_iter().zip(&self.0.in_flight) {
            in_flight.sample(
                &[("request_kind", kind)],
                to_signed(count.load(Ordering::Relaxed)),
            );
        }
        let mut watches = text.gauge("apiserver_longrunning_requests", "Running watches.");
        for (series, count) in self.0.watchers.lock().iter() {
            visit_labels(registry, series, |labels| {
                watches.sample(labels, to_signed(*count))
            });
        }
        let mut objects = text.gauge("apiserver_storage_objects", "Stored objects.");
        for (resource, count) in stored {
            objects.sample(&[("resource", resource.as_str())], number(*count as u64));
        }
        let mut full = text.gauge(
            "store_disk_full",
            "1 while the disk is full and the store accepts only deletions.",
        );
        full.sample(&[], number(store.is_full().into()));
        let mut damaged = text.gauge(
            "store_damaged_objects",
            "Stored objects that cannot be read.",
        );
        damaged.sample(&[], number(store.damaged_objects().now().len() as u64));
        if let Some(source) = &self.0.source {
            source(&mut text);
        }
        text.into_string()
    }

    fn requests(&self, registry: &Registry, text: &mut Text) {
        let mut requests = self.0.requests.lock();
        // kinds come and go: what is not served any more is forgotten
        requests.retain(|series, _| {
            registry
                .kinds()
                .iter()
                .any(|kind| *kind.resource() == series.resource)
        });
        let mut total = text.counter("apiserver_request_total", "Answered requests.");
        for (series, tally) in requests.iter() {
            visit_labels(registry, series, |labels| {
                for (code, count) in &tally.codes {
                    total.sample(
                        &[&[("code", code.to_string().as_str())], labels].concat(),
                        number(*count),
                    );
                }
            });
        }
        let mut took = text.histogram(
            "apiserver_request_duration_seconds",
            "Time from the head of a request to the head of its response, without watches.",
        );
        for (series, tally) in requests.iter().filter(|(series, _)| series.verb != "WATCH") {
            visit_labels(registry, series, |labels| took.buckets(labels, &tally.took));
        }
    }
}

/// Passes the labels of a series to `write`; series of kinds no longer served are skipped.
fn visit_labels(registry: &Registry, series: &Series, mut write: impl FnMut(&[Label<'_>])) {
    let Series {
        resource,
        part,
        verb,
        scope,
    } = series;
    let Some(kind) = registry
        .kinds()
        .iter()
        .find(|kind| kind.resource() == resource)
    else {
        return;
    };
    let (plural, group) = resource
        .as_str()
        .split_once('.')
        .unwrap_or((resource.as_str(), ""));
    write(&[
        ("component", "apiserver"),
        ("group", group),
        ("resource", plural),
        ("scope", scope),
        ("subresource", part),
        ("verb", verb),
        ("version", &kind.version),
    ]);
}

#[allow(clippy::cast_precision_loss, reason = "samples are doubles")]
fn to_signed(count: i64) -> f64 {
    count as f64
}

/// A request in progress.
#[derive(Debug)]
pub(crate) struct Request {
    metrics: Metrics,
    series: Series,
    /// The index of its counter of requests in progress.
    slot: Option<usize>,
    begun: Instant,
}

impl Request {
    /// Records the status of the response.
    pub(crate) fn end(self, code: StatusCode) {
        let (took, code) = (self.begun.elapsed(), code.as_u16());
        let mut requests = self.metrics.0.requests.lock();
        let tally = requests
            .entry(self.series.clone())
            .or_insert_with(|| RequestStats {
                codes: Vec::new(),
                took: Histogram::new(LATENCY_BUCKETS),
            });
        tally.took.observe(took);
        match tally.codes.iter_mut().find(|(known, _)| *known == code) {
            Some((_, count)) => *count += 1,
            None => tally.codes.push((code, 1)),
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            self.metrics.0.in_flight[slot].fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Counts a watcher until it is dropped.
#[derive(Debug)]
pub(crate) struct WatcherGuard {
    metrics: Metrics,
    series: Series,
}

impl Drop for WatcherGuard {
    fn drop(&mut self) {
        if let Some(count) = self.metrics.0.watchers.lock().get_mut(&self.series) {
            *count -= 1;
        }
    }
}
