//! The single writer. Commits that arrive during a transaction share the next one, so that many small writes cost one sync of the disk
//! together; each still succeeds or fails by itself.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use sqlx::SqliteConnection;
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::{
    Seal,
    fault::ErrorContext,
    recent::RecentObjects,
    reserve::{RETRY_INTERVAL, Reserve, grows},
    result_code::{is_full, may_be_of_one},
    statements::{self, CurrentObjects},
    trim::IncrementalVacuum,
};
use crate::{
    Event, EventKind, Key, Object, StoreError, Write, damage::DamagedObjectsTracker, log::Log,
    plan::plan,
};

/// The most commits of one transaction: enough that the cost of the sync no longer matters, few enough that no commit waits long.
const MAX_COMMITS_PER_TRANSACTION: usize = 64;

/// A commit and the channel for its result.
pub(super) struct Job {
    pub(super) writes: Vec<Write>,
    pub(super) answer: oneshot::Sender<Result<Vec<Object>, StoreError>>,
}

/// Owns the writing connection.
pub(super) struct Writer {
    connection: SqliteConnection,
    seal: Option<Seal>,
    shared: Shared,
    fault: ErrorContext,
    trim: IncrementalVacuum,
    reserve: Reserve,
}

/// The state that readers share with the writer.
pub(super) struct Shared {
    pub(super) log: Arc<Log>,
    pub(super) recent: Arc<RecentObjects>,
    pub(super) damaged: Arc<DamagedObjectsTracker>,
    /// Whether the reserve is used up.
    pub(super) is_full: Arc<AtomicBool>,
}

/// The result of one commit of a group: its events, or why it was refused.
type CommitResult = Result<Vec<Event>, StoreError>;

impl Writer {
    /// Makes the writer that owns `connection`.
    pub(super) fn new(
        connection: SqliteConnection,
        seal: Option<Seal>,
        shared: Shared,
        reserve: Reserve,
        fault: ErrorContext,
    ) -> Self {
        Self {
            connection,
            seal,
            shared,
            fault,
            trim: IncrementalVacuum::default(),
            reserve,
        }
    }

    /// Runs until the store is dropped and the last commit is answered.
    pub(super) async fn run(mut self, mut inbox: mpsc::Receiver<Job>) {
        let mut group = Vec::with_capacity(MAX_COMMITS_PER_TRANSACTION);
        if self.reserve.is_released() {
            self.trim.now(&mut self.connection).await;
        }
        loop {
            // cancel-safe: jobs stay in the channel
            let received = inbox.recv_many(&mut group, MAX_COMMITS_PER_TRANSACTION);
            let received = match self.reserve.is_released() {
                // although nobody writes, there may be room again
                true => timeout(RETRY_INTERVAL, received).await.ok(),
                false => Some(received.await),
            };
            match received {
                Some(0) => return,
                Some(_) => self.settle(&mut group).await,
                None => {}
            }
            if self.reserve.is_released() {
                self.trim.now(&mut self.connection).await;
                self.reserve.refill().await;
                self.shared
                    .is_full
                    .store(self.reserve.is_released(), Ordering::Relaxed);
            } else {
                self.trim.after_commit(&mut self.connection).await;
            }
        }
    }

    /// Executes a group and answers its commits.
    async fn settle(&mut self, group: &mut Vec<Job>) {
        match self.transact(group).await {
            Ok(outcomes) => self.publish(group.drain(..).zip(outcomes)),
            Err(error) if is_full(&error) && self.reserve.release().await => {
                self.shared.is_full.store(true, Ordering::Relaxed);
                // with the space that was freed; what would take it is refused
                Box::pin(self.settle(group)).await;
            }
            // One commit may be too big for the room left: the others are not to fail with it.
            Err(error) if group.len() > 1 && may_be_of_one(&error) => {
                for job in group.drain(..) {
                    let mut alone = [job];
                    match self.transact(&mut alone).await {
                        Ok(outcomes) => self.publish(alone.into_iter().zip(outcomes)),
                        Err(error) => self.refuse(alone, error),
                    }
                }
            }
            Err(error) => self.refuse(group.drain(..), error),
        }
    }

