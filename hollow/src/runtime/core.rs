//! The one owner of the state: every change is made, recorded and told to the event readers under one lock.

use std::{sync::Arc, time::Duration};

use cloudsim::tasks::Tasks;
use parking_lot::Mutex;
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
    persist::Store,
    state::{Nanos, State},
    streaming::endpoint::Endpoint,
};

pub(super) struct Core {
    pub(super) options: Options,
    pub(super) calls: Calls,
    /// What commands in containers have written.
    pub(super) files: ContainerFiles,
    /// Who is attached, and the programs that read what is typed.
    pub(super) attached: Attached,
    /// Where streams are served.
    pub(super) streaming: Endpoint,
    shared: Mutex<Shared>,
    store: Option<Store>,
    /// Counts the changes, for those who wait for one.
    version: watch::Sender<u64>,
    /// Rung when the next deadline may have become another one.
    deadline_changed: Arc<Notify>,
    /// Cancelled with the last handle.
    end: CancellationToken,
    _end: DropGuard,
    /// What runs as long as the runtime.
    pub(super) tasks: Tasks,
}

struct Shared {
    state: State,
    subscribers: Subscribers,
}

impl Core {
    /// The state as it was recorded, or none; nothing runs yet.
    pub(super) fn open(options: Options) -> Result<Arc<Self>, Error> {
        let store = options.root.as_deref().map(Store::open).transpose()?;
        let mut state = match &store {
            Some(store) => store.load()?,
            None => State::default(),
        };
        state.set_pod_cidr(options.pod_cidr);
        let end = CancellationToken::new();
        Ok(Arc::new(Self {
            calls: Calls::default(),
            files: ContainerFiles::default(),
            attached: Attached::default(),
            streaming: Endpoint::default(),
            shared: Mutex::new(Shared { state, subscribers: Subscribers::new(options.event_buffer) }),
            options,
            store,
            version: watch::Sender::new(0),
            deadline_changed: Arc::default(),
            _end: end.clone().drop_guard(),
            end,
            tasks: Tasks::default(),
        }))
    }

    /// Cancelled when the runtime ends.
    pub(super) fn end(&self) -> CancellationToken {
        self.end.clone()
    }

    /// Rung when [`Self::time_to_deadline`] may have become another one.
    pub(super) fn deadline_changed(&self) -> Arc<Notify> {
        Arc::clone(&self.deadline_changed)
    }

    pub(super) fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.shared.lock().state)
    }

    /// As [`Self::read`], for what tells the time too.
    pub(super) fn with_state<T>(&self, read: impl FnOnce(&State, Nanos) -> T) -> T {
        self.read(|state| read(state, now()))
    }

    /// The lock is held while the changed records (about a kilobyte each) are written: their order on disk is the
    /// order of the changes, and what was answered is recorded.
    pub(super) fn change<T>(&self, act: impl FnOnce(&mut State, Nanos) -> T) -> T {
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
        self.version.send_modify(|version| *version = version.wrapping_add(1));
        self.deadline_changed.notify_one();
        result
    }

    pub(super) fn subscribe(&self) -> mpsc::Receiver<ContainerEventResponse> {
        self.shared.lock().subscribers.add()
    }

    /// Tells of each change.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// Returns when the container does not run (any more). Cancel-safe: only waits.
    pub(super) async fn until_ended(&self, id: &str) {
        let mut version = self.changes();
        while self.read(|state| state.is_running(id)) {
            if version.changed().await.is_err() {
                return;
            }
        }
    }

    /// How long until the next container ends by itself.
    pub(super) fn time_to_deadline(&self) -> Option<Duration> {
        let deadline = self.read(State::next_deadline)?;
        Some(Duration::from_nanos(u64::try_from(deadline.saturating_sub(now())).unwrap_or(0)))
    }
}

/// Unix nanoseconds, as CRI tells time.
fn now() -> Nanos {
    Nanos::try_from(jiff::Timestamp::now().as_nanosecond()).unwrap_or(Nanos::MAX)
}
