//! Waits for changes of a log file that is being followed.

use std::{
    io::{self, ErrorKind},
    path::Path,
    time::Duration,
};

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use tokio::{net::unix::pipe, time::timeout};

/// How long to wait for a change, the kubelet's limit. After that the file and its container are checked in any case.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Reports changes in the directory of a log, by inotify.
#[derive(Debug)]
pub(super) struct DirectoryWatch(Option<pipe::Receiver>);

impl DirectoryWatch {
    /// Watches the directory of `file`. If the system has no inotify watches left, each wait takes its full time.
    pub(super) fn new(file: &Path) -> Self {
        let opened = file.parent().map(open);
        Self(opened.and_then(|opened| {
            opened.inspect_err(|error| tracing::debug!(%error, "the directory of a log is not watched")).ok()
        }))
    }

    /// Waits for a change since the last wait, for at most [`CHECK_INTERVAL`]. Returns true if that time passed without a change.
    pub(super) async fn wait(&self) -> bool {
        let Some(pipe) = &self.0 else {
            tokio::time::sleep(CHECK_INTERVAL).await;
            return true;
        };
        match timeout(CHECK_INTERVAL, pipe.readable()).await {
            Ok(Ok(())) => drain(pipe),
            Ok(Err(_)) => tokio::time::sleep(CHECK_INTERVAL).await,
            Err(_) => return true,
        }
        false
    }
}

/// Discards all pending inotify events: what they say does not matter.
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
    // the descriptor is only waited for and read from, as a pipe would be
    pipe::Receiver::from_owned_fd_unchecked(inotify.into())
}
