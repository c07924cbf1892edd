//! `cloudsim db`: checks and repairs a cloud's databases on disk.

use std::{path::Path, process::ExitCode, sync::Arc};

use anyhow::{Context, bail};
use cloudsim::{
    DATABASE,
    pki::{NodeCertificates, UNKNOWN, lost_records},
    seal,
};
use kubeapi::store::{
    Health, Inspection, RepairReport, Seal, SqliteOptions, SqliteStore, Store, StoreError, StoreLock,
};

use super::print_line;
use crate::cli::{DbCommand, DbPlace};

pub(super) async fn run(command: &DbCommand) -> anyhow::Result<ExitCode> {
    match command {
        DbCommand::Check(place) => check(place).await,
        DbCommand::Repair(place) => repair(place).await,
        DbCommand::NewKey { file } => Ok(Seal::add_key(file).map(|()| ExitCode::SUCCESS)?),
    }
}

async fn check(place: &DbPlace) -> anyhow::Result<ExitCode> {
    let (path, seal) = (place.data_dir.join(DATABASE), keys(place)?);
    require_database(&path).await?;
    let health = match Inspection::open(&path, seal).await {
        Ok(mut inspection) => inspection.check().await?,
        Err(error) if error.is_damaged_file() => {
            Health { faults: vec![format!("{:#}", anyhow::Error::new(error))], ..Health::default() }
        }
        Err(error) => return Err(error.into()),
    };
    require_keys(place, &health)?;
    for fault in &health.faults {
        print_line(&format!("fault: {fault}"));
    }
    for (object, why) in &health.damaged {
        print_line(&format!("damaged: {object}: {why}"));
    }
    let Health { faults, damaged, objects, sealed, revision, bytes, free_bytes, .. } = &health;
    let verdict = match (faults.is_empty(), damaged.is_empty()) {
        (true, true) => "whole",
        (true, false) => {
            "whole but for the objects named: delete them or write them anew through the API, or run `cloudsim db repair`"
        }
        (false, _) => "damaged: `cloudsim db repair` writes it anew with all that can be read of it",
    };
    print_line(&format!(
        "{verdict}; {objects} objects, {sealed} of them encrypted, revision {revision}; {bytes} bytes, {free_bytes} of them free"
    ));
    let is_whole = faults.is_empty() && damaged.is_empty();
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Fails unless there is a database, or what an interrupted repair has left of it.
async fn require_database(path: &Path) -> anyhow::Result<()> {
    if !path.exists() && !SqliteStore::is_being_repaired(path).await {
        bail!("there is no {}; name the data directory of a cloud with --data-dir", path.display());
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
    let Some(repaired) = repaired.map_err(told)? else {
        print_line("whole: nothing was done");
        return Ok(ExitCode::SUCCESS);
    };
    let RepairReport { set_aside, kept, lost, is_torn, is_finished } = repaired;
    if is_finished {
        print_line(&format!(
            "an earlier repair was cut off, and is finished now: {kept} objects are in the new file"
        ));
        return Ok(ExitCode::SUCCESS);
    }
    for lost in &lost {
        print_line(&format!("lost: {}: {}", lost.key, lost.why));
    }
    if is_torn {
        print_line(
            "pages could not be read, or are not what they should be: there may have been other objects",
        );
    }
    print_line(&format!(
        "written anew with {kept} objects; {} are lost; the damaged file is {}",
        if is_torn { format!("{} or more", lost.len()) } else { lost.len().to_string() },
        set_aside.display()
    ));
    let store = SqliteStore::open_with(&path, SqliteOptions { seal, ..SqliteOptions::default() }).await?;
    if kept > 0 && store.get(&lost_records().authority).await?.is_none() {
        print_line(
            "the key of the cloud's authority is lost: the next start makes another one, which all machines have to join anew \
             (`edge-agent reset`, then join). If there is a copy of the file, put it in its place instead",
        );
    }
    closed_names(store).await?;
    if kept == 0 && !is_empty {
        print_line(
            "nothing could be read: the new file is empty, and the next start makes another cloud with another authority, which all \
             machines have to join anew. If there is a copy of the file, put it in its place instead",
        );
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the names that are closed because their records were lost.
async fn closed_names(store: Arc<dyn Store>) -> anyhow::Result<()> {
    for name in NodeCertificates::new(store).lost().await? {
        print_line(&match name.as_str() {
            UNKNOWN => "closed: every name of which nothing is on record: it is not known which records were lost. No certificate of \
                        theirs counts and no token gives one, until `cloudsim node reset NAME`, or `cloudsim node reset --lost` for all"
                .to_owned(),
            name => format!(
                "closed: {name}: which certificates of this node count was lost, so that none does until `cloudsim node reset {name}`"
            ),
        });
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
            "{locked} of {sealed} encrypted objects were encrypted with a key that is not in {}: it is another file's, or a key was taken \
             out of it too early; name the right one with --key-file, or put the key below the others",
            file.display()
        ),
        _ => Ok(()),
    }
}

fn keys(place: &DbPlace) -> anyhow::Result<Option<Seal>> {
    seal(place.key_file.as_deref()).context("--key-file cannot be used")
}

fn told(error: StoreError) -> anyhow::Error {
    anyhow::Error::new(error).context("nothing was changed")
}
