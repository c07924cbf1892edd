//! `edge-agent db`: commands for the database of a node.

use std::{
    fs,
    io::{self, ErrorKind, Read, Write},
    path::Path,
    process::ExitCode,
};

use anyhow::{Context, bail};
use futures::TryStreamExt;
use objectstore::{Health, Inspection, Object, Seal, StoreError};
use serde_json::{Value, json};
use wire::text::{count, printable};

use crate::{
    app,
    cli::{Db, DbFile, Output},
    config, metamanager,
};

mod export;

/// The verdicts of `edge-agent db check`.
const DAMAGED_OBJECTS: &str =
    "some objects are damaged; the agent ignores them and requests them from the cloud again";
const DAMAGED_FILE: &str =
    "the file is damaged; at its next start the agent renames it and creates a new one";
/// The text that replaces confidential values.
const MASK: &str = "***";

/// Executes the command; its output goes to `out`.
///
/// # Errors
/// The configuration, the key file or the database cannot be read.
pub(crate) fn run(command: &Db, out: &mut impl Write) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let done = runtime.block_on(async {
        match command {
            Db::Check { file, output } => check(&mut open(file).await?, output.format, out).await,
            Db::Dump { file, show_secrets } => {
                dump(&mut open(file).await?, *show_secrets, out).await
            }
            Db::Export {
                paths,
                output,
                overwrite,
            } => export::run(&paths.config(), output.as_deref(), *overwrite, out).await,
            Db::NewKey { file } => {
                let first_use =
                    format!("set database.keyFile: {} in edgecore.yaml", file.display());
                writeln!(out, "{}", add_key(file, &first_use)?)?;
                Ok(ExitCode::SUCCESS)
            }
        }
    });
    match done {
        // the reader has closed the pipe
        Err(error) if is_closed_pipe(&error) => Ok(ExitCode::SUCCESS),
        done => done,
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref()
        .is_some_and(|error: &io::Error| error.kind() == ErrorKind::BrokenPipe)
}

async fn open(file: &DbFile) -> anyhow::Result<Inspection> {
    let config = config::load_paths(&file.paths.config());
    let (path, seal) = match (&file.database, config) {
        (Some(path), Ok(config)) => (path.clone(), app::seal(&config)?),
        // a file from another machine is read without its configuration
        (Some(path), Err(_)) => (path.clone(), None),
        (None, config) => {
            let config = config?;
            (app::database(&config), app::seal(&config)?)
        }
    };
    check_file(file, &path)?;
    Ok(Inspection::open(&path, seal).await?)
}

/// Checks that a file is a database before SQLite opens it, whose errors for other files name another cause.
fn check_file(file: &DbFile, path: &Path) -> anyhow::Result<()> {
    const MAGIC: &[u8; 16] = b"SQLite format 3\0";
    let mut begin = [0; MAGIC.len()];
    let shown = path.display();
    let read = limits::open_regular_file(path, fs::OpenOptions::new().read(true))
        .and_then(|mut opened| opened.read_exact(&mut begin));
    match read {
        Ok(()) if begin == *MAGIC => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound && file.database.is_some() => {
            bail!("{shown} does not exist; check the path")
        }
        Err(error) if error.kind() == ErrorKind::NotFound => bail!(
            "there is no database {shown}, which belongs to {}: the agent has not run with this configuration; name another one with \
             --config",
            file.paths.config().display()
        ),
        Err(error) if error.kind() != ErrorKind::UnexpectedEof => {
            Err(error).with_context(|| format!("cannot read {shown}"))
        }
        _ => bail!(
            "{shown} is not a database; name the file of an agent, such as /var/lib/kubeedge/outrigger.db"
        ),
    }
}

