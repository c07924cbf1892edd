//! The one writer. Commits that arrive while a transaction runs share the next one, so that many small writes at once cost
//! one sync of the disk together; each is still carried out whole or refused alone.

use std::{collections::BTreeSet, sync::Arc};

use sqlx::SqliteConnection;
use tokio::sync::{mpsc, oneshot};

use super::{
    Seal,
    fault::Fault,
    recent::Recent,
    result_code::may_be_of_one,
    statements::{self, Standing},
    trim::Trim,
};
use crate::store::{Event, EventKind, Key, Object, StoreError, Write, damage::Found, log::Log, plan::plan};

/// Commits that share a transaction at most: enough that the sync no longer matters, few enough that nobody waits long.
const GROUP: usize = 64;

/// A commit and who waits for it.
pub(super) struct Job {
    pub(super) writes: Vec<Write>,
    pub(super) answer: oneshot::Sender<Result<Vec<Object>, StoreError>>,
}

/// The owner of the writing connection.
pub(super) struct Writer {
    connection: SqliteConnection,
    seal: Option<Seal>,
    shared: Shared,
    fault: Fault,
    trim: Trim,
}

/// What readers share with the writer.
pub(super) struct Shared {
    pub(super) log: Arc<Log>,
    pub(super) recent: Arc<Recent>,
    pub(super) damaged: Arc<Found>,
}

/// What became of one commit of a group: its events, or why it was refused.
type Outcome = Result<Vec<Event>, StoreError>;

impl Writer {
    /// The owner of `connection`.
    pub(super) fn new(
        connection: SqliteConnection,
        seal: Option<Seal>,
        shared: Shared,
        fault: Fault,
    ) -> Self {
        Self { connection, seal, shared, fault, trim: Trim::default() }
    }

    /// Works until the store is dropped and the last commit is answered.
    pub(super) async fn run(mut self, mut inbox: mpsc::Receiver<Job>) {
        let mut group = Vec::with_capacity(GROUP);
        while inbox.recv_many(&mut group, GROUP).await > 0 {
            self.settle(&mut group).await;
            self.trim.after_commit(&mut self.connection).await;
        }
    }

    /// Carries out and answers a group.
    async fn settle(&mut self, group: &mut Vec<Job>) {
        match self.transact(group).await {
            Ok(outcomes) => self.publish(group.drain(..).zip(outcomes)),
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
        self.publish(jobs.into_iter().map(|job| (job, Err(self.fault.at("commit", error.clone())))));
    }

    /// Shows the events to watchers, then tells the callers.
    fn publish(&self, settled: impl Iterator<Item = (Job, Outcome)>) {
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

    /// One transaction for the whole group; when it returns outcomes, they are on the disk.
    ///
    /// Not sqlx's own `Transaction`: it counts how deep it is, and a full disk, at which SQLite ends the transaction by itself,
    /// would leave that count wrong for ever.
    async fn transact(&mut self, group: &mut [Job]) -> Result<Vec<Outcome>, sqlx::Error> {
        let done = self.carry_out(group).await;
        if done.is_err() {
            // Where SQLite has ended it already, there is nothing to end.
            let _ = sqlx::query(statements::GIVE_UP).execute(&mut self.connection).await;
            // It may have gone through although the disk said otherwise.
            self.shared.recent.forget_all();
        }
        done
    }

    async fn carry_out(&mut self, group: &mut [Job]) -> Result<Vec<Outcome>, sqlx::Error> {
        let (connection, seal) = (&mut self.connection, self.seal.as_ref());
        let touched = touched(group);
        let known =
            touched.iter().filter_map(|key| Some(((*key).clone(), Some(self.shared.recent.get(key)?))));
        let known: Standing = known.collect();
        let unknown: Vec<_> = touched.iter().copied().filter(|key| !known.contains_key(*key)).collect();
        let (start, mut standing) = statements::begin(connection, seal, &unknown).await?;
        if start == self.shared.log.head() {
            standing.extend(known);
        } else {
            // Another process wrote here, or a commit went through although the disk said otherwise.
            self.shared.log.reset(start);
            self.shared.recent.forget_all();
            standing.extend(statements::standing_at(connection, seal, &touched).await?);
        }
        let (end, outcomes) = plan_all(group, start, &mut standing);
        if end == start {
            sqlx::query(statements::GIVE_UP).execute(connection).await?;
            return Ok(outcomes);
        }
        let events: Vec<_> = outcomes.iter().flatten().flatten().collect();
        self.shared.log.announce(end);
        // before a reader can see any of it
        events.iter().for_each(|event| self.shared.recent.forget(&event.object.key));
        let committed = statements::commit(connection, seal, &events, end).await;
        committed.inspect_err(|_| self.shared.log.announce(start))?;
        for event in events {
            self.shared.recent.note(event);
            self.shared.damaged.clear(&event.object.key);
        }
        Ok(outcomes)
    }
}

/// What a group writes, each once.
fn touched(group: &[Job]) -> Vec<&Key> {
    let keys: BTreeSet<&Key> =
        group.iter().flat_map(|job| job.writes.iter().map(|write| &write.key)).collect();
    keys.into_iter().collect()
}

/// What becomes of each commit of a group, one after the other, and the revision after them.
fn plan_all(group: &mut [Job], start: u64, standing: &mut Standing) -> (u64, Vec<Outcome>) {
    let (mut head, mut outcomes) = (start, Vec::with_capacity(group.len()));
    for job in group {
        let outcome = plan(&mut job.writes, head, |key| standing.get(key).cloned().flatten());
        for Event { kind, object, .. } in outcome.iter().flatten() {
            standing.insert(object.key.clone(), (*kind != EventKind::Deleted).then(|| object.clone()));
            head = object.revision;
        }
        outcomes.push(outcome);
    }
    (head, outcomes)
}
