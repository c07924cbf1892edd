//! Returns unused pages of the database file to the file system.
//!
//! Source: SQLite, `PRAGMA auto_vacuum` (`INCREMENTAL`).

use sqlx::SqliteConnection;
use tracing::warn;

/// Transactions between two checks: a check for a few kilobytes each costs next to nothing.
const COMMITS_BETWEEN_CHECKS: u32 = 128;
/// Free pages that stay in the file for the next writes: a quarter of a megabyte.
const FREE_PAGES_KEPT: i64 = 64;

/// Counts the transactions since the last check.
#[derive(Debug, Default)]
pub(super) struct IncrementalVacuum {
    commits: u32,
}

impl IncrementalVacuum {
    /// Frees pages now, since the disk is full, and lets the next transaction begin the log anew in the space that it has.
    pub(super) async fn now(&mut self, connection: &mut SqliteConnection) {
        self.commits = COMMITS_BETWEEN_CHECKS;
        self.after_commit(connection).await;
        if let Err(error) = sqlx::query("PRAGMA wal_checkpoint(RESTART)")
            .fetch_all(connection)
            .await
        {
            warn!(
                error = &error as &dyn std::error::Error,
                "failed to checkpoint the database on a full disk"
            );
        }
    }

    /// Counts a transaction, and frees pages where a check is due.
    pub(super) async fn after_commit(&mut self, connection: &mut SqliteConnection) {
        self.commits += 1;
        if self.commits >= COMMITS_BETWEEN_CHECKS {
            self.commits = 0;
            // room that stays taken is a nuisance, not a loss
            if let Err(error) = trim(connection).await {
                warn!(
                    error = &error as &dyn std::error::Error,
                    "failed to shrink database"
                );
            }
        }
    }
}

async fn trim(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    let free: i64 = sqlx::query_scalar("PRAGMA freelist_count")
        .fetch_one(&mut *connection)
        .await?;
    if free > FREE_PAGES_KEPT {
        // one page for each row of the answer, so all of it must be read; the free pages in the middle cost a move each
        sqlx::query("PRAGMA incremental_vacuum")
            .fetch_all(connection)
            .await?;
    }
    Ok(())
}
