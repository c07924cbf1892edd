//! Waits for changes of a log file that is being followed.

use std::{
    io::{self, ErrorKind},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use tokio::{net::unix::pipe, time::timeout};

/// How long to wait for a change, the kubelet's limit. After that the file and its container are checked in any case.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// How often the file is read where the system has no inotify instances left.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Whether the missing instances were logged.
static IS_LOGGED: AtomicBool = AtomicBool::new(false);

/// Reports changes in the directory of a log, by inotify.
#[derive(Debug)]
pub(super) struct DirectoryWatch(Option<pipe::Receiver>);

impl DirectoryWatch {
    /// Watches the directory of `file`. If the system has no inotify instances or watches left, the file is read every
    /// [`POLL_INTERVAL`], which is logged once.
    pub(super) fn new(file: &Path) -> Self {
        let opened = file.parent().map(open);
        Self(opened.and_then(|opened| opened.inspect_err(log_polling).ok()))
    }

    /// Waits for a change since the last wait, for at most [`CHECK_INTERVAL`]. Returns true if that time passed without a change.
    /// Without inotify there may have been one each time.
    pub(super) async fn wait(&self) -> bool {
        let Some(pipe) = &self.0 else {
            tokio::time::sleep(POLL_INTERVAL).await;
            return false;
        };
        match timeout(CHECK_INTERVAL, pipe.readable()).await {
            Ok(Ok(())) => drain(pipe),
            Ok(Err(_)) => tokio::time::sleep(CHECK_INTERVAL).await,
            Err(_) => return true,
        }
        false
    }
}

fn log_polling(error: &io::Error) {
    if !IS_LOGGED.swap(true, Ordering::Relaxed) {
        tracing::warn!(
            %error, interval = ?POLL_INTERVAL,
            "cannot watch the directory of a followed log; polling instead: raise fs.inotify.max_user_instances and max_user_watches"
        );
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

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_log_that_cannot_be_watched_is_read_within_a_tenth_of_a_second() {
        let watch = DirectoryWatch::new(Path::new("/nowhere/at/all/0.log"));
        let begun = Instant::now();
        assert!(!watch.wait().await, "the file may have changed");
        assert!(
            begun.elapsed() <= Duration::from_millis(100),
            "{:?}",
            begun.elapsed()
        );
    }
}
