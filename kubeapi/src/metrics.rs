//! What the API counts about itself, in the text format of Prometheus and under the real server's names.
//!
//! By hand, as prometheus-client writes OpenMetrics, in which a counter's family is named without `_total`.

use std::{
    collections::BTreeMap,
    fmt::Write,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use http::StatusCode;
use parking_lot::Mutex;

use crate::{path::Target, registry::Registry, store::Resource};

/// One series of requests.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Series {
    resource: Resource,
    part: &'static str,
    verb: &'static str,
    code: u16,
}

/// The counters. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    requests: Mutex<BTreeMap<Series, u64>>,
    watchers: AtomicI64,
}

impl Metrics {
    /// Counts an answer. What names no object of a kind is not counted: there would be as many series as typing errors.
    pub(crate) fn count(&self, target: &Target, verb: &'static str, code: StatusCode) {
        let series = Series {
            resource: target.kind.resource().clone(),
            part: target.part_name(),
            verb,
            code: code.as_u16(),
        };
        *self.0.requests.lock().entry(series).or_default() += 1;
    }

    /// Counts a watcher until the guard is dropped.
    pub(crate) fn watcher(&self) -> Watching {
        self.0.watchers.fetch_add(1, Ordering::Relaxed);
        Watching(self.clone())
    }

    /// All of it as text; `stored`: how many objects there are of each resource.
    pub(crate) fn text(&self, registry: &Registry, stored: &[(Resource, usize)]) -> String {
        let mut text = String::from(
            "# HELP apiserver_request_total Requests answered.\n# TYPE apiserver_request_total counter\n",
        );
        for (Series { resource, part, verb, code }, count) in self.0.requests.lock().iter() {
            let (plural, group) = resource.as_str().split_once('.').unwrap_or((resource.as_str(), ""));
            let kind = registry.kinds().iter().find(|kind| kind.resource() == resource);
            let version = kind.map_or("", |kind| kind.version.as_str());
            let verb = verb.to_uppercase();
            let _ = writeln!(
                text,
                "apiserver_request_total{{code=\"{code}\",group=\"{group}\",resource=\"{plural}\",\
                 subresource=\"{part}\",verb=\"{verb}\",version=\"{version}\"}} {count}"
            );
        }
        text += "# HELP apiserver_longrunning_requests Watches under way.\n# TYPE apiserver_longrunning_requests gauge\n";
        let watchers = self.0.watchers.load(Ordering::Relaxed);
        let _ = writeln!(text, "apiserver_longrunning_requests{{verb=\"WATCH\"}} {watchers}");
        text += "# HELP apiserver_storage_objects Objects stored.\n# TYPE apiserver_storage_objects gauge\n";
        for (resource, count) in stored {
            let _ = writeln!(text, "apiserver_storage_objects{{resource=\"{resource}\"}} {count}");
        }
        text
    }
}

/// A watcher that is counted.
#[derive(Debug)]
pub(crate) struct Watching(Metrics);

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.0.watchers.fetch_sub(1, Ordering::Relaxed);
    }
}
