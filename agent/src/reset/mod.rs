//! `edge-agent reset`: a machine stops being a node. It undoes `join`, or the manual setup of an agent.
//!
//! It stops the agent, stops the agent's pods, reports to the cloud, and then removes files: the configuration last,
//! so that an interrupted reset can be repeated. What the agent did not create stays, and is reported.

mod files;
mod sign_off;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead, Write},
    path::Path,
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, bail};
use futures::TryStreamExt;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use objectstore::{Inspection, LockError, Resource, StoreError, StoreLock};
use tokio::time::{Instant, sleep, timeout};

use edged::{EndProgress, RuntimeChannel};
use wire::text::count;

use crate::{
    app,
    cli::Reset,
    config::{self, Config, Host},
    edgemesh, environment,
    metamanager::remove_addresses,
    one_line, systemd,
    terminal::Terminal,
};

/// The process name of the agent.
const PROCESS_NAME: &str = "edge-agent";
/// The process name of KubeEdge's agent.
const EDGECORE: &str = "edgecore";
/// How long the container runtime may take to list pods.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);
/// How long an agent may take to end: it completes running starts of containers.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
/// How often it is checked whether the agent has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The longest answer to the question, bytes.
const MAX_ANSWER: u64 = 1024;

/// Resets the machine; asks on `input` unless forced, and reports on `out`. The exit code says whether everything was
/// removed.
///
/// # Errors
/// The answer was no, or something prevents the reset; the rest then stays.
pub(crate) fn run(
    reset: &Reset,
    input: &mut impl BufRead,
    out: &mut impl Write,
    terminal: Terminal,
) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(reset_machine(reset, input, out, terminal))
}

