//! Tells when a group below a pod's has gone: a container, or the sandbox itself, has ended. The kernel says so at once and for
//! nothing, where a runtime without events has to be asked again and again.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, ErrorKind},
    os::fd::AsFd,
    path::Path,
};

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};
use tokio::net::unix::pipe;

use super::Groups;

/// A pod's uid, and the id of the sandbox that it has now: another sandbox may have the group made anew.
pub(crate) type Held = (String, String);

/// The groups of pods, watched.
pub(crate) struct Watch {
    groups: Groups,
    /// Made when there is something to watch: a user may have only so many.
    open: Option<(Inotify, pipe::Receiver)>,
    /// `None`: the pod has no group.
    watched: BTreeMap<Held, Option<WatchDescriptor>>,
}

impl Watch {
    /// Watches nothing yet.
    pub(super) fn new(groups: Groups) -> Self {
        Self { groups, open: None, watched: BTreeMap::new() }
    }

    /// Watches these pods and no others; whether each of them can be watched.
    pub(crate) fn follow(&mut self, pods: &BTreeSet<Held>) -> bool {
        let gone: Vec<Held> = self.watched.keys().filter(|held| !pods.contains(*held)).cloned().collect();
        for held in gone {
            if let (Some(Some(descriptor)), Some((inotify, _))) = (self.watched.remove(&held), &self.open) {
                // The kernel has done it already where the group itself is gone.
                let _ = inotify.rm_watch(descriptor);
            }
        }
        for held in pods {
            if !self.watched.contains_key(held) {
                let place = self.groups.place(&held.0);
                let descriptor = place.and_then(|place| self.add(&place).ok());
                tracing::debug!(uid = held.0, watched = descriptor.is_some(), "control group of a pod");
                self.watched.insert(held.clone(), descriptor);
            }
        }
        self.watched.values().all(Option::is_some)
    }

    fn add(&mut self, place: &Path) -> io::Result<WatchDescriptor> {
        let (inotify, _) = match &mut self.open {
            Some(open) => open,
            closed => closed.insert(open()?),
        };
        Ok(inotify.add_watch(place, AddWatchFlags::IN_DELETE | AddWatchFlags::IN_ONLYDIR)?)
    }

    /// Waits until something in a group has gone since the last time; for ever where nothing can be watched. Cancel-safe: what
    /// is told and not taken is told again.
    pub(crate) async fn ended(&self) {
        let Some((_, told)) = &self.open else { return std::future::pending().await };
        if told.readable().await.is_err() {
            return std::future::pending().await;
        }
        // How many have ended does not matter.
        let mut events = [0; 4096];
        loop {
            match told.try_read(&mut events) {
                Ok(read) if read > 0 => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => return,
            }
        }
    }
}

/// To be read as a pipe is: that there is something is all that matters.
fn open() -> io::Result<(Inotify, pipe::Receiver)> {
    let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
    let told = pipe::Receiver::from_owned_fd_unchecked(inotify.as_fd().try_clone_to_owned()?)?;
    Ok((inotify, told))
}
