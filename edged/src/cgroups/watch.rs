//! Watches pods' groups for the removal of a group below, which shows that a container or the sandbox has ended. The kernel
//! reports this at once and at no cost, while a runtime without events has to be polled.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, ErrorKind},
    os::fd::AsFd,
    path::Path,
};

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};
use tokio::net::unix::pipe;

use super::Cgroups;

/// A pod whose group is watched.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WatchedPod {
    /// The pod's uid.
    pub(crate) uid: String,
    /// Id of its current sandbox, for which the group may have been created again.
    pub(crate) sandbox_id: String,
}

/// A watch on the groups of pods, by inotify.
pub(crate) struct CgroupWatch {
    groups: Cgroups,
    /// Opened when there is something to watch, as the number of inotify instances of a user is limited.
    open: Option<(Inotify, pipe::Receiver)>,
    /// `None` for a pod that has no group.
    watched: BTreeMap<WatchedPod, Option<WatchDescriptor>>,
}

impl CgroupWatch {
    /// Returns a watch that watches nothing yet.
    pub(super) fn new(groups: Cgroups) -> Self {
        Self {
            groups,
            open: None,
            watched: BTreeMap::new(),
        }
    }

    /// Watches these pods and no others, and reports whether each of them can be watched.
    pub(crate) fn set_pods(&mut self, pods: &BTreeSet<WatchedPod>) -> bool {
        let gone: Vec<WatchedPod> = self
            .watched
            .keys()
            .filter(|pod| !pods.contains(*pod))
            .cloned()
            .collect();
        for pod in gone {
            if let (Some(Some(descriptor)), Some((inotify, _))) =
                (self.watched.remove(&pod), &self.open)
            {
                // The kernel has removed the watch already if the group is gone.
                let _ = inotify.rm_watch(descriptor);
            }
        }
        for pod in pods {
            if !self.watched.contains_key(pod) {
                let path = self.groups.path(&pod.uid);
                let descriptor = path.and_then(|path| self.add(&path).ok());
                tracing::debug!(
                    uid = pod.uid,
                    watched = descriptor.is_some(),
                    "watching the control group of a pod"
                );
                self.watched.insert(pod.clone(), descriptor);
            }
        }
        self.watched.values().all(Option::is_some)
    }

    fn add(&mut self, path: &Path) -> io::Result<WatchDescriptor> {
        let (inotify, _) = match &mut self.open {
            Some(open) => open,
            closed => closed.insert(open()?),
        };
        Ok(inotify.add_watch(path, AddWatchFlags::IN_DELETE | AddWatchFlags::IN_ONLYDIR)?)
    }

    /// Waits until a group below a watched one was removed; forever if nothing can be watched. Cancel-safe: a removal that is not
    /// taken is reported again.
    pub(crate) async fn wait_removed(&self) {
        let Some((_, events)) = &self.open else {
            return std::future::pending().await;
        };
        if events.readable().await.is_err() {
            return std::future::pending().await;
        }
        // The events' content does not matter.
        let mut buffer = [0; 4096];
        loop {
            match events.try_read(&mut buffer) {
                Ok(read) if read > 0 => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => return,
            }
        }
    }
}

/// Opens an inotify instance, whose descriptor is waited for as a pipe would be.
fn open() -> io::Result<(Inotify, pipe::Receiver)> {
    let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
    let events = pipe::Receiver::from_owned_fd_unchecked(inotify.as_fd().try_clone_to_owned()?)?;
    Ok((inotify, events))
}
