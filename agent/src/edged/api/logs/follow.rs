//! Waiting for more of a log.

use std::{
    io::{self, ErrorKind},
    path::Path,
    time::Duration,
};

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use tokio::{net::unix::pipe, time::timeout};

/// How long a change is waited for: then the file and its container are looked at in any case; the kubelet's limit.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);

/// Tells when something happens in the directory of a log.
#[derive(Debug)]
pub(super) struct Watch(Option<pipe::Receiver>);

impl Watch {
    /// Watches the directory of `file`. Where the system has no watches left, each wait takes its full time.
    pub(super) fn new(file: &Path) -> Self {
        let opened = file.parent().map(open);
        Self(opened.and_then(|opened| {
            opened.inspect_err(|error| tracing::debug!(%error, "the directory of a log is not watched")).ok()
        }))
    }

    /// Waits for a change since the last wait, or for a second; whether there was none.
    pub(super) async fn wait(&self) -> bool {
        let Some(pipe) = &self.0 else {
            tokio::time::sleep(INTERVAL).await;
            return true;
        };
        match timeout(INTERVAL, pipe.readable()).await {
            Ok(Ok(())) => drain(pipe),
            Ok(Err(_)) => tokio::time::sleep(INTERVAL).await,
            Err(_) => return true,
        }
        false
    }
}

/// What has happened does not matter.
fn drain(pipe: &pipe::Receiver) {
    let mut events = [0; 4096];
    loop {
        match pipe.try_read(&mut events) {
            Ok(read) if read > 0 => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            _ => return,
        }
    }
}

fn open(directory: &Path) -> io::Result<pipe::Receiver> {
    let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
    let what = AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO;
    inotify.add_watch(directory, what)?;
    // all that matters is that there is something to read, as in a pipe
    pipe::Receiver::from_owned_fd_unchecked(inotify.into())
}
