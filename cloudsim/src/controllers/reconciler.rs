//! Reconciles objects: one at most once at a time, in the order in which they were triggered, and again after the wait for which a
//! reconciliation asks. kube's `applier` does the same in the order of a hash table; the runs of a simulation would differ.

use std::{collections::BTreeMap, future::Future, hash::Hash, pin::pin, sync::Arc, time::Duration};

use clock::{HashMap, HashSet, Instant};
use futures::{
    Stream, StreamExt,
    stream::{self, BoxStream, FuturesUnordered},
};
use kube::{
    Api, Resource,
    runtime::{
        WatchStreamExt, reflector,
        reflector::{ObjectRef, Store},
        watcher::{self, watcher},
    },
};
use serde::de::DeserializeOwned;
use tokio::time::{sleep, sleep_until};
use tokio_util::sync::CancellationToken;

/// What follows a reconciliation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Action {
    requeue_after: Option<Duration>,
}

impl Action {
    /// Reconciles the object again after this time, or earlier if it is triggered.
    pub(crate) const fn requeue(wait: Duration) -> Self {
        Self {
            requeue_after: Some(wait),
        }
    }

    /// Waits for the next trigger.
    pub(crate) const fn await_change() -> Self {
        Self {
            requeue_after: None,
        }
    }
}

/// A reconciliation that takes this long is followed by a pause of the same length.
const LONG_RECONCILIATION: Duration = Duration::from_millis(50);
/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Returns the pause after a reconciliation of an object that `took` this long: triggers that come meanwhile share the next one. Without
/// it, an object with thousands of pods would be reconciled without end while they start.
fn pause_after(took: Duration) -> Option<Duration> {
    (took >= LONG_RECONCILIATION).then(|| took.min(MAX_PAUSE))
}

/// Objects that wait for their reconciliation, in the order of their times.
struct Queue<T> {
    by_time: BTreeMap<(Instant, u64), T>,
    times: HashMap<T, (Instant, u64)>,
    added: u64,
}

impl<T: Clone + Eq + Hash> Queue<T> {
    fn new() -> Self {
        Self {
            by_time: BTreeMap::new(),
            times: HashMap::default(),
            added: 0,
        }
    }

    /// Adds an object; the earlier of two times counts.
    fn add(&mut self, object: T, time: Instant) {
        let known = self.times.get(&object).copied();
        match known {
            Some((earlier, _)) if earlier <= time => return,
            Some(later) => drop(self.by_time.remove(&later)),
            None => {}
        }
        self.added += 1;
        let place = (time, self.added);
        self.by_time.insert(place, object.clone());
        self.times.insert(object, place);
    }

    /// Takes the first object that is due and not at work.
    fn take_due(&mut self, now: Instant, at_work: &HashSet<T>) -> Option<T> {
        let due = self.by_time.range(..=(now, u64::MAX));
        let place = due
            .into_iter()
            .find(|(_, object)| !at_work.contains(*object))
            .map(|(place, _)| *place)?;
        let object = self.by_time.remove(&place)?;
        self.times.remove(&object);
        Some(object)
    }

    /// Returns the time of the first object that is not at work.
    fn next_time(&self, at_work: &HashSet<T>) -> Option<Instant> {
        let mut waiting = self.by_time.iter();
        let next = waiting.find(|(_, object)| !at_work.contains(*object));
        next.map(|((time, _), _)| *time)
    }
}

/// Reconciles the objects of `store` that `triggers` names. When that ends, waits for the reconciliations that have begun.
pub(crate) async fn reconcile_all<K, C, E, F>(
    triggers: impl Stream<Item = ObjectRef<K>>,
    store: Store<K>,
    reconcile: impl Fn(Arc<K>, Arc<C>) -> F,
    failed: impl Fn(Arc<K>, &E) -> Action,
    context: Arc<C>,
) where
    K: Resource<DynamicType = ()> + Clone + 'static,
    F: Future<Output = Result<Action, E>>,
{
    let mut triggers = pin!(triggers.fuse());
    let (mut queue, mut at_work) = (Queue::new(), HashSet::default());
    let (mut running, mut ended) = (FuturesUnordered::new(), false);
    // before the first list is complete the store has none of its objects
    let mut listed = pin!(store.wait_until_ready());
    let mut is_listed = false;
    loop {
        while is_listed
            && !ended
            && let Some(reference) = queue.take_due(Instant::now(), &at_work)
        {
            // one that was deleted needs no reconciliation
            if let Some(object) = store.get(&reference) {
                at_work.insert(reference.clone());
                let work = reconcile(object.clone(), context.clone());
                running.push(async move {
                    let begun = Instant::now();
                    let done = work.await;
                    if let Some(pause) = pause_after(begun.elapsed()) {
                        sleep(pause).await;
                    }
                    (reference, object, done)
                });
            }
        }
        if ended && running.is_empty() {
            return;
        }
        let next = queue.next_time(&at_work);
        let next = next.filter(|_| is_listed && !ended);
        clock::select! {
            // cancel-safe: it only reads; an error means that no list will come
            _ = &mut listed, if !is_listed => is_listed = true,
            // cancel-safe: a trigger that is not taken is taken by the next call
            reference = triggers.next(), if !ended => match reference {
                Some(reference) => queue.add(reference, Instant::now()),
                None => ended = true,
            },
            // cancel-safe: what has not ended goes on
            Some((reference, object, done)) = running.next() => {
                at_work.remove(&reference);
                let action = done.unwrap_or_else(|error| failed(object, &error));
                if let Some(wait) = action.requeue_after {
                    queue.add(reference, Instant::now() + wait);
                }
            }
            // cancel-safe: sleeping holds no data
            () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
        }
    }
}