    fn refuse(&self, jobs: impl IntoIterator<Item = Job>, error: sqlx::Error) {
        let error = Arc::new(error);
        self.publish(
            jobs.into_iter()
                .map(|job| (job, Err(self.fault.at("commit", error.clone())))),
        );
    }

    /// Publishes the events to watchers, then answers the callers.
    fn publish(&self, settled: impl Iterator<Item = (Job, CommitResult)>) {
        for (job, outcome) in settled {
            let answer = outcome.map(|events| {
                let written = events.iter().map(|event| event.object.clone()).collect();
                self.shared.log.append(events);
                written
            });
            // A caller that went away does not undo its commit.
            drop(job.answer.send(answer));
        }
    }

    /// Executes the whole group in one transaction; when it returns results, they are on the disk.
    ///
    /// Not sqlx's own `Transaction`: it counts how deep it is, and a full disk, at which SQLite ends the transaction by itself,
    /// would leave that count wrong for ever.
    async fn transact(&mut self, group: &mut [Job]) -> Result<Vec<CommitResult>, sqlx::Error> {
        let done = self.carry_out(group).await;
        if done.is_err() {
            // Where SQLite has ended it already, there is nothing to end.
            let _ = sqlx::query(statements::ROLLBACK)
                .execute(&mut self.connection)
                .await;
            // It may have gone through although the disk said otherwise.
            self.shared.recent.forget_all();
        }
        done
    }

    async fn carry_out(&mut self, group: &mut [Job]) -> Result<Vec<CommitResult>, sqlx::Error> {
        let (connection, seal) = (&mut self.connection, self.seal.as_ref());
        let touched = written_keys(group);
        let known = touched
            .iter()
            .filter_map(|key| Some(((*key).clone(), Some(self.shared.recent.get(key)?))));
        let known: CurrentObjects = known.collect();
        let unknown: Vec<_> = touched
            .iter()
            .copied()
            .filter(|key| !known.contains_key(*key))
            .collect();
        let (start, mut standing) = statements::begin(connection, seal, &unknown).await?;
        if start == self.shared.log.head() {
            standing.extend(known);
        } else {
            // Another process wrote here, or a commit went through although the disk said otherwise.
            self.shared.log.reset(start);
            self.shared.recent.forget_all();
            standing.extend(statements::standing_at(connection, seal, &touched).await?);
        }
        let may_grow = !self.reserve.is_released();
        let admit = |events: &[Event]| match may_grow || !grows(events) {
            true => Ok(()),
            false => Err(self.fault.full()),
        };
        let (end, outcomes) = plan_all(group, start, &mut standing, admit);
        if end == start {
            sqlx::query(statements::ROLLBACK)
                .execute(connection)
                .await?;
            return Ok(outcomes);
        }
        let events: Vec<_> = outcomes.iter().flatten().flatten().collect();
        // before a reader can see any of it
        events
            .iter()
            .for_each(|event| self.shared.recent.forget(&event.object.key));
        statements::commit(connection, seal, &events, end).await?;
        for event in events {
            self.shared.recent.record(event);
            self.shared.damaged.clear(&event.object.key);
        }
        Ok(outcomes)
    }
}

/// Returns the keys that a group writes, each once.
fn written_keys(group: &[Job]) -> Vec<&Key> {
    let keys: BTreeSet<&Key> = group
        .iter()
        .flat_map(|job| job.writes.iter().map(|write| &write.key))
        .collect();
    keys.into_iter().collect()
}

/// Plans each commit of a group in order, if `admit` lets it; returns the results and the last revision.
fn plan_all(
    group: &mut [Job],
    start: u64,
    standing: &mut CurrentObjects,
    admit: impl Fn(&[Event]) -> Result<(), StoreError>,
) -> (u64, Vec<CommitResult>) {
    let (mut head, mut outcomes) = (start, Vec::with_capacity(group.len()));
    for job in group {
        let outcome = plan(&mut job.writes, head, |key| {
            standing.get(key).cloned().flatten()
        });
        let outcome = outcome.and_then(|events| admit(&events).map(|()| events));
        for Event { kind, object, .. } in outcome.iter().flatten() {
            standing.insert(
                object.key.clone(),
                (*kind != EventKind::Deleted).then(|| object.clone()),
            );
            head = object.revision;
        }
        outcomes.push(outcome);
    }
    (head, outcomes)
}
