//! `cloudsim up --detach`: starts the cloud as a process of its own, and returns when it is ready.
//!
//! The other process is this program with the same arguments, in a session of its own. Its stdout is a pipe until it is ready, its stderr
//! a log file.

use std::{
    ffi::OsString,
    fs::{File, OpenOptions},
    io::{Read, Seek, SeekFrom, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::{ExitCode, Stdio},
    time::Duration,
};

use anyhow::{Context, anyhow, bail};
use limits::open_regular_file;
use nix::unistd::{dup2_stdout, setsid};
use tokio::{
    io::AsyncReadExt,
    process::{Child, Command},
    time::timeout,
};
use wire::text::printable_lines;

use super::{Signals, output, process::Process, running::Records, screen::Screen};
use crate::cli::Up;

/// The file of the log in the data directory.
const LOG: &str = "cloudsim.log";
/// The largest text that the cloud prints before it is ready, in bytes.
const MAX_SCREEN_BYTES: u64 = 256 * 1024;
/// How much of the end of the log explains a failure, in bytes.
const CAUSE_BYTES: u64 = 8 * 1024;
/// How long a cloud may take to be ready, and how much more for each node.
const READY_TIMEOUT: Duration = Duration::from_secs(600);
const READY_TIMEOUT_PER_NODE: Duration = Duration::from_secs(1);
/// How long the process may take to end after it has closed its stdout.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// Starts the cloud with this number of nodes, and shows what it prints until it is ready.
pub(super) async fn run(up: &Up, nodes: usize, records: &Records) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::listen()?;
    // Nothing else could find the cloud and stop it.
    records.directory()?;
    let (path, log) = create_log(up, records)?;
    let earlier = log.metadata()?.len();
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let (name, value) = Screen::of_stdout().variable();
    let mut command = Command::new(program);
    command
        .args(arguments(std::env::args_os().skip(1), &path))
        .env(name, value)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log);
    let mut child = command.spawn().context("cannot start the cloud")?;
    let limit = READY_TIMEOUT + READY_TIMEOUT_PER_NODE * u32::try_from(nodes).unwrap_or(u32::MAX);
    let failed = clock::select! {
        // cancel-safe: the process is stopped then.
        shown = timeout(limit, show(&mut child)) => match shown {
            Ok(()) => None,
            Err(_) => Some(anyhow!("the cloud was not ready within {limit:?}; its log is {}", path.display())),
        },
        () = signals.wait() => Some(anyhow!("stopped by a signal before the cloud was ready")),
    };
    let process = child.id().and_then(|pid| Process::of(pid).ok());
    if let Some(failed) = failed {
        if let Some(process) = process {
            process.stop().await?;
        }
        return Err(failed);
    }
    let is_ready = records
        .list()?
        .iter()
        .any(|cloud| Some(&cloud.process) == process.as_ref() && !cloud.is_starting);
    if is_ready {
        copy_warnings(&path, earlier)?;
        return Ok(ExitCode::SUCCESS);
    }
    let ended = timeout(END_TIMEOUT, child.wait()).await;
    let ended = ended.context("the cloud closed its output and continues to run")??;
    let cause = cause(&path, earlier)?;
    if ended.success() {
        bail!("the cloud was stopped before it was ready");
    }
    let _ = std::io::stderr().lock().write_all(cause.as_bytes());
    Ok(ExitCode::FAILURE)
}

/// Returns the arguments of the other process.
fn arguments(own: impl Iterator<Item = OsString>, log: &Path) -> Vec<OsString> {
    let kept = own.filter(|argument| argument != "--detach" && argument != "-d");
    kept.chain(["--detached".into(), log.into()]).collect()
}

/// Creates the log, which only its owner can read.
fn create_log(up: &Up, records: &Records) -> anyhow::Result<(PathBuf, File)> {
    let path = match &up.data_dir {
        Some(directory) => {
            std::fs::create_dir_all(directory).with_context(|| {
                format!(
                    "cannot create {}; choose another directory with --data-dir",
                    directory.display()
                )
            })?;
            std::path::absolute(directory)?.join(LOG)
        }
        None => records
            .directory()?
            .join(format!("{}.log", std::process::id())),
    };
    let mut options = OpenOptions::new();
    options.create(true).append(true).mode(0o600);
    let file = open_regular_file(&path, &options).with_context(|| {
        format!(
            "cannot write the log {}; remove it, or choose another directory",
            path.display()
        )
    })?;
    Ok((path, file))
}

/// Copies what the process prints to stdout, until it closes its own.
async fn show(child: &mut Child) {
    let Some(out) = child.stdout.take() else {
        return;
    };
    let (mut out, mut part) = (out.take(MAX_SCREEN_BYTES), [0; 4096]);
    while let Ok(count @ 1..) = out.read(&mut part).await {
        // A stdout that cannot be written does not end the cloud.
        output::put_bytes(part.get(..count).unwrap_or_default());
    }
}

/// Copies what the cloud wrote to its log until it was ready to stderr, as without `--detach`.
fn copy_warnings(path: &Path, earlier: u64) -> anyhow::Result<()> {
    let mut file = open_regular_file(path, OpenOptions::new().read(true))?;
    file.seek(SeekFrom::Start(earlier))?;
    let mut bytes = Vec::new();
    file.take(MAX_SCREEN_BYTES).read_to_end(&mut bytes)?;
    let text = printable_lines(&String::from_utf8_lossy(&bytes));
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
    Ok(())
}

/// Returns the end of the log, without what `earlier` clouds wrote. A log in the directory of the records is removed: nobody would find it.
fn cause(path: &Path, earlier: u64) -> anyhow::Result<String> {
    let mut file = open_regular_file(path, OpenOptions::new().read(true))?;
    let end = file.metadata()?.len().saturating_sub(CAUSE_BYTES);
    file.seek(SeekFrom::Start(end.max(earlier)))?;
    let mut bytes = Vec::new();
    file.take(CAUSE_BYTES).read_to_end(&mut bytes)?;
    if path.file_name().is_some_and(|name| name != LOG) {
        let _ = std::fs::remove_file(path);
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Leaves the session of the terminal: called by the other process, before anything else.
pub(super) fn leave_terminal() {
    // It fails only for the leader of a group, which is in a session of its own then or was started by hand.
    let _ = setsid();
}

/// Closes the pipe to the first process, which returns then.
pub(super) fn report_ready() -> anyhow::Result<()> {
    std::io::stdout().flush()?;
    let null = File::options().write(true).open("/dev/null")?;
    dup2_stdout(null).context("cannot close stdout")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cause_is_the_end_of_the_log_without_earlier_clouds() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(LOG);
        std::fs::write(&path, "old\nnew\n").unwrap();
        assert_eq!(cause(&path, 4).unwrap(), "new\n");
        assert!(path.exists());
        let path = directory.path().join("1.log");
        std::fs::write(&path, "x".repeat(10_000)).unwrap();
        assert_eq!(cause(&path, 0).unwrap().len(), 8 * 1024);
        assert!(!path.exists());
    }

    #[test]
    fn other_process_gets_the_same_arguments_but_does_not_detach() {
        for own in [
            &["up", "--detach", "--nodes", "3"][..],
            &["up", "-d", "--nodes", "3"],
        ] {
            let given = arguments(own.iter().map(OsString::from), Path::new("/log"));
            assert_eq!(given, ["up", "--nodes", "3", "--detached", "/log"]);
        }
    }
}
