//! The own commands of containers that are run and not planned: their input, their log, and their end, which ends the container.

use std::{
    path::PathBuf,
    sync::{Arc, Weak},
};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::{
    attached::Source,
    command::{self, Channels, Inside},
    core::Core,
    exec, files,
    state::RuntimeState,
};

/// The longest line of a log record; the rest goes into the next record.
const MAX_LINE: usize = 16 * 1024;

/// Starts again the commands of the containers of a restored runtime: what they had done is forgotten.
pub(super) fn start_all(core: &Arc<Core>) {
    for id in core.read(RuntimeState::running_ids) {
        start(core, &id);
    }
}

/// Runs the command of a container that is not planned, unless it runs already. The container ends with it.
pub(super) fn start(core: &Arc<Core>, id: &str) {
    let Ok(running) = core.read(|state| state.running(id)) else {
        return;
    };
    let Some(live) = running.behaviour.live else {
        return;
    };
    let (input, typed) = mpsc::channel(1);
    let has_input = running.config.stdin || running.config.tty;
    if !core.attached.add_program(id, has_input.then_some(input)) {
        return;
    }
    let words = command::words(&running.config);
    let (tty, log) = (running.config.tty, running.log_path.clone());
    let inside = Inside {
        own: Some(live),
        ..exec::inside(core, id, running)
    };
    let (stdout, out) = mpsc::channel(1);
    let (stderr, err) = mpsc::channel(1);
    let channels = Channels {
        stdin: Some(typed),
        stdout,
        stderr,
    };
    let (core, id) = (Arc::downgrade(core), id.to_owned());
    tokio::spawn(async move {
        let program = command::execute(&words, inside, channels, tty);
        let outputs = (
            record(&core, &id, Source::Stdout, out, log.clone()),
            record(&core, &id, Source::Stderr, err, log),
        );
        let all = async { tokio::join!(program, outputs.0, outputs.1).0 };
        clock::select! {
            outcome = all => if let Some(core) = core.upgrade() {
                let code = outcome.unwrap_or(127);
                core.change(|state, now| state.crash(&id, code, now));
            },
            () = exec::wait_ended(core.clone(), &id) => {}
        }
        if let Some(core) = core.upgrade() {
            core.attached.remove(&id);
        }
    });
}

/// Writes output into the log and sends it to the attached clients.
async fn record(
    core: &Weak<Core>,
    id: &str,
    source: Source,
    mut output: mpsc::Receiver<Bytes>,
    log: Option<PathBuf>,
) {
    let mut line = Vec::new();
    while let Some(bytes) = output.recv().await {
        let Some(core) = core.upgrade() else { return };
        core.attached.notify(id, source, &bytes).await;
        line.extend_from_slice(&bytes);
        line = write_lines(log.clone(), source, line, false).await;
    }
    write_lines(log, source, line, true).await;
}

/// Writes the complete lines; with `all`, the rest too. Returns what is left of the last line.
async fn write_lines(log: Option<PathBuf>, source: Source, text: Vec<u8>, all: bool) -> Vec<u8> {
    let written = clock::spawn_blocking(move || {
        let Some(log) = log else { return Vec::new() };
        let stream = if source == Source::Stdout {
            "stdout"
        } else {
            "stderr"
        };
        let mut rest = text.as_slice();
        loop {
            let end = rest.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
            let end = match end {
                Some(end) => end.min(MAX_LINE),
                None if rest.len() >= MAX_LINE => MAX_LINE,
                None if all && !rest.is_empty() => rest.len(),
                None => return rest.to_vec(),
            };
            let (line, more) = rest.split_at(end);
            let line = line
                .strip_suffix(b"\r\n")
                .map(|line| [line, b"\n"].concat())
                .unwrap_or_else(|| line.to_vec());
            if let Err(error) = files::log_line(&log, stream, &line, clock::now()) {
                tracing::warn!(path = %log.display(), %error, "cannot write a simulated container's log");
            }
            rest = more;
        }
    });
    written.await.unwrap_or_default()
}
