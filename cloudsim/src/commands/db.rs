//! `cloudsim db`: what a cloud keeps on the disk, for the people who run it.

use std::process::ExitCode;

use anyhow::{Context, bail};
use kubeapi::store::{Health, Inspection, Repaired, Seal, SqliteStore, StoreError, StoreLock};

use super::say;
use crate::{
    cli::{DbCommand, DbPlace},
    cloud::{DATABASE, seal},
};

pub(super) async fn run(command: &DbCommand) -> anyhow::Result<ExitCode> {
    match command {
        DbCommand::Check(place) => check(place).await,
        DbCommand::Repair(place) => repair(place).await,
        DbCommand::NewKey { file } => Ok(Seal::add_key(file).map(|()| ExitCode::SUCCESS)?),
    }
}

async fn check(place: &DbPlace) -> anyhow::Result<ExitCode> {
    let (path, seal) = (place.data_dir.join(DATABASE), keys(place)?);
    let health = match Inspection::open(&path, seal).await {
        Ok(mut inspection) => inspection.check().await?,
        Err(error) if error.is_damaged_file() => {
            Health { faults: vec![format!("{:#}", anyhow::Error::new(error))], ..Health::default() }
        }
        Err(error) => return Err(error.into()),
    };
    require_keys(place, &health)?;
    for fault in &health.faults {
        say(&format!("fault: {fault}"));
    }
    for (object, why) in &health.damaged {
        say(&format!("damaged: {object}: {why}"));
    }
    let Health { faults, damaged, objects, sealed, revision, bytes, free_bytes } = &health;
    let verdict = match (faults.is_empty(), damaged.is_empty()) {
        (true, true) => "whole",
        (true, false) => {
            "whole but for the objects named: delete them or write them anew through the API, or run `cloudsim db repair`"
        }
        (false, _) => "damaged: `cloudsim db repair` writes it anew with all that can be read of it",
    };
    say(&format!(
        "{verdict}; {objects} objects, {sealed} of them encrypted, revision {revision}; {bytes} bytes, {free_bytes} of them free"
    ));
    let is_whole = faults.is_empty() && damaged.is_empty();
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn repair(place: &DbPlace) -> anyhow::Result<ExitCode> {
    let (path, seal) = (place.data_dir.join(DATABASE), keys(place)?);
    if !path.exists() {
        bail!("there is no {}; name the data directory of a cloud with --data-dir", path.display());
    }
    let _lock = StoreLock::take(&path)?;
    if place.key_file.is_none()
        && let Ok(mut inspection) = Inspection::open(&path, None).await
        && let Ok(health) = inspection.check().await
    {
        require_keys(place, &health)?;
    }
    let repaired = SqliteStore::repair(&path, seal.as_ref()).await;
    let Some(Repaired { set_aside, kept, lost, is_torn }) = repaired.map_err(told)? else {
        say("whole: nothing was done");
        return Ok(ExitCode::SUCCESS);
    };
    for (object, why) in &lost {
        say(&format!("lost: {object}: {why}"));
    }
    if is_torn {
        say("pages could not be read: there may have been other objects");
    }
    say(&format!(
        "written anew with {kept} objects; {} are lost; the damaged file is {}",
        if is_torn { format!("{} or more", lost.len()) } else { lost.len().to_string() },
        set_aside.display()
    ));
    Ok(ExitCode::SUCCESS)
}

/// Without the keys, what is encrypted cannot be told from what is damaged.
fn require_keys(place: &DbPlace, health: &Health) -> anyhow::Result<()> {
    if place.key_file.is_none() && health.sealed > 0 {
        bail!("{} objects are encrypted; name the file of their keys with --key-file", health.sealed);
    }
    Ok(())
}

fn keys(place: &DbPlace) -> anyhow::Result<Option<Seal>> {
    seal(place.key_file.as_deref()).context("--key-file cannot be used")
}

fn told(error: StoreError) -> anyhow::Error {
    anyhow::Error::new(error).context("nothing was changed")
}
