//! The task that owns the broker's state, and the rounds in which it works.

use std::{
    sync::Arc,
    time::{Duration, Instant, UNIX_EPOCH},
};

use limits::STALL_TOLERANCE;
use tokio::{
    sync::{Notify, mpsc},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::{
    config::Config,
    confirmation::Confirmations,
    core::{Command, Core},
    counters::Counters,
    error::Error,
    handle::Handle,
    listen::{ConnectionContext, Listening},
    store::sqlite::SqliteStore,
};

/// The capacity of the command channel: enough to keep the broker busy while others are woken. Senders wait when it is full.
const COMMANDS: usize = 1024;

/// The most commands of one round, and so of one commit.
const TURN: usize = 256;

/// How long connections may take to write their last bytes when the broker stops.
const LAST_BYTES: Duration = Duration::from_secs(2);

/// A broker that is bound but not running yet.
#[derive(Debug)]
pub struct Task {
    core: Core,
    store: Option<SqliteStore>,
    commands: mpsc::Receiver<Command>,
    room: Arc<Notify>,
    listening: Vec<Listening>,
    context: ConnectionContext,
    clock: Clock,
}

/// A clock of milliseconds since 1970 that never goes back or jumps while the broker runs, because a node's clock may be set after its
/// start, and because a machine may stand still: what clients sent meanwhile must be heard before they are given up.
#[derive(Debug, Clone, Copy)]
struct Clock {
    at_start: u64,
    start: Instant,
    /// The time in which the broker stood still, milliseconds.
    stalled: u64,
}

impl Clock {
    fn start() -> Self {
        let since = clock::system_now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            at_start: since.as_millis() as u64,
            start: Instant::now(),
            stalled: 0,
        }
    }

    fn now(self) -> u64 {
        self.at_start + (self.start.elapsed().as_millis() as u64).saturating_sub(self.stalled)
    }

    /// Returns the time after a wait that was to end at `due`. If it is later by more than a busy machine needs, the broker stood still,
    /// and the clock did as well.
    fn after(&mut self, due: Option<u64>) -> u64 {
        let now = self.now();
        match due {
            Some(due) if now > due + STALL_TOLERANCE.as_millis() as u64 => {
                self.stalled += now - due;
                due
            }
            _ => now,
        }
    }
}

/// Opens the database, loads it, and binds the listeners; [`Task::run`] does the rest.
pub async fn bind(config: Config) -> Result<(Handle, Task), Error> {
    let counters = Arc::new(Counters::default());
    let clock = Clock::start();
    let limits = config.limits;
    let room = Arc::new(Notify::new());
    let confirmations = Confirmations::new(Arc::clone(&room));
    let is_durable = config.database.is_some();
    let mut core = Core::new(
        limits.clone(),
        config.access,
        Arc::clone(&counters),
        confirmations,
        is_durable,
    );
    let store = match &config.database {
        None => None,
        Some(path) => {
            let (store, saved) = SqliteStore::open_or_begin_anew(path).await?;
            core.restore(saved, clock.now());
            Some(store)
        }
    };
    let mut listening = Vec::new();
    for listener in &config.listeners {
        listening.push(Listening::bind(listener).await?);
    }
    let addresses = listening
        .iter()
        .map(|listening| listening.address)
        .collect();
    let (sender, commands) = mpsc::channel(COMMANDS);
    let handle = Handle {
        commands: sender.clone(),
        counters: Arc::clone(&counters),
        room: Arc::clone(&room),
        addresses,
    };
    let context = ConnectionContext::new(limits, counters, sender);
    Ok((
        handle,
        Task {
            core,
            store,
            commands,
            room,
            listening,
            context,
            clock,
        },
    ))
}

