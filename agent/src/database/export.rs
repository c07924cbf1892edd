//! `edge-agent db export`: writes EdgeCore's database as it would be if EdgeCore had run instead of this agent.

use std::{
    fs, io,
    io::Write,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use anyhow::{Context, bail};
use futures::TryStreamExt;
use objectstore::{Inspection, Object, SqliteOptions, SqliteStore, Store};

use crate::{
    app, config, devicetwin,
    metamanager::{self, ExportSummary},
};

/// The most names that are listed of each kind that is not exported.
const MAX_NAMED: usize = 8;

pub(super) async fn run(
    path: &Path,
    output: Option<&Path>,
    overwrite: bool,
    out: &mut impl Write,
) -> anyhow::Result<ExitCode> {
    let config = config::load_paths(path)?;
    let (store, seal) = (app::database(&config), app::seal(&config)?);
    let target = output.unwrap_or(&config.database);
    refuse(&store, target, overwrite)?;
    let _lock = app::lock(&config)?;
    let objects = read(&store, seal.clone()).await?;
    let exported =
        metamanager::export(&objects, &config.node.name, devicetwin::device_rows, target).await?;
    if target == config.database {
        note(
            &store,
            SqliteOptions {
                seal,
                ..SqliteOptions::default()
            },
            target,
        )
        .await
        .with_context(|| {
            format!(
                "{} is written, but this could not be recorded in {}",
                target.display(),
                store.display()
            )
        })?;
    }
    report(&exported, target, out)?;
    Ok(ExitCode::SUCCESS)
}

/// Refuses to write while another process uses either file, or over a file without `--overwrite`.
fn refuse(store: &Path, target: &Path, overwrite: bool) -> anyhow::Result<()> {
    if !store
        .try_exists()
        .with_context(|| format!("cannot read the agent's database {}", store.display()))?
    {
        bail!(
            "{} does not exist: the agent has not run on this node",
            store.display()
        );
    }
    if let Some(pid) = holder(store)? {
        bail!(
            "process {pid} has {} open; stop the agent first",
            store.display()
        );
    }
    if same_file(store, target) {
        bail!(
            "{} is the agent's own database; name another file",
            target.display()
        );
    }
    if !target
        .try_exists()
        .with_context(|| format!("cannot read EdgeCore's database {}", target.display()))?
    {
        return Ok(());
    }
    if let Some(pid) = holder(target)? {
        bail!(
            "process {pid} has {} open; stop EdgeCore first",
            target.display()
        );
    }
    if !overwrite {
        bail!("{} exists; --overwrite replaces it", target.display());
    }
    Ok(())
}

fn same_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    identity(one).is_some_and(|one| identity(other) == Some(one))
}

/// Returns a process that has the file open. Processes of other users are only visible to root.
fn holder(path: &Path) -> anyhow::Result<Option<u32>> {
    let failed = || format!("cannot read {}", path.display());
    let file = fs::metadata(path).with_context(failed)?;
    let is_it = |descriptor: PathBuf| {
        fs::metadata(descriptor)
            .is_ok_and(|open| (open.dev(), open.ino()) == (file.dev(), file.ino()))
    };
    let numbers = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    let processes = fs::read_dir("/proc")
        .context("cannot read /proc, so cannot check whether a process has the file open")?;
    for pid in processes
        .filter_map(numbers)
        .filter(|pid: &u32| *pid != std::process::id())
    {
        // the process has ended, or belongs to another user
        let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else {
            continue;
        };
        if descriptors.flatten().any(|entry| is_it(entry.path())) {
            return Ok(Some(pid));
        }
    }
    Ok(None)
}

async fn read(store: &Path, seal: Option<objectstore::Seal>) -> anyhow::Result<Vec<Object>> {
    let mut inspection = Inspection::open(store, seal).await?;
    let health = inspection.check().await?;
    if let Some(fault) = health.faults.first() {
        bail!(
            "{} is damaged ({fault}); start the agent while the cloud is reachable, so that it gets the objects again, then repeat the export",
            store.display()
        );
    }
    if let Some((object, why)) = health.damaged.first() {
        bail!(
            "{object} in {} is damaged ({why}); start the agent with the cloud connected first",
            store.display()
        );
    }
    let objects = inspection.objects().try_collect().await;
    inspection.close().await;
    Ok(objects?)
}

/// Records the export in the store: a later change of EdgeCore's database means that EdgeCore has run.
async fn note(store: &Path, options: SqliteOptions, target: &Path) -> anyhow::Result<()> {
    let store: Arc<dyn Store> = SqliteStore::open_with(store, options).await?;
    Ok(metamanager::note_exported(&store, target).await?)
}

fn report(exported: &ExportSummary, target: &Path, out: &mut impl Write) -> io::Result<()> {
    let written: Vec<String> = exported
        .written
        .iter()
        .map(|(table, count)| format!("{table} {count}"))
        .collect();
    writeln!(out, "{}: rows of {}", target.display(), written.join(", "))?;
    for (what, names) in &exported.skipped {
        let more = names.len().saturating_sub(MAX_NAMED);
        let named: Vec<&str> = names.iter().take(MAX_NAMED).map(String::as_str).collect();
        let more = if more == 0 {
            String::new()
        } else {
            format!(" and {more} more")
        };
        writeln!(out, "not exported: {what}: {}{more}", named.join(", "))?;
    }
    Ok(())
}
