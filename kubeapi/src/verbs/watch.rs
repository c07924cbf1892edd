//! `watch`: streams the changes of a collection as lines of JSON, read from the store's log at the client's pace.

use std::{collections::VecDeque, time::Duration};

use bytes::{BufMut, Bytes, BytesMut};
use http::Response;
use serde_json::{Value, json};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep_until};
use tokio_util::sync::CancellationToken;

use super::{
    get::{metadata_alone, metadata_of},
    list::{all, scope, selection},
};
use crate::{
    Api, Body, BoxError,
    describe::metrics::WatcherGuard,
    object::{as_map, conversion::all_served, metadata},
    registry::Kind,
    request::{accept::Shape, body, call::Call},
    selector::Selection,
    status::StatusError,
    table::{self, IncludeObject},
};
use objectstore::{Event, EventKind, Object, StoreError, Watch};

/// How often a watch without changes sends a bookmark.
const BOOKMARK_EVERY: Duration = Duration::from_secs(30);

/// The shortest time after which the server ends a watch without `timeoutSeconds`: the API server's `--min-request-timeout`.
const MIN_TIMEOUT: Duration = Duration::from_secs(1800);

/// Answers with the changes of the request's collection, until the client leaves, its `timeoutSeconds` are over, or it was too slow.
pub(crate) async fn watch(api: &Api, call: &Call) -> Result<Response<Body>, StatusError> {
    let selection = selection(call)?;
    let include = IncludeObject::parse(call.query.get("includeObject"))?;
    let bookmarks = call.query.flag("allowWatchBookmarks");
    // which parameters go together was checked before
    let wants_list = call.query.flag("sendInitialEvents");
    let wants_changes_only = call.query.has("sendInitialEvents") && !wants_list;
    let asked = call.query.resource_version()?.unwrap_or_default();
    let current = api.store().revision();
    if wants_list && asked > current {
        return Err(StatusError::too_large_revision(asked, current));
    }
    let (initial, from) = match asked {
        0 if wants_changes_only => (Vec::new(), current),
        0 => all(api, call, &selection).await?,
        _ if wants_list => all(api, call, &selection).await?,
        _ => (Vec::new(), asked),
    };
    let mut lines = EventEncoder {
        api: api.clone(),
        kind: std::sync::Arc::clone(&call.target.kind),
        shape: call.shape,
        include,
        selection,
        headed: false,
    };
    let mut ready: VecDeque<Bytes> = initial
        .iter()
        .map(|object| lines.line("ADDED", object))
        .collect::<Result<_, _>>()?;
    if wants_list && bookmarks {
        ready.push_back(lines.bookmark(from, true));
    }
    let is_future = !wants_list && asked > current;
    if is_future {
        // 410, on which every client lists anew: the revision is of another store, as after a start with an empty one
        let why = format!("Too large resource version: {asked}, current: {current}");
        ready.push_back(error_line(&StatusError::expired(why)));
    }
    let changes = match api.store().watch(scope(&call.target), from) {
        _ if is_future => None,
        Ok(changes) => Some(changes),
        // as the real server, which finds out only when the answer has begun
        Err(error @ StoreError::Expired { .. }) => {
            ready.push_back(error_line(&error.into()));
            None
        }
        Err(error) => return Err(error.into()),
    };
    let timeout = timeout(call.query.number("timeoutSeconds")?);
    let mut ticks = interval_at(Instant::now() + BOOKMARK_EVERY, BOOKMARK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let feed = WatchResponse {
        ready,
        changes,
        lines,
        bookmarks: bookmarks.then_some(ticks),
        until: Instant::now() + timeout,
        retired: call
            .target
            .kind
            .defined
            .as_ref()
            .map(|defined| defined.retired.clone())
            .unwrap_or_default(),
        _counted: api.metrics().watcher(&call.target),
    };
    Ok(body::stream(futures::stream::unfold(
        feed,
        |mut feed| async move {
            let line = feed.next().await?;
            Some((Ok::<_, BoxError>(line), feed))
        },
    )))
}

/// Returns the watch's timeout, which kube-apiserver counts in nanoseconds of 64 bits: 0 means the server's own, and a negative number
/// (also one that is negative because it is too large) ends the watch at once.
fn timeout(asked: Option<i64>) -> Duration {
    let nanoseconds = asked.unwrap_or_default().wrapping_mul(1_000_000_000);
    match u64::try_from(nanoseconds) {
        Ok(0) => MIN_TIMEOUT.mul_f64(1.0 + clock::rng().random::<f64>()),
        // more than a clock may be able to count is as good as a year
        Ok(nanoseconds) => {
            Duration::from_nanos(nanoseconds).min(Duration::from_secs(365 * 24 * 3600))
        }
        Err(_) => Duration::ZERO,
    }
}

/// The state of a response in progress.
struct WatchResponse {
    ready: VecDeque<Bytes>,
    /// `None` after the line that ends the answer.
    changes: Option<Watch>,
    lines: EventEncoder,
    bookmarks: Option<Interval>,
    until: Instant,
    /// Cancelled when the kind is no longer served as it was.
    retired: CancellationToken,
    _counted: WatcherGuard,
}

impl WatchResponse {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Some(line);
            }
            let changes = self.changes.as_mut()?;
            let ticks = &mut self.bookmarks;
            let tick = async {
                match ticks {
                    Some(ticks) => ticks.tick().await,
                    None => std::future::pending().await,
                }
            };
            clock::select! {
                biased;
                // first, so that a stream of changes that never pauses ends too
                () = sleep_until(self.until) => return None,
                // cancel-safe: a change not taken comes again
                change = changes.next() => {
                    let line = match change {
                        Ok(event) => self.lines.event(event).await,
                        Err(error) => Err(error.into()),
                    };
                    match line {
                        Ok(line) => self.ready.extend(line),
                        Err(error) => {
                            self.ready.push_back(error_line(&error));
                            self.changes = None;
                        }
                    }
                }
                // after the changes: the last ones are the deletions that a deleted definition brings
                () = self.retired.cancelled() => return None,
                _ = tick => return Some(self.lines.bookmark(changes.position(), false)),
            }
        }
    }
}