async fn reset_machine(
    reset: &Reset,
    input: &mut impl BufRead,
    out: &mut impl Write,
    terminal: Terminal,
) -> anyhow::Result<ExitCode> {
    let (path, root) = (reset.paths.config(), reset.paths.in_root(""));
    let config = configuration(reset, &path, out)?;
    if !is_here(&config, &path, &root) {
        writeln!(
            out,
            "Nothing to remove: neither {} nor {} exists.",
            path.display(),
            app::database(&config).display()
        )?;
        return Ok(ExitCode::SUCCESS);
    }
    check_permitted(reset, &config)?;
    let (is_purge, is_beside_kubelet) = (
        systemd::is_kept_program(),
        check_other_node(reset, &config)?,
    );
    writeln!(
        out,
        "This removes node {} from this machine: it stops the node's pods and deletes",
        config.node.name
    )?;
    for path in files::all(&config, &path, &root)
        .iter()
        .filter(|path| path.exists())
    {
        writeln!(out, "  {}", path.display())?;
    }
    confirm(reset, input, out)?;
    let stopping = || "Stopping the service".to_owned();
    if reset.paths.is_system_wide()
        && let Some(done) = terminal.wait(out, stopping, systemd::uninstall()).await?
    {
        writeln!(out, "The service {} was {done}.", systemd::UNIT_NAME)?;
    }
    let lock = stop_agent(&config, out).await?;
    // beside the machine's own agent, others may have pods in the same runtime
    let edgecore = environment::installed_edgecore(Path::new("/"));
    let edgecore = edgecore.filter(|_| reset.paths.is_system_wide());
    let is_alone = reset.paths.is_system_wide() && !is_beside_kubelet && edgecore.is_none();
    let own = match is_alone {
        true => None,
        false => Some(own_pods(&config, edgecore.as_deref(), out).await?),
    };
    let only = (own.as_ref(), edgecore.is_some());
    let left = pods(reset, &config, only, out, terminal).await?;
    writeln!(out, "Stopped pods: {}.", format_list(&left.pods))?;
    if !left.failed.is_empty() {
        report_failed(&left.failed, out)?;
        writeln!(
            out,
            "Configuration, certificate and database were not removed; run the same command again."
        )?;
        return Ok(ExitCode::FAILURE);
    }
    sign_off::run(&config, out, terminal).await?;
    writeln!(out, "Removing files …")?;
    let mut failed = addresses(&config);
    failed.extend(files::remove(&config, &path, &root));
    if let Some(lock) = lock
        && let Err(error) = lock.remove()
    {
        failed.push(format!("the lock of the database: {error}"));
    }
    files::remove_empty_folders(&config, &path, &root);
    if reset.paths.is_system_wide() && failed.is_empty() {
        failed.extend(systemd::remove_kept_files());
    }
    report_failed(&failed, out)?;
    for (title, items) in [
        ("Kept", files::remaining_items(&config, &path, &root)),
        ("Next steps", files::next_steps(&config, is_purge)),
    ] {
        writeln!(out, "{title}:")?;
        for item in items {
            writeln!(out, "  {item}")?;
        }
    }
    Ok(if failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Removes the addresses of Services that a killed agent has left, and those of DNS and MetaServer for pods; returns the
/// failures.
fn addresses(config: &Config) -> Vec<String> {
    let mut failed = Vec::new();
    let mut own = Vec::new();
    // another agent on this machine may have added them
    if app::mesh_record(config).exists() && !edgemesh::is_running() {
        failed.extend(edgemesh::remove_addresses().err().map(|error| {
            format!(
                "the routes to addresses of Services: {error}; ip route flush table local proto 77"
            )
        }));
    }
    own.extend(config.edge_mesh.iter().map(|mesh| mesh.dns.address.ip()));
    let meta_server = config
        .meta_manager
        .meta_server
        .iter()
        .filter(|_| config.require_authorization);
    own.extend(meta_server.map(|server| server.dummy_server.ip()));
    if !own.is_empty() {
        failed.extend(
            remove_addresses(&own)
                .err()
                .map(|error| format!("{:#}", anyhow::Error::new(error))),
        );
    }
    failed
}

fn report_failed(failed: &[String], out: &mut impl Write) -> std::io::Result<()> {
    failed
        .iter()
        .try_for_each(|what| writeln!(out, "failed to remove {what}"))
}

fn format_list(pods: &BTreeSet<String>) -> String {
    if pods.is_empty() {
        "none".to_owned()
    } else {
        pods.iter().cloned().collect::<Vec<_>>().join(", ")
    }
}

/// Returns the configuration, or the default one if it is missing or unreadable.
fn configuration(reset: &Reset, path: &Path, out: &mut impl Write) -> anyhow::Result<Config> {
    match config::load_paths(path) {
        Ok(config) => return Ok(config),
        Err(error) if path.exists() => {
            writeln!(out, "{}", one_line(error))?;
            writeln!(out, "Using the default paths instead.")?;
        }
        Err(_) => {}
    }
    let host = Host::detect();
    let text = config::relocate(&config::minimal_config(&host), |usual| {
        reset.paths.in_root(usual)
    })?;
    Ok(config::parse(path, &text, None, &host).map_err(one_line)?.0)
}

/// Reports whether any file of an agent exists.
fn is_here(config: &Config, path: &Path, root: &Path) -> bool {
    files::all(config, path, root)
        .iter()
        .any(|path| path.exists())
}

/// Checks that this machine has an agent, and that this program may remove it.
fn check_permitted(reset: &Reset, config: &Config) -> anyhow::Result<()> {
    if config.database.exists() && !app::database(config).exists() {
        bail!(
            "{} exists, but edge-agent has no database here: the node belongs to EdgeCore; remove it with `keadm reset edge`",
            config.database.display()
        );
    }
    if reset.paths.is_system_wide() && !nix::unistd::geteuid().is_root() {
        bail!("not running as root; run the same command with sudo");
    }
    Ok(())
}

/// Checks that no other program runs a node on this machine: the reset would stop its pods. Reports whether a kubelet may run beside
/// the agent, so that only this node's pods are stopped.
fn check_other_node(reset: &Reset, config: &Config) -> anyhow::Result<bool> {
    if !reset.paths.is_system_wide() {
        return Ok(false);
    }
    let running = environment::processes(Path::new("/proc"), &[EDGECORE, environment::KUBELET]);
    let is_kubelet_allowed = environment::is_check_disabled(|name| std::env::var(name).ok())
        || config.meta_manager.meta_server.is_some();
    refuse_other_node(&running, is_kubelet_allowed)
}

fn refuse_other_node(running: &[(String, u32)], is_kubelet_allowed: bool) -> anyhow::Result<bool> {
    if let Some((_, process)) = running.iter().find(|(name, _)| name == EDGECORE) {
        bail!(
            "edgecore is running (process {process}): this node belongs to EdgeCore, and its pods and configuration would be \
             deleted; remove it with `keadm reset edge`, or stop edgecore first; nothing was changed"
        );
    }
    let Some((_, process)) = running
        .iter()
        .find(|(name, _)| name == environment::KUBELET)
    else {
        return Ok(false);
    };
    if !is_kubelet_allowed {
        bail!(
            "a kubelet is running (process {process}), and its pods would be deleted; stop the kubelet first, or set \
             CHECK_EDGECORE_ENVIRONMENT=false to delete only the pods of this node; nothing was changed"
        );
    }
    Ok(true)
}

fn confirm(reset: &Reset, input: &mut impl BufRead, out: &mut impl Write) -> anyhow::Result<()> {
    if reset.force {
        return Ok(());
    }
    write!(out, "Are you sure? [y/N]: ")?;
    out.flush()?;
    let mut answer = String::new();
    std::io::Read::take(&mut *input, MAX_ANSWER).read_line(&mut answer)?;
    if !matches!(answer.trim(), "y" | "Y" | "yes") {
        bail!("nothing was changed; answer y, or use --force in scripts");
    }
    Ok(())
}

/// Ends an agent that uses the database, and locks the database. `None` if there is no database.
async fn stop_agent(config: &Config, out: &mut impl Write) -> anyhow::Result<Option<StoreLock>> {
    let database = app::database(config);
    if database.parent().is_none_or(|folder| !folder.is_dir()) {
        return Ok(None);
    }
    let (end, mut asked) = (Instant::now() + STOP_TIMEOUT, false);
    loop {
        match StoreLock::take(&database) {
            Ok(lock) => return Ok(Some(lock)),
            Err(LockError::Held {
                holder: Some(pid), ..
            }) if is_reset(pid) => {
                bail!(
                    "another `edge-agent reset` is running, process {pid}; wait until it has ended"
                );
            }
            Err(LockError::Held {
                holder: Some(pid), ..
            }) if Instant::now() < end && is_agent(pid) => {
                if !asked {
                    writeln!(
                        out,
                        "Stopping the agent, process {pid} (up to {} s) …",
                        STOP_TIMEOUT.as_secs()
                    )?;
                    out.flush()?;
                    let pid = i32::try_from(pid).context("the agent has no process id")?;
                    for signal in [Signal::SIGTERM, Signal::SIGCONT] {
                        // a stopped process (SIGSTOP) handles signals only when it continues
                        kill(Pid::from_raw(pid), signal)
                            .context("cannot stop the running agent")?;
                    }
                    asked = true;
                }
                sleep(POLL_INTERVAL).await;
            }
            // it is ending just now, and has not released everything
            Err(LockError::Held { .. }) if asked && Instant::now() < end => {
                sleep(POLL_INTERVAL).await
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Reports whether a process of this program is a reset, which must not be interrupted.
fn is_reset(pid: u32) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    is_agent(pid) && is_reset_line(&line)
}

/// Reports whether a command line, as in `/proc`, is that of a reset.
fn is_reset_line(line: &[u8]) -> bool {
    line.split(|byte| *byte == 0)
        .skip(1)
        .any(|word| word == b"reset")
}

fn is_agent(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/comm"))
        .is_ok_and(|name| name.trim_end() == PROCESS_NAME)
}

/// Returns the uids of this node's pods: those in its database, and those with files on disk. An installed EdgeCore may have files of
/// pods in the same directories, so only the database counts then.
async fn own_pods(
    config: &Config,
    edgecore: Option<&Path>,
    out: &mut impl Write,
) -> anyhow::Result<BTreeSet<String>> {
    let mut own = match edgecore {
        None => edged::pods_on_disk(&config.edged.root_dir, &config.edged.pod_logs_dir),
        Some(file) => {
            writeln!(
                out,
                "EdgeCore is installed ({}): only pods in the database of edge-agent are stopped.",
                file.display()
            )?;
            BTreeSet::new()
        }
    };
    let database = app::database(config);
    if database.exists() {
        match stored_pods(config, &database).await {
            Ok(stored) => own.extend(stored),
            Err(error) => writeln!(
                out,
                "Cannot read the database ({error:#}); stopping only pods with files on disk."
            )?,
        }
    }
    Ok(own)
}

async fn stored_pods(config: &Config, database: &Path) -> anyhow::Result<BTreeSet<String>> {
    let mut inspection = Inspection::open(database, app::seal(config)?).await?;
    let (pods, mut found) = (Resource::new("", "pods"), BTreeSet::new());
    let mut objects = std::pin::pin!(inspection.objects());
    loop {
        let object = match objects.try_next().await {
            Ok(Some(object)) => object,
            Ok(None) => break,
            // pods on the machine are found without it
            Err(StoreError::Damaged { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        if object.key.resource == pods
            && let Some(uid) = object.value()?["metadata"]["uid"].as_str()
        {
            found.insert(uid.to_owned());
        }
    }
    Ok(found)
}

/// Returns the line that reports how far the end of pods has come.
fn describe_progress(progress: EndProgress) -> Option<String> {
    let (pods, grace) = match progress {
        EndProgress::Begun { pods: 0, .. } => return None,
        EndProgress::Begun { pods, grace } => (count(pods, "pod"), grace),
        EndProgress::Removing { removed, of } => {
            return Some(format!("  {removed} of {} removed", count(of, "pod")));
        }
        EndProgress::Waiting { stopped, of } => {
            return Some(format!("  {stopped} of {} stopped", count(of, "container")));
        }
    };
    Some(match grace.as_secs() {
        0 => format!("Killing {pods} …"),
        seconds => format!("Stopping {pods} (up to {seconds} s) …"),
    })
}

/// Ends the pods, all or these, and removes their files; beside EdgeCore, no others.
async fn pods(
    reset: &Reset,
    config: &Config,
    (only, is_beside_edgecore): (Option<&BTreeSet<String>>, bool),
    out: &mut impl Write,
    terminal: Terminal,
) -> anyhow::Result<edged::RemovedPods> {
    let channel = app::connect(&config.edged.runtime_endpoint)?;
    let ended = if reset.without_runtime {
        writeln!(out, "Containers were not stopped (--without-runtime).")?;
        BTreeMap::new()
    } else {
        let longest = if reset.now {
            Duration::ZERO
        } else {
            Duration::MAX
        };
        let ended = end_pods(config, channel.clone(), only, longest, out, terminal).await;
        ended.context(
            "failed to stop pods; start the container runtime and run reset again, or add --without-runtime",
        )?
    };
    let (root, logs) = (
        config.edged.root_dir.clone(),
        config.edged.pod_logs_dir.clone(),
    );
    let groups = config.edged.groups.clone();
    let only = only.cloned().filter(|_| is_beside_edgecore);
    let clearing = componentbase::spawn_blocking(move || {
        edged::remove_pod_files(&root, &logs, groups, channel, (ended, only))
    });
    let removing = || "Removing files of pods".to_owned();
    let cleared = terminal.wait(out, removing, clearing).await;
    cleared.context("failed to remove files of pods")
}

/// Stops and removes pods in the runtime; returns their names by uid.
async fn end_pods(
    config: &Config,
    channel: RuntimeChannel,
    only: Option<&BTreeSet<String>>,
    longest: Duration,
    out: &mut impl Write,
    terminal: Terminal,
) -> anyhow::Result<BTreeMap<String, String>> {
    let endpoint = &config.edged.runtime_endpoint;
    let waiting = || format!("Waiting for the container runtime at {endpoint}");
    let finding = timeout(LIST_TIMEOUT, edged::find_pods(channel, only));
    let found = terminal.wait(out, waiting, finding).await;
    let Ok(found) = found else {
        let seconds = LIST_TIMEOUT.as_secs();
        bail!("the container runtime at {endpoint} did not answer within {seconds} s");
    };
    let (mut written, mut last) = (Ok(()), None);
    let report = |progress: EndProgress| {
        let line = describe_progress(progress);
        // nothing has changed since the last report
        if line == last {
            return;
        }
        if let Some(line) = &line {
            written = writeln!(out, "{line}").and_then(|()| out.flush());
        }
        last = line;
    };
    let ended = edged::end_pods(found?, longest, report).await;
    written?;
    Ok(ended?)
}

#[cfg(test)]
mod tests;