async fn check(
    database: &mut Inspection,
    output: Option<Output>,
    out: &mut impl Write,
) -> anyhow::Result<ExitCode> {
    let health = database.check().await?;
    if health.locked > 0 {
        bail!(
            "{} of {} encrypted objects cannot be decrypted: their key is missing; name it in edgecore.yaml (database.keyFile or database.keyring), and pass this file with --config",
            health.locked,
            health.sealed
        );
    }
    let is_whole = health.faults.is_empty() && health.damaged.is_empty();
    let code = if is_whole {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    };
    if let Some(output) = output {
        let Health {
            faults,
            damaged,
            objects,
            sealed,
            revision,
            bytes,
            free_bytes,
            ..
        } = &health;
        let damaged = damaged.iter().map(|(key, why)| {
            json!({
                "resource": key.resource.as_str(), "namespace": key.namespace, "name": key.name, "reason": why,
            })
        });
        let told = json!({
            "whole": is_whole, "faults": faults, "damaged": damaged.collect::<Vec<_>>(), "objects": objects, "encrypted": sealed, "revision": revision,
            "bytes": bytes, "freeBytes": free_bytes,
        });
        out.write_all(output.document(&told)?.as_bytes())?;
        return Ok(code);
    }
    for line in health_lines(&health, DAMAGED_OBJECTS, DAMAGED_FILE) {
        writeln!(out, "{line}")?;
    }
    Ok(code)
}

/// Describes the result of a check: a line for each fault, and the verdict, which ends with a remedy.
pub fn health_lines(
    health: &Health,
    damaged_objects: &str,
    damaged_file: &str,
) -> impl Iterator<Item = String> {
    let Health {
        faults,
        damaged,
        objects,
        sealed,
        revision,
        bytes,
        free_bytes,
        ..
    } = health;
    let verdict = match (faults.is_empty(), damaged.is_empty()) {
        (true, true) => "OK",
        (true, false) => damaged_objects,
        (false, _) => damaged_file,
    };
    let summary = format!(
        "{verdict}: {} ({sealed} encrypted), revision {revision}, {bytes} bytes ({free_bytes} free)",
        count(*objects, "object")
    );
    let faults = faults.iter().map(|fault| format!("fault: {fault}"));
    let damaged = damaged
        .iter()
        .map(|(object, why)| format!("damaged: {object}: {why}"));
    let lines = faults
        .chain(damaged)
        .map(|line| printable(&line).to_string());
    lines.chain([summary])
}

/// Adds a new key to a key file, or creates the file, and returns what to do next: `first_use` for a new file.
///
/// # Errors
/// The file is no key file, or cannot be written.
pub fn add_key(file: &Path, first_use: &str) -> anyhow::Result<String> {
    let is_new = !file.exists();
    Seal::add_key(file)?;
    let file = file.display();
    Ok(match is_new {
        true => format!("created {file} with a key; {first_use}"),
        false => {
            format!("added a key to {file}; the next start encrypts all data with the new key")
        }
    })
}

async fn dump(
    database: &mut Inspection,
    secrets: bool,
    out: &mut impl Write,
) -> anyhow::Result<ExitCode> {
    let mut objects = std::pin::pin!(database.objects());
    loop {
        let line = match objects.try_next().await {
            Ok(Some(object)) => line(&object, secrets),
            Ok(None) => return Ok(ExitCode::SUCCESS),
            Err(StoreError::Damaged { key, source }) => json!({
                "resource": key.resource.as_str(), "namespace": key.namespace, "name": key.name,
                "damaged": source.to_string(),
            }),
            Err(error) => return Err(error.into()),
        };
        writeln!(out, "{line}")?;
    }
}

/// Returns an object as a line; of one that is no JSON only its key.
fn line(object: &Object, secrets: bool) -> Value {
    let key = &object.key;
    let mut value = object.value().unwrap_or_default();
    if !secrets && metamanager::confidential().contains(&key.resource) {
        mask(&mut value);
    }
    json!({
        "resource": key.resource.as_str(), "namespace": key.namespace, "name": key.name, "revision": object.revision,
        "object": value,
    })
}

/// Replaces the confidential values of a Secret or a stored token; their names stay.
fn mask(object: &mut Value) {
    for place in ["/data", "/stringData", "/metadata/annotations"] {
        // an annotation may hold the whole Secret as it was applied
        if let Some(map) = object.pointer_mut(place).and_then(Value::as_object_mut) {
            map.values_mut().for_each(|value| *value = MASK.into());
        }
    }
    if let Some(token) = object.pointer_mut("/token/status/token") {
        *token = MASK.into();
    }
}

#[cfg(test)]
mod tests;
