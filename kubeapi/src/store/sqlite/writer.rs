//! The one writer. Commits that arrive while a transaction runs share the next one, so that many small writes at once cost
//! one sync of the disk together; each is still carried out whole or refused alone.

use std::{collections::HashMap, sync::Arc};

use sqlx::SqliteConnection;
use tokio::sync::{mpsc, oneshot};

use super::{
    Seal,
    fault::{Fault, may_be_of_one},
    open::revision,
    read,
    sealing::closed,
    trim::Trim,
};
use crate::store::{Event, EventKind, Key, Object, StoreError, Write, log::Log, plan::plan};

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
    log: Arc<Log>,
    fault: Fault,
    trim: Trim,
}

/// What became of one commit of a group: its events, or why it was refused.
type Outcome = Result<Vec<Event>, StoreError>;

/// The objects that a group touches, as they stand at its current commit.
type Standing = HashMap<Key, Option<Object>>;

impl Writer {
    pub(super) fn new(connection: SqliteConnection, seal: Option<Seal>, log: Arc<Log>, fault: Fault) -> Self {
        Self { connection, seal, log, fault, trim: Trim::default() }
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
                self.log.append(events);
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
        self.execute("BEGIN IMMEDIATE").await?;
        let done = match self.carry_out(group).await {
            Ok(carried) if carried.end != carried.start => {
                self.log.announce(carried.end);
                let committed = self.execute("COMMIT").await;
                committed.inspect_err(|_| self.log.announce(carried.start)).map(|()| carried.outcomes)
            }
            Ok(carried) => self.execute("ROLLBACK").await.map(|()| carried.outcomes),
            Err(error) => Err(error),
        };
        if done.is_err() {
            // Where SQLite has ended it already, there is nothing to end.
            let _ = self.execute("ROLLBACK").await;
        }
        done
    }

    async fn execute(&mut self, statement: &'static str) -> Result<(), sqlx::Error> {
        sqlx::query(statement).execute(&mut self.connection).await.map(drop)
    }

    /// All of the group but its end.
    async fn carry_out(&mut self, group: &mut [Job]) -> Result<Carried, sqlx::Error> {
        let (connection, seal) = (&mut self.connection, self.seal.as_ref());
        let mut head = revision(connection).await?;
        if head != self.log.head() {
            // Another process wrote here, or a commit went through although the disk said otherwise.
            self.log.reset(head);
        }
        let start = head;
        let mut standing = Standing::new();
        let mut outcomes = Vec::with_capacity(group.len());
        for job in group {
            load(connection, seal, &job.writes, &mut standing).await?;
            let outcome = plan(&mut job.writes, head, |key| standing.get(key).cloned().flatten());
            if let Ok(events) = &outcome {
                write(connection, seal, events, &mut standing).await?;
                head = events.last().map_or(head, |event| event.object.revision);
            }
            outcomes.push(outcome);
        }
        if head != start {
            let counter = sqlx::query("UPDATE counter SET revision = ?1").bind(head.cast_signed());
            counter.execute(connection).await?;
        }
        Ok(Carried { start, end: head, outcomes })
    }
}

/// What a group has done before it is committed.
struct Carried {
    /// The revision before it.
    start: u64,
    /// The revision after it.
    end: u64,
    outcomes: Vec<Outcome>,
}

/// Reads what the writes will find, so that they can be planned without waiting.
async fn load(
    connection: &mut SqliteConnection,
    seal: Option<&Seal>,
    writes: &[Write],
    standing: &mut Standing,
) -> Result<(), sqlx::Error> {
    for Write { key, .. } in writes {
        if !standing.contains_key(key) {
            let object = read::get(&mut *connection, seal, key).await?;
            standing.insert(key.clone(), object);
        }
    }
    Ok(())
}

async fn write(
    connection: &mut SqliteConnection,
    seal: Option<&Seal>,
    events: &[Event],
    standing: &mut Standing,
) -> Result<(), sqlx::Error> {
    for Event { kind, object, .. } in events {
        let Object { key, revision, json } = object;
        let left = *kind != EventKind::Deleted;
        let query = if left {
            sqlx::query(
                "INSERT INTO objects (resource, namespace, name, revision, value) VALUES (?1, ?2, ?3, ?4, ?5) \
                 ON CONFLICT DO UPDATE SET revision = excluded.revision, value = excluded.value",
            )
        } else {
            sqlx::query("DELETE FROM objects WHERE resource = ?1 AND namespace = ?2 AND name = ?3")
        };
        let query = query.bind(key.resource.as_str()).bind(&key.namespace).bind(&key.name);
        let query = if left {
            query.bind(revision.cast_signed()).bind(closed(seal, key, *revision, json)?)
        } else {
            query
        };
        query.execute(&mut *connection).await?;
        standing.insert(key.clone(), left.then(|| object.clone()));
    }
    Ok(())
}
