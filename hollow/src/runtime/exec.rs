//! Commands in running containers: `ExecSync` and streaming exec run the same command and differ in what is connected to it.

use std::{
    future::pending,
    sync::{Arc, Weak},
    time::Duration,
};

use bytes::Bytes;
use tokio::sync::mpsc;
use tonic::Status;
use wire::cri::ExecSyncResponse;

use super::{
    command::{self, Channels, Identity, Inside},
    core::Core,
    state::Running,
};

/// The most bytes of each output of `ExecSync`; the rest is cut off, as containerd does.
const MAX_OUTPUT: usize = 16 << 20;
/// How many pieces of output may wait for the reader.
const QUEUE_LENGTH: usize = 4;

/// Returns what a command that is run by an exec sees in a container.
pub(super) fn inside(core: &Core, id: &str, running: Running) -> Inside {
    let files = core
        .files
        .of(id, &running, |id| core.read(|state| state.is_running(id)));
    let Running {
        config,
        hostname,
        behaviour,
        ..
    } = running;
    let identity = Identity::of(&config);
    let variables = config
        .envs
        .into_iter()
        .map(|env| (env.key, env.value))
        .collect();
    Inside {
        variables,
        hostname,
        files,
        answers: behaviour.exec.clone(),
        identity,
        own: None,
    }
}

/// Runs a command without input, for at most `limit`.
pub(super) async fn run(
    core: &Arc<Core>,
    id: &str,
    words: &[String],
    limit: Option<Duration>,
) -> Result<ExecSyncResponse, Status> {
    if words.is_empty() {
        return Err(Status::invalid_argument("cmd must not be empty"));
    }
    let running = core.read(|state| state.running(id))?;
    let inside = inside(core, id, running);
    let (stdout, out) = mpsc::channel(QUEUE_LENGTH);
    let (stderr, err) = mpsc::channel(QUEUE_LENGTH);
    let command = command::execute(
        words,
        inside,
        Channels {
            stdin: None,
            stdout,
            stderr,
        },
        false,
    );
    let all = async { tokio::join!(command, collect(out), collect(err)) };
    let timeout = async {
        match limit {
            Some(limit) => tokio::time::sleep(limit).await,
            None => pending().await,
        }
    };
    clock::select! {
        (ended, stdout, stderr) = all => match ended {
            Ok(exit_code) => Ok(ExecSyncResponse { exit_code, stdout, stderr }),
            Err(error) => Err(Status::unknown(format!("failed to exec in container: failed to start exec: {error}"))),
        },
        () = timeout => Err(Status::deadline_exceeded(format!(
            "failed to exec in container: timeout {:?} exceeded", limit.unwrap_or_default()
        ))),
        () = wait_ended(Arc::downgrade(core), id) => Err(Status::unknown(format!("container {id:?} has ended"))),
    }
}

async fn collect(mut chunks: mpsc::Receiver<Bytes>) -> Bytes {
    let mut all = Vec::new();
    while let Some(chunk) = chunks.recv().await {
        let room = MAX_OUTPUT - all.len();
        all.extend_from_slice(&chunk[..chunk.len().min(room)]);
    }
    all.into()
}

/// Waits until a container does not run (any more), without keeping the runtime alive.
pub(super) async fn wait_ended(core: Weak<Core>, id: &str) {
    let Some(mut changes) = core.upgrade().map(|core| core.changes()) else {
        return;
    };
    loop {
        if !core
            .upgrade()
            .is_some_and(|core| core.read(|state| state.is_running(id)))
        {
            return;
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}