impl Task {
    /// Serves until `shutdown` is cancelled. Then every client is notified, and the remaining changes are written. It returns early only if
    /// the database or a listener fails.
    pub async fn run(mut self, shutdown: CancellationToken) -> Result<(), Error> {
        let stop = shutdown.child_token();
        let mut listeners = JoinSet::new();
        for listening in std::mem::take(&mut self.listening) {
            listeners.spawn(
                listening
                    .accept(self.context.clone(), stop.clone())
                    .in_current_span(),
            );
        }
        // What could not be committed must not be sent either: connections are dropped with all their waiting bytes.
        clock::select! {
            // cancel-safe: what was not committed was not acknowledged.
            served = self.serve(&stop) => served?,
            error = accept_failed(&mut listeners) => return Err(error),
        }
        stop.cancel();
        // No more commands are accepted, and senders must not wait.
        self.commands.close();
        self.core.flush();
        let ended = timeout(LAST_BYTES, async {
            while listeners.join_next().await.is_some() {}
        })
        .await;
        if ended.is_err() {
            tracing::debug!("connections closed before their last bytes were sent");
        }
        Ok(())
    }

    async fn serve(&mut self, stop: &CancellationToken) -> Result<(), Error> {
        let mut turn = Vec::with_capacity(TURN);
        loop {
            let due = self.core.wake();
            let wake = due.map(|when| Duration::from_millis(when.saturating_sub(self.clock.now())));
            // cancel-safe: messages stay in the channel, the token stays cancelled, a notification is kept.
            clock::select! {
                biased;
                () = stop.cancelled() => break,
                // Comes before commands: under a flood of them, publishers that wait for a receiver would never continue.
                () = self.room.notified() => self.core.local_room(),
                count = self.commands.recv_many(&mut turn, TURN) => if count == 0 { break },
                () = sleep(wake.unwrap_or_default()), if wake.is_some() => {}
            }
            self.core.begin(self.clock.after(due));
            for command in turn.drain(..) {
                self.core.handle(command);
                if self.core.is_heavy() {
                    self.core.finish();
                    end_turn(&mut self.core, &mut self.store).await?;
                }
            }
            self.core.finish();
            end_turn(&mut self.core, &mut self.store).await?;
        }
        self.core.begin(self.clock.now());
        self.core.shut_down();
        let last = self.core.last_changes();
        if let Some(store) = &mut self.store {
            store.commit(&last).await?;
        }
        Ok(())
    }
}

/// Waits until a listener fails; otherwise clients would be refused unnoticed.
async fn accept_failed(listeners: &mut JoinSet<()>) -> Error {
    while let Some(ended) = listeners.join_next().await {
        if let Err(error) = ended {
            return Error::Accept(error);
        }
    }
    // The listeners end with the broker, or there are none.
    std::future::pending().await
}

/// Ends a round: first commits to disk, then writes to the sockets.
async fn end_turn(core: &mut Core, store: &mut Option<SqliteStore>) -> Result<(), Error> {
    if let (Some(changes), Some(store)) = (core.changes(), store) {
        store.commit(&changes).await?;
    }
    core.flush();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_stands_still_with_the_machine_and_follows_a_busy_one() {
        let mut clock = Clock::start();
        let past = |millis| clock.start - Duration::from_millis(millis);
        let (busy, stalled) = (past(1_500), past(160_000));
        let begun = clock.at_start;
        clock.start = busy;
        assert!(
            clock.after(Some(begun)) >= begun + 1_500,
            "a timer may be a little late"
        );
        clock.start = stalled;
        assert_eq!(clock.after(Some(begun + 30_000)), begun + 30_000);
        assert!(
            (begun + 30_000..begun + 31_000).contains(&clock.now()),
            "and it goes on from there"
        );
        assert!(clock.after(None) < begun + 31_000);
    }

    #[tokio::test]
    async fn a_listener_that_panics_is_an_error_and_one_that_ends_is_none() {
        let mut listeners = JoinSet::new();
        listeners.spawn(async {});
        listeners.spawn(async { panic!("on purpose") });
        let error = accept_failed(&mut listeners).await;
        assert!(
            matches!(&error, Error::Accept(source) if source.to_string().contains("on purpose")),
            "{error:?}"
        );
        assert!(
            timeout(Duration::ZERO, accept_failed(&mut listeners))
                .await
                .is_err()
        );
    }
}