/// Encodes events in the representation that the client requested.
struct EventEncoder {
    api: Api,
    kind: std::sync::Arc<Kind>,
    shape: Shape,
    include: IncludeObject,
    selection: Selection,
    /// Whether the column definitions of the table were sent.
    headed: bool,
}

impl EventEncoder {
    /// Encodes a change; `None` where neither of its states is selected.
    async fn event(&mut self, event: Event) -> Result<Option<Bytes>, StatusError> {
        let Event {
            kind,
            object,
            previous,
        } = event;
        let (object, previous) = match kind == EventKind::Deleted && previous.is_none() {
            true => (place_deleted(&self.kind, object)?, None),
            false => {
                // without a selector only the present state matters
                let previous = previous.filter(|_| !self.selection.is_everything());
                let states = std::iter::once(object).chain(previous).collect();
                let mut states = all_served(&self.api, &self.kind, states).await?.into_iter();
                let object = states
                    .next()
                    .ok_or_else(|| StatusError::internal("the conversion returned no object"))?;
                (object, states.next())
            }
        };
        if self.selection.is_everything() {
            let type_ = match kind {
                EventKind::Added => "ADDED",
                EventKind::Modified => "MODIFIED",
                EventKind::Deleted => "DELETED",
            };
            return self.line(type_, &object).map(Some);
        }
        let before = previous.as_ref().map(Object::value).transpose()?;
        let was_selected = before
            .as_ref()
            .is_some_and(|before| self.selection.matches(before));
        let is_selected = kind != EventKind::Deleted && self.selection.matches(&object.value()?);
        if before.is_none() && kind != EventKind::Added {
            // it was damaged, so that nobody knows whether the watcher has it
            return self
                .line(if is_selected { "MODIFIED" } else { "DELETED" }, &object)
                .map(Some);
        }
        match (was_selected, is_selected) {
            (false, false) => Ok(None),
            (false, true) => self.line("ADDED", &object).map(Some),
            (true, true) => self.line("MODIFIED", &object).map(Some),
            // what the watcher knew, at the revision at which it left
            (true, false) => {
                let mut last = before.unwrap_or_default();
                metadata(&mut last)
                    .insert("resourceVersion".into(), object.revision.to_string().into());
                Ok(Some(encode_event(
                    "DELETED",
                    self.shape(last).to_string().as_bytes(),
                )))
            }
        }
    }

    fn line(&mut self, type_: &str, object: &Object) -> Result<Bytes, StatusError> {
        match self.shape {
            Shape::Objects => return Ok(encode_event(type_, &object.json)),
            Shape::Metadata => return Ok(encode_event(type_, metadata_alone(object)?.as_bytes())),
            Shape::Table => {}
        }
        let value = object.value()?;
        Ok(encode_event(
            type_,
            self.shape(value).to_string().as_bytes(),
        ))
    }

    fn shape(&mut self, object: Value) -> Value {
        match self.shape {
            Shape::Objects => object,
            Shape::Metadata => metadata_of(&object),
            Shape::Table => {
                let version = object
                    .pointer("/metadata/resourceVersion")
                    .cloned()
                    .unwrap_or_default();
                let headed = std::mem::replace(&mut self.headed, true);
                let list_metadata = json!({"resourceVersion": version});
                table::table(
                    &self.kind,
                    &[object],
                    list_metadata,
                    self.include,
                    !headed,
                    clock::now(),
                )
            }
        }
    }

    /// Encodes a bookmark. `ends_list`: all initial events were sent.
    fn bookmark(&mut self, revision: u64, ends_list: bool) -> Bytes {
        let mut metadata =
            json!({"resourceVersion": revision.to_string(), "creationTimestamp": null});
        if ends_list {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = match self.shape {
            Shape::Objects => {
                json!({"kind": self.kind.kind, "apiVersion": self.kind.api_version(), "metadata": metadata})
            }
            Shape::Metadata => metadata_of(&json!({"metadata": metadata})),
            Shape::Table => {
                table::table(&self.kind, &[], metadata, self.include, false, clock::now())
            }
        };
        encode_event("BOOKMARK", object.to_string().as_bytes())
    }
}

/// Encodes the deletion of an object that could not be read, with its name only.
fn place_deleted(kind: &Kind, object: Object) -> Result<Object, StatusError> {
    let mut value = object.value()?;
    let map = as_map(&mut value);
    map.shift_insert(0, "kind".into(), kind.kind.as_str().into());
    map.shift_insert(1, "apiVersion".into(), kind.api_version().into());
    Ok(object.with_json(Bytes::from(value.to_string())))
}

fn error_line(error: &StatusError) -> Bytes {
    encode_event("ERROR", error.body().to_string().as_bytes())
}

fn encode_event(type_: &str, object: &[u8]) -> Bytes {
    let mut line = BytesMut::with_capacity(object.len() + type_.len() + 24);
    line.put_slice(b"{\"type\":\"");
    line.put_slice(type_.as_bytes());
    line.put_slice(b"\",\"object\":");
    line.put_slice(object);
    line.put_slice(b"}\n");
    line.freeze()
}
