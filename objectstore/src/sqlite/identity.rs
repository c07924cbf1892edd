//! Whether a file is whole, and one of this program's.
//!
//! Source: SQLite, `PRAGMA application_id`, `PRAGMA quick_check`.

use sqlx::SqliteConnection;

/// `Outr` in ASCII, in the file's header.
const APPLICATION: i32 = 0x4f75_7472;

/// Finds a file torn by the disk here rather than in the middle of the work, and one that somebody else wrote. A file without any
/// table is new.
pub(super) async fn check(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    let verdict: String = sqlx::query_scalar("PRAGMA quick_check(1)")
        .fetch_one(&mut *connection)
        .await?;
    if verdict != "ok" {
        return Err(sqlx::Error::Protocol(verdict));
    }
    let application: i32 = sqlx::query_scalar("PRAGMA application_id")
        .fetch_one(&mut *connection)
        .await?;
    if application != 0 && application != APPLICATION {
        let foreign = format!("it belongs to another program (application_id {application})");
        return Err(sqlx::Error::Protocol(foreign));
    }
    let names = sqlx::query_scalar("SELECT name FROM sqlite_master WHERE type = 'table'");
    let names: Vec<String> = names.fetch_all(&mut *connection).await?;
    let has = |table: &str| names.iter().any(|name| name == table);
    if !has("_sqlx_migrations") {
        let foreign = "it has tables of another program".to_owned();
        return if names.is_empty() {
            Ok(())
        } else {
            Err(sqlx::Error::Protocol(foreign))
        };
    }
    let prepared = sqlx::query_scalar("SELECT count(*) FROM _sqlx_migrations WHERE success");
    let prepared: i64 = prepared.fetch_one(&mut *connection).await?;
    if prepared > 0 {
        if !has("objects") || !has("counter") {
            return Err(sqlx::Error::Protocol("a table is missing".to_owned()));
        }
        // a row that is not there is an error of its own
        super::read::revision(connection).await?;
    }
    Ok(())
}

/// Writes into the file whose it is, where that is not there yet.
pub(super) async fn sign(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    let application: i32 = sqlx::query_scalar("PRAGMA application_id")
        .fetch_one(&mut *connection)
        .await?;
    if application == 0 {
        // a pragma takes no parameters; the number is APPLICATION
        sqlx::query("PRAGMA application_id = 0x4f757472")
            .execute(&mut *connection)
            .await?;
    }
    let vacuum: i32 = sqlx::query_scalar("PRAGMA auto_vacuum")
        .fetch_one(&mut *connection)
        .await?;
    if vacuum == 0 {
        // a file from before it could shrink, which begins when it is written anew
        sqlx::query("PRAGMA auto_vacuum = INCREMENTAL")
            .execute(&mut *connection)
            .await?;
        sqlx::query("VACUUM").execute(connection).await?;
    }
    Ok(())
}
