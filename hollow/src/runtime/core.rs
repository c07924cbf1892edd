//! The one owner of the state: every change is made, recorded and reported to the event readers under one lock.

use std::{sync::Arc, time::Duration};

use cloudsim::tasks::Tasks;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use wire::cri::ContainerEventResponse;

use super::{
    attached::Attached,
    calls::Calls,
    error::Error,
    events::Subscribers,
    files::ContainerFiles,
    options::Options,
    persist::{Store, begin_logs},
    state::{Nanos, Records, RuntimeState},
    streaming::endpoint::Endpoint,
};

pub(super) struct Core {
    pub(super) options: Options,
    pub(super) calls: Calls,
    /// The files that commands in containers have written.
    pub(super) files: ContainerFiles,
    /// The attached clients, and the programs that read what is typed.
    pub(super) attached: Attached,
    /// The streaming server's address and tokens.
    pub(super) streaming: Endpoint,
    shared: Mutex<Shared>,
    store: Option<Store>,
    /// Counts the changes, for those who wait for one.
    version: watch::Sender<u64>,
    /// Notified when the next deadline may have changed.
    deadline_changed: Arc<Notify>,
    /// Cancelled when the last handle is dropped.
    end: CancellationToken,
    _end: DropGuard,
    /// The tasks that run as long as the runtime.
    pub(super) tasks: Tasks,
}

struct Shared {
    state: RuntimeState,
    subscribers: Subscribers,
}

impl Core {
    /// Opens the recorded state, or an empty one; starts nothing yet.
    pub(super) fn open(mut options: Options) -> Result<Arc<Self>, Error> {
        let store = options.root.as_deref().map(Store::open).transpose()?;
        let mut state = match (&store, options.records.take()) {
            (Some(store), _) => store.load()?,
            (None, Some(saved)) => {
                let records = Records::deserialize(saved.records);
                let mut records = records.map_err(Error::Records)?;
                records.relocate(&saved.from, &saved.to);
                begin_logs(&records);
                RuntimeState::restore(records)
            }
            (None, None) => RuntimeState::default(),
        };
        state.set_pod_cidr(options.pod_cidr);
        let end = CancellationToken::new();
        Ok(Arc::new(Self {
            calls: Calls::default(),
            files: ContainerFiles::default(),
            attached: Attached::default(),
            streaming: Endpoint::default(),
            shared: Mutex::new(Shared {
                state,
                subscribers: Subscribers::new(options.event_buffer),
            }),
            options,
            store,
            version: watch::Sender::new(0),
            deadline_changed: Arc::default(),
            _end: end.clone().drop_guard(),
            end,
            tasks: Tasks::default(),
        }))
    }

    /// Returns a token that is cancelled when the runtime ends.
    pub(super) fn end(&self) -> CancellationToken {
        self.end.clone()
    }

    /// Returns what is notified when [`Self::time_to_deadline`] may have changed.
    pub(super) fn deadline_changed(&self) -> Arc<Notify> {
        Arc::clone(&self.deadline_changed)
    }

    pub(super) fn read<T>(&self, read: impl FnOnce(&RuntimeState) -> T) -> T {
        read(&self.shared.lock().state)
    }

    /// Reads the state like [`Self::read`], and passes the current time too.
    pub(super) fn with_state<T>(&self, read: impl FnOnce(&RuntimeState, Nanos) -> T) -> T {
        self.read(|state| read(state, now()))
    }

    /// Changes the state. The lock is held while the changed records (about a kilobyte each) are written: their order on disk is the
    /// order of the changes, and whatever was answered is recorded.
    pub(super) fn change<T>(&self, act: impl FnOnce(&mut RuntimeState, Nanos) -> T) -> T {
        let mut shared = self.shared.lock();
        let Shared { state, subscribers } = &mut *shared;
        let result = act(state, now());
        let changes = state.take_changes();
        if changes.is_empty() {
            return result;
        }
        if let Some(store) = &self.store {
            store.save(state, &changes);
        }
        subscribers.notify(changes.events);
        drop(shared);
        self.version
            .send_modify(|version| *version = version.wrapping_add(1));
        self.deadline_changed.notify_one();
        result
    }

    pub(super) fn subscribe(&self) -> mpsc::Receiver<Box<ContainerEventResponse>> {
        self.shared.lock().subscribers.add()
    }

    /// Returns a receiver that is notified of each change.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// Waits until the container does not run (any more). Cancel-safe: only waits.
    pub(super) async fn until_ended(&self, id: &str) {
        let mut version = self.changes();
        while self.read(|state| state.is_running(id)) {
            if version.changed().await.is_err() {
                return;
            }
        }
    }

    /// Returns the time until the next container ends by itself.
    pub(super) fn time_to_deadline(&self) -> Option<Duration> {
        let deadline = self.read(RuntimeState::next_deadline)?;
        Some(Duration::from_nanos(
            u64::try_from(deadline.saturating_sub(now())).unwrap_or(0),
        ))
    }
}

/// Returns the current time in Unix nanoseconds, as CRI uses it.
fn now() -> Nanos {
    Nanos::try_from(clock::now().as_nanosecond()).unwrap_or(Nanos::MAX)
}
