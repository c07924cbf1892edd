//! `edge-agent db`: the database of a node, for the people who run it.

use std::{
    fs,
    io::{self, ErrorKind, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context;
use futures::TryStreamExt;
use kubeapi::store::{Health, Inspection, Object, Seal};
use serde_json::{Value, json};

use crate::{
    app,
    cli::{Db, DbFile, Output},
    config, metamanager,
};

mod export;

/// What stands where something confidential would.
const MASK: &str = "***";
/// A key file with more is none.
const MAX_KEYS: u64 = 64 * 1024;

/// Does it; what it finds goes to `out`.
///
/// # Errors
/// The configuration, the key file or the database cannot be read.
pub(crate) fn run(command: &Db, out: &mut impl Write) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(async {
        match command {
            Db::Check { file, output } => check(&mut open(file).await?, *output, out).await,
            Db::Dump { file, show_secrets } => dump(&mut open(file).await?, *show_secrets, out).await,
            Db::Export { config, output, overwrite } => {
                export::run(config, output.as_deref(), *overwrite, out).await
            }
            Db::NewKey { file } => new_key(file).map(|()| ExitCode::SUCCESS),
        }
    });
    match done {
        // whoever reads has gone
        Err(error) if is_closed_pipe(&error) => Ok(ExitCode::SUCCESS),
        done => done,
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(|error: &io::Error| error.kind() == ErrorKind::BrokenPipe)
}

async fn open(file: &DbFile) -> anyhow::Result<Inspection> {
    let config = config::load(&file.config);
    let (path, seal) = match (&file.database, config) {
        (Some(path), Ok((config, _))) => (path.clone(), app::seal(&config)?),
        // a file from another machine is read without its configuration
        (Some(path), Err(_)) => (path.clone(), None),
        (None, config) => {
            let (config, _) = config?;
            (app::database(&config), app::seal(&config)?)
        }
    };
    Ok(Inspection::open(&path, seal).await?)
}

async fn check(
    database: &mut Inspection,
    output: Option<Output>,
    out: &mut impl Write,
) -> anyhow::Result<ExitCode> {
    let health = database.check().await?;
    let code = if health.faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    if let Some(output) = output {
        let Health { faults, objects, sealed, revision, bytes, free_bytes } = &health;
        let told = json!({
            "whole": faults.is_empty(), "faults": faults, "objects": objects, "encrypted": sealed, "revision": revision,
            "bytes": bytes, "freeBytes": free_bytes,
        });
        out.write_all(output.document(&told)?.as_bytes())?;
        return Ok(code);
    }
    for fault in &health.faults {
        writeln!(out, "fault: {fault}")?;
    }
    writeln!(out, "{}", summary(&health))?;
    Ok(code)
}

fn summary(health: &Health) -> String {
    let Health { faults, objects, sealed, revision, bytes, free_bytes } = health;
    let verdict =
        if faults.is_empty() { "whole" } else { "damaged: the agent sets it aside and begins anew" };
    format!(
        "{verdict}; {objects} objects, {sealed} of them encrypted, revision {revision}; {bytes} bytes, {free_bytes} of them free"
    )
}

async fn dump(database: &mut Inspection, secrets: bool, out: &mut impl Write) -> anyhow::Result<ExitCode> {
    let mut objects = std::pin::pin!(database.objects());
    while let Some(object) = objects.try_next().await? {
        writeln!(out, "{}", line(&object, secrets))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// An object as a line; one that is no JSON shows no more than where it stands.
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

/// Hides what is confidential in a Secret or a kept token; its names stay.
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

/// The keys that are there stay below the new one. Either the old file or the new one is there, whatever happens.
fn new_key(path: &Path) -> anyhow::Result<()> {
    let old = match fs::File::open(path) {
        Ok(file) => io::read_to_string(io::Read::take(file, MAX_KEYS)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error),
    };
    let old = old.with_context(|| format!("{} cannot be read", path.display()))?;
    if !old.is_empty() {
        // what is no key file is not made one
        Seal::from_file(path, Vec::new())?;
    }
    let text = format!("{}\n{old}", Seal::new_key()?);
    replace(path, &text).with_context(|| format!("{} cannot be written", path.display()))
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    match fs::remove_file(&new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    // a path without a folder is in the working directory
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests;
