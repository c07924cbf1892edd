//! Commands in running containers: ExecSync and streaming exec are the same command with other ends.

use std::{
    collections::BTreeMap,
    future::pending,
    path::Path,
    sync::{Arc, Weak},
    time::Duration,
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tonic::Status;
use wire::cri::{ContainerConfig, ExecSyncResponse, Mount};

use super::{
    command::{self, Channels, Inside},
    core::Core,
    files::{Files, Shared},
    state::Running,
};

/// Bytes of each output of ExecSync; more is cut off, as containerd does.
const MAX_OUTPUT: usize = 16 << 20;
/// The annotation of a container with the place of the file for its last words, as the kubelet gives it.
const LAST_WORDS: &str = "io.kubernetes.container.terminationMessagePath";
/// The label of a container with the uid of its pod, as the kubelet gives it.
const POD_UID: &str = "io.kubernetes.pod.uid";
/// Pieces of output that wait for whoever takes them.
const QUEUE_LENGTH: usize = 4;

/// The files of the containers in which commands have run.
#[derive(Default)]
pub(super) struct AllFiles {
    /// By the container's id.
    all: Mutex<BTreeMap<String, Arc<Files>>>,
    shared: Shared,
}

impl AllFiles {
    /// Those of one container; those of containers that have ended are forgotten.
    fn of(&self, core: &Core, id: &str, running: &Running) -> Arc<Files> {
        let mut all = self.all.lock();
        if let Some(files) = all.get(id) {
            return Arc::clone(files);
        }
        core.read(|state| all.retain(|id, _| state.is_running(id)));
        self.shared.clean();
        let Running { config, hostname, .. } = running;
        let last_words = last_words(config);
        let files = Files::new(config.mounts.clone(), hostname.clone(), last_words, &self.shared);
        let files = Arc::new(files);
        all.insert(id.to_owned(), Arc::clone(&files));
        files
    }
}

/// The place of the file for the container's last words, where what is mounted there is the one that the node has made for it
/// (`…/UID/containers/NAME/FILE`, as a kubelet's) and none of the pod's own choice.
fn last_words(config: &ContainerConfig) -> String {
    let place = config.annotations.get(LAST_WORDS).map(String::as_str).unwrap_or_default();
    let uid = config.labels.get(POD_UID).map(String::as_str).unwrap_or_default();
    let name = config.metadata.as_ref().map(|metadata| metadata.name.as_str()).unwrap_or_default();
    let is_the_nodes = |mount: &Mount| {
        let above = Path::new(&mount.host_path).parent();
        !uid.is_empty()
            && above.is_some_and(|above| above.ends_with(Path::new(uid).join("containers").join(name)))
    };
    let mut there = config.mounts.iter().filter(|mount| mount.container_path == place);
    if there.next().is_some_and(is_the_nodes) && there.all(is_the_nodes) {
        place.to_owned()
    } else {
        String::new()
    }
}

/// What a command sees in a container: one that is run in it by an exec.
pub(super) fn inside(core: &Core, id: &str, running: Running) -> Inside {
    let files = core.files.of(core, id, &running);
    let Running { config, hostname, behaviour, .. } = running;
    let security = config.linux.and_then(|linux| linux.security_context);
    let user = security.and_then(|security| security.run_as_user).map_or(0, |user| user.value);
    let variables = config.envs.into_iter().map(|env| (env.key, env.value)).collect();
    Inside { variables, hostname, files, answers: behaviour.exec.clone(), user, own: None }
}

/// Runs a command, without input, for no longer than `limit`.
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
    let command = command::execute(words, inside, Channels { stdin: None, stdout, stderr }, false);
    let all = async { tokio::join!(command, collect(out), collect(err)) };
    let timeout = async {
        match limit {
            Some(limit) => tokio::time::sleep(limit).await,
            None => pending().await,
        }
    };
    tokio::select! {
        (ended, stdout, stderr) = all => match ended {
            Ok(exit_code) => Ok(ExecSyncResponse { exit_code, stdout, stderr }),
            Err(error) => Err(Status::unknown(format!("failed to exec in container: failed to start exec: {error}"))),
        },
        () = timeout => Err(Status::deadline_exceeded(format!(
            "failed to exec in container: timeout {:?} exceeded", limit.unwrap_or_default()
        ))),
        () = ended(Arc::downgrade(core), id) => Err(Status::unknown(format!("container {id:?} has ended"))),
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
pub(super) async fn ended(core: Weak<Core>, id: &str) {
    let Some(mut changes) = core.upgrade().map(|core| core.changes()) else { return };
    loop {
        if !core.upgrade().is_some_and(|core| core.read(|state| state.is_running(id))) {
            return;
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}
