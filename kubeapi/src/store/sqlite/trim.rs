//! The file gives room back that nothing uses any more.
//!
//! Source: SQLite, `PRAGMA auto_vacuum` (`INCREMENTAL`).

use sqlx::SqliteConnection;
use tracing::warn;

/// Transactions between two looks: one look for a few kilobytes each is nothing.
const EVERY: u32 = 128;
/// Free pages that are left for what comes next: a quarter of a megabyte.
const SPARE: i64 = 64;

/// When to look next.
#[derive(Debug, Default)]
pub(super) struct Trim {
    commits: u32,
}

impl Trim {
    /// A transaction has ended.
    pub(super) async fn after_commit(&mut self, connection: &mut SqliteConnection) {
        self.commits += 1;
        if self.commits >= EVERY {
            self.commits = 0;
            // room that stays taken is a nuisance, not a loss
            if let Err(error) = trim(connection).await {
                warn!(error = &error as &dyn std::error::Error, "the database could not be made smaller");
            }
        }
    }
}

async fn trim(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    let free: i64 = sqlx::query_scalar("PRAGMA freelist_count").fetch_one(&mut *connection).await?;
    if free > SPARE {
        // one page for each row of the answer, so all of it must be read; the free pages in the middle cost a move each
        sqlx::query("PRAGMA incremental_vacuum").fetch_all(connection).await?;
    }
    Ok(())
}
