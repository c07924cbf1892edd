//! Opens the file: permissions, connections, schema and checks.

use std::{path::Path, sync::LazyLock, time::Duration};

use sqlx::{
    ConnectOptions, Connection, SqlSafeStr, SqliteConnection,
    migrate::{Migration, MigrationType, Migrator},
    sqlite::SqliteConnectOptions,
};
use tokio::fs::OpenOptions;

use super::{
    Seal, aside, header, identity,
    read::{DamagedObject, revision},
    readers::Readers,
    verify,
};

/// The steps that lead to the schema of this version. They are listed here, as the macro of sqlx for them would have sqlx, tokio and
/// futures built once more, for the machine that builds.
static MIGRATOR: LazyLock<Migrator> = LazyLock::new(|| {
    let steps = [
        ("objects", include_str!("../../migrations/0001_objects.sql")),
        (
            "checksums",
            include_str!("../../migrations/0002_checksums.sql"),
        ),
    ];
    let steps = steps.into_iter().zip(1..);
    let migrations = steps.map(|((description, sql), version)| {
        let kind = MigrationType::Simple;
        Migration::new(version, description.into(), kind, sql.into_sql_str(), false)
    });
    Migrator::with_migrations(migrations.collect())
});

/// How long a connection waits for a lock. Only another process (a backup, a `sqlite3` shell) ever holds one for long.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The settings of the writing connection; its page cache is small, as those of [`Readers`]. The log is checkpointed at 256 pages (a
/// megabyte), and truncated to a megabyte.
const WRITER_PRAGMAS: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA mmap_size = 0; PRAGMA temp_store = MEMORY; \
    PRAGMA cache_size = -512; PRAGMA wal_autocheckpoint = 256; PRAGMA journal_size_limit = 1048576";

/// The result of opening a database.
pub(super) struct Opened {
    pub(super) writer: SqliteConnection,
    pub(super) readers: Readers,
    /// The newest revision.
    pub(super) revision: u64,
    /// Objects that cannot be read.
    pub(super) damaged: Vec<DamagedObject>,
}

/// Opens or creates the database; an error names the failed step.
pub(super) async fn open(
    path: &Path,
    seal: Option<&Seal>,
) -> Result<Opened, (&'static str, sqlx::Error)> {
    if aside::is_cut_to_nothing(path).await {
        let cut = "the file is empty, although there were objects in it".to_owned();
        return Err(("open the database", sqlx::Error::Protocol(cut)));
    }
    if aside::is_being_repaired(path).await {
        let cut = "its repair was cut off before the new file was in its place; the same repair again finishes it";
        return Err(("open the database", sqlx::Error::Protocol(cut.to_owned())));
    }
    let created = create_private(path).await;
    let is_new = created.map_err(|error| ("open or create the file", sqlx::Error::Io(error)))?;
    if header::is_damaged(path).await {
        let damaged = "not a database, or its header or that of its log is damaged".to_owned();
        return Err(("open the database", sqlx::Error::Protocol(damaged)));
    }
    let options = SqliteConnectOptions::new()
        .filename(path)
        .busy_timeout(BUSY_TIMEOUT)
        .disable_statement_logging();
    let mut writer = options
        .connect()
        .await
        .map_err(|error| ("open the database", error))?;
    let (revision, damaged) = match prepare(&mut writer, is_new, seal).await {
        Ok(prepared) => prepared,
        Err(failure) => {
            // Not dropped, which closes it at some later time: SQLite then removes the log by its name, and another file may
            // have the name by then.
            let _ = writer.close().await;
            return Err(failure);
        }
    };
    aside::mark(path)
        .await
        .map_err(|error| ("note that it is in use", sqlx::Error::Io(error)))?;
    Ok(Opened {
        writer,
        readers: Readers::new(options),
        revision,
        damaged,
    })
}

/// Configures a connection as the writer; returns the revision, and the damaged objects. The file is not written to before it has been
/// checked.
async fn prepare(
    writer: &mut SqliteConnection,
    is_new: bool,
    seal: Option<&Seal>,
) -> Result<(u64, Vec<DamagedObject>), (&'static str, sqlx::Error)> {
    let opened = async |writer: &mut SqliteConnection| {
        if is_new {
            // before anything is in the file, or it takes a rewriting of the whole
            sqlx::raw_sql("PRAGMA auto_vacuum = INCREMENTAL")
                .execute(&mut *writer)
                .await?;
        }
        sqlx::raw_sql("SELECT count(*) FROM sqlite_master")
            .execute(writer)
            .await
    };
    opened(writer)
        .await
        .map_err(|error| ("open the database", error))?;
    identity::check(writer)
        .await
        .map_err(|error| ("check the database", error))?;
    let configured = sqlx::raw_sql(WRITER_PRAGMAS).execute(&mut *writer).await;
    configured.map_err(|error| ("open the database for writing", error))?;
    let migrated = MIGRATOR.run(&mut *writer).await;
    migrated.map_err(|error| ("prepare the tables", flatten(error)))?;
    identity::sign(writer)
        .await
        .map_err(|error| ("sign the database", error))?;
    let damaged = verify::objects(writer, seal)
        .await
        .map_err(|error| ("read all objects", error))?;
    let revision = revision(writer)
        .await
        .map_err(|error| ("read the revision", error))?;
    Ok((revision, damaged))
}

/// Makes sure that the file exists and is writable; SQLite gives its side files the same permissions. Returns whether it is empty.
async fn create_private(path: &Path) -> std::io::Result<bool> {
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
        .await?;
    Ok(file.metadata().await?.len() == 0)
}

/// Turns the error of a migration that failed on the disk into that of the disk.
fn flatten(error: sqlx::migrate::MigrateError) -> sqlx::Error {
    match error {
        sqlx::migrate::MigrateError::Execute(error)
        | sqlx::migrate::MigrateError::ExecuteMigration(error, _) => error,
        // ours are done whole or not at all, and never changed
        error @ (sqlx::migrate::MigrateError::Dirty(_)
        | sqlx::migrate::MigrateError::VersionMismatch(_)) => {
            sqlx::Error::Protocol(error.to_string())
        }
        error => sqlx::Error::Migrate(Box::new(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::MIGRATOR;

    #[test]
    fn steps_of_the_schema_are_those_that_databases_record() {
        let recorded = [
            (
                1,
                "objects",
                "ecfa4ac628abfa596d2856c51a573a93795a53646775355c8fd943e532d87514139eb9e0ff7611ae2d7a6bd3a12fad2b",
            ),
            (
                2,
                "checksums",
                "d67b4f5dd000d1b16d707fff9a1410aad053838a096cb32fe1a8fa06174edb85bc4ceebaeda4cc7f2dc23c194c80b084",
            ),
        ];
        let steps = MIGRATOR.iter().zip(recorded);
        for (step, (version, description, checksum)) in steps {
            let digits = step.checksum.iter().map(|byte| format!("{byte:02x}"));
            let found = (step.version, &*step.description, digits.collect::<String>());
            assert_eq!(found, (version, description, checksum.to_owned()));
        }
        assert_eq!(MIGRATOR.iter().count(), recorded.len());
    }
}