/// A controller with a watch of its own, for the kinds that no informer shares.
pub(crate) struct Controller<K: Resource<DynamicType = ()> + 'static> {
    store: Store<K>,
    triggers: Vec<BoxStream<'static, ObjectRef<K>>>,
}

impl<K> Controller<K>
where
    K: Resource<DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    /// Creates a controller of the objects of `api`.
    pub(crate) fn new(api: Api<K>, config: watcher::Config) -> Self {
        let (store, writer) = reflector::store();
        let applied = reflector(writer, watcher(api, config))
            .default_backoff()
            .applied_objects()
            // the watcher tries again, and the API's client logs
            .filter_map(async |object| Some(ObjectRef::from_obj(&object.ok()?)));
        Self {
            store,
            triggers: vec![applied.boxed()],
        }
    }

    /// Returns the objects.
    pub(crate) fn store(&self) -> Store<K> {
        self.store.clone()
    }

    /// Adds the objects of `api`, for the objects that `concerned` returns.
    pub(crate) fn watches<Other, I>(
        mut self,
        api: Api<Other>,
        config: watcher::Config,
        concerned: impl Fn(Other) -> I + Send + Sync + 'static,
    ) -> Self
    where
        Other: Resource<DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned
            + Send
            + Sync
            + 'static,
        I: IntoIterator<Item = ObjectRef<K>>,
        I::IntoIter: Send,
    {
        let touched = watcher(api, config).default_backoff().touched_objects();
        let touched = touched.flat_map(move |object| {
            let named: Vec<_> = object.ok().into_iter().flat_map(&concerned).collect();
            stream::iter(named)
        });
        self.triggers.push(touched.boxed());
        self
    }

    /// Runs until `shutdown`.
    pub(crate) async fn run<C, E, F>(
        self,
        reconcile: impl Fn(Arc<K>, Arc<C>) -> F,
        failed: impl Fn(Arc<K>, &E) -> Action,
        context: Arc<C>,
        shutdown: CancellationToken,
    ) where
        F: Future<Output = Result<Action, E>>,
    {
        let triggers = stream::select_all(self.triggers);
        let running = reconcile_all(triggers, self.store, reconcile, failed, context);
        let _: Option<()> = shutdown.run_until_cancelled(Box::pin(running)).await;
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{ResourceExt, api::ObjectMeta, runtime::watcher::Event};
    use parking_lot::Mutex;
    use tokio::sync::mpsc;
    use tokio_stream::wrappers::ReceiverStream;

    use super::*;

    type Log = Mutex<Vec<(u64, &'static str, String)>>;

    #[test]
    fn long_reconciliations_take_half_of_the_time_and_pauses_have_an_end() {
        let pause = |took| pause_after(Duration::from_millis(took)).map(|pause| pause.as_millis());
        assert_eq!(
            [0, 49, 50, 400, 60_000].map(pause),
            [None, None, Some(50), Some(400), Some(1_000)]
        );
    }

    /// Takes a second for each object; `again` wants to be reconciled after ten, once, and `bad` fails the first time.
    async fn reconcile(map: Arc<ConfigMap>, context: Arc<(Instant, Log)>) -> Result<Action, ()> {
        let (begun, log) = &*context;
        let note = |what| {
            let mut log = log.lock();
            log.push((begun.elapsed().as_secs(), what, map.name_any()));
            log.len()
        };
        note("begins");
        sleep(Duration::from_secs(1)).await;
        let is_first = note("ends") <= 8;
        match map.name_any().as_str() {
            "again" if is_first => Ok(Action::requeue(Duration::from_secs(10))),
            "bad" if is_first => Err(()),
            _ => Ok(Action::await_change()),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn objects_are_reconciled_in_order_and_never_twice_at_a_time() {
        let (store, mut writer) = reflector::store::<ConfigMap>();
        writer.apply_watcher_event(&Event::Init);
        for name in ["z", "again", "bad"] {
            writer.apply_watcher_event(&Event::InitApply(ConfigMap {
                metadata: ObjectMeta {
                    name: Some(name.to_owned()),
                    ..ObjectMeta::default()
                },
                ..ConfigMap::default()
            }));
        }
        let (trigger, triggers) = mpsc::channel(16);
        let context = Arc::new((Instant::now(), Log::default()));
        let failed = |_, _: &()| Action::requeue(Duration::from_secs(5));
        let running = tokio::spawn(reconcile_all(
            ReceiverStream::new(triggers),
            store,
            reconcile,
            failed,
            context.clone(),
        ));
        for name in ["z", "absent", "again", "bad", "z", "z"] {
            trigger.send(ObjectRef::new(name)).await.unwrap();
        }
        sleep(Duration::from_millis(500)).await;
        assert!(context.1.lock().is_empty(), "nothing is listed yet");
        writer.apply_watcher_event(&Event::InitDone);
        sleep(Duration::from_millis(500)).await;
        // at work: again afterwards, once
        trigger.send(ObjectRef::new("z")).await.unwrap();
        trigger.send(ObjectRef::new("z")).await.unwrap();
        sleep(Duration::from_secs(20)).await;
        drop(trigger);
        running.await.unwrap();
        let log = context.1.lock();
        let begins: Vec<_> = log
            .iter()
            .filter(|(_, what, _)| *what == "begins")
            .map(|(time, _, name)| (*time, name.as_str()))
            .collect();
        assert_eq!(
            begins,
            [
                (0, "z"),
                (0, "again"),
                (0, "bad"),
                // after a second of work and a second of pause
                (2, "z"),
                (7, "bad"),
                (12, "again")
            ],
            "{log:?}"
        );
    }
}
