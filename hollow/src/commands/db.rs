//! `cloudsim db`: checks and repairs a cloud's databases on disk.

use std::{path::Path, process::ExitCode, sync::Arc};

use agent::database::{add_key, health_lines};
use anyhow::{Context, bail};
use cloudsim::{
    DATABASE,
    pki::{NodeCertificates, UNKNOWN, lost_records},
    seal,
};
use objectstore::{
    Health, Inspection, RepairReport, Seal, SqliteOptions, SqliteStore, Store, StoreError,
    StoreLock,
};

use wire::text::{count, printable};

use super::print_line;
use crate::cli::{DbCommand, DbPlace};

/// The verdicts of `cloudsim db check`.
const DAMAGED_OBJECTS: &str =
    "some objects are damaged; delete or rewrite them through the API, or run `cloudsim db repair`";
const DAMAGED_FILE: &str =
    "the file is damaged; run `cloudsim db repair` to recover the readable objects";

pub(super) async fn run(command: &DbCommand) -> anyhow::Result<ExitCode> {
    match command {
        DbCommand::Check(place) => check(place).await,
        DbCommand::Repair(place) => repair(place).await,
        DbCommand::NewKey { file } => {
            let first_use = format!("start the cloud with --key-file {}", file.display());
            print_line(&add_key(file, &first_use)?);
            Ok(ExitCode::SUCCESS)
        }
    }
}

async fn check(place: &DbPlace) -> anyhow::Result<ExitCode> {
    let (path, seal) = (place.data_dir.join(DATABASE), keys(place)?);
    require_database(&path).await?;
    let health = match Inspection::open(&path, seal).await {
        Ok(mut inspection) => inspection.check().await?,
        Err(error) if error.is_damaged_file() => Health {
            faults: vec![format!("{:#}", anyhow::Error::new(error))],
            ..Health::default()
        },
        Err(error) => return Err(error.into()),
    };
    require_keys(place, &health)?;
    for line in health_lines(&health, DAMAGED_OBJECTS, DAMAGED_FILE) {
        print_line(&line);
    }
    let is_whole = health.faults.is_empty() && health.damaged.is_empty();
    Ok(if is_whole {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Fails unless there is a database, or what an interrupted repair has left of it.
async fn require_database(path: &Path) -> anyhow::Result<()> {
    if !path.exists() && !SqliteStore::is_being_repaired(path).await {
        bail!(
            "{} does not exist; name the data directory of a cloud with --data-dir",
            path.display()
        );
    }
    Ok(())
}

async fn repair(place: &DbPlace) -> anyhow::Result<ExitCode> {
    let (path, seal) = (place.data_dir.join(DATABASE), keys(place)?);
    require_database(&path).await?;
    let _lock = StoreLock::take(&path)?;
    if let Ok(mut inspection) = Inspection::open(&path, seal.clone()).await {
        let health = inspection.check().await;
        inspection.close().await;
        if let Ok(health) = health {
            require_keys(place, &health)?;
        }
    }
    let is_empty = std::fs::metadata(&path).is_ok_and(|file| file.len() == 0);
    let repaired = SqliteStore::repair(&path, seal.as_ref(), &lost_records()).await;
    let Some(repaired) = repaired.map_err(explain)? else {
        print_line("OK: nothing to repair");
        return Ok(ExitCode::SUCCESS);
    };
    let RepairReport {
        set_aside,
        kept,
        lost,
        is_torn,
        is_finished,
    } = repaired;
    if is_finished {
        print_line(&format!(
            "finished an earlier repair that was interrupted: {} in the new file",
            count(kept, "object")
        ));
        return Ok(ExitCode::SUCCESS);
    }
    for lost in &lost {
        print_line(&printable(&format!("lost: {}: {}", lost.key, lost.why)));
    }
    if is_torn {
        print_line("some pages are unreadable or invalid: more objects may be lost");
    }
    print_line(&format!(
        "recovered {}; lost {}{}; the damaged file was renamed to {}",
        count(kept, "object"),
        lost.len(),
        if is_torn { " or more" } else { "" },
        set_aside.display()
    ));
    let store = SqliteStore::open_with(
        &path,
        SqliteOptions {
            seal,
            ..SqliteOptions::default()
        },
    )
    .await?;
    if kept > 0 && store.get(&lost_records().authority).await?.is_none() {
        print_line(
            "the key of the CA is lost: the next start creates a new CA, and all nodes must join again (`edge-agent reset`, then join). If \
             you have a backup of the file, restore it instead",
        );
    }
    closed_names(store).await?;
    if kept == 0 && !is_empty {
        print_line(
            "nothing could be read: the new file is empty, and the next start creates a new cloud with a new CA, so that all nodes must \
             join again. If you have a backup of the file, restore it instead",
        );
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the names that are closed because their records were lost.
async fn closed_names(store: Arc<dyn Store>) -> anyhow::Result<()> {
    for name in NodeCertificates::new(store).lost_names().await? {
        print_line(&printable(&match name.as_str() {
            UNKNOWN => "closed: every name without a record, since the names of lost records are unknown. Their certificates are not \
                        accepted, and no token yields one, until `cloudsim node reset NAME`, or `cloudsim node reset --lost` for all"
                .to_owned(),
            name => format!(
                "closed: {name}: the record of its certificates is lost; none is accepted until `cloudsim node reset {name}`"
            ),
        }));
    }
    Ok(())
}

/// Fails without the right keys, because then encrypted records cannot be told from damaged ones.
fn require_keys(place: &DbPlace, health: &Health) -> anyhow::Result<()> {
    let Health { sealed, locked, .. } = health;
    match &place.key_file {
        None if *sealed > 0 => {
            bail!("{sealed} objects are encrypted; name the file of their keys with --key-file")
        }
        Some(file) if *locked > 0 => bail!(
            "{locked} of {sealed} encrypted objects were encrypted with a key that is not in {}: it is another file's, or a key was \
             removed from it too early; name the right one with --key-file, or put the key below the others",
            file.display()
        ),
        _ => Ok(()),
    }
}

fn keys(place: &DbPlace) -> anyhow::Result<Option<Seal>> {
    seal(place.key_file.as_deref()).context("--key-file cannot be used")
}

fn explain(error: StoreError) -> anyhow::Error {
    anyhow::Error::new(error).context("nothing was changed")
}
