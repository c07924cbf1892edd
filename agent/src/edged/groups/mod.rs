//! Control groups of pods: one for each pod, below that of its class, so that a pod is limited and measured as a whole.
//!
//! In: pods. Out: the parent that the runtime is to make sandboxes and containers in, the limits of groups, their removal.
//! The runtime makes the groups; one that has none, or has them elsewhere, is left alone.
//!
//! | part | what |
//! |---|---|
//! | `name`, `limits` | decisions, pure |
//! | `kernel` | the files |
//! | `watch` | tells when containers have ended |

mod kernel;
mod limits;
mod name;
mod watch;

use std::{
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    sync::Arc,
    sync::atomic::{AtomicBool, Ordering},
};

use k8s_openapi::api::core::v1::Pod;
use tokio::sync::OnceCell;

pub(crate) use self::watch::{Held, Watch};
use self::{
    kernel::Kernel,
    limits::Limits,
    name::{Class, Naming},
};
use super::{runtime::Runtime, status};
use crate::config::{CgroupDriver, ControlGroups};

/// Where Linux shows them.
pub(crate) const HIERARCHIES: &str = "/sys/fs/cgroup";

/// The shortest that a runtime's id of a container is.
const ID: usize = 32;

/// Whether the groups at `base` are those of version 2, one hierarchy for all.
pub(crate) fn are_unified(base: &Path) -> bool {
    base.join("cgroup.controllers").exists()
}

/// A group cannot be removed.
#[derive(Debug, thiserror::Error)]
#[error("the control group {} cannot be removed; end the processes that are in it", group.display())]
pub(crate) struct Stays {
    group: PathBuf,
    source: io::Error,
}

/// The groups of all pods; one for the node, clones share what is known.
#[derive(Clone)]
pub(crate) struct Groups(Arc<Inner>);

struct Inner {
    config: ControlGroups,
    runtime: Runtime,
    kernel: Kernel,
    /// Thousandths of a core that pods may use.
    cpu: i64,
    driver: OnceCell<CgroupDriver>,
    /// That this program may not write was said.
    warned: AtomicBool,
}

impl Groups {
    /// Asks and writes nothing yet. `cpu`: thousandths of a core that pods may use.
    pub(crate) fn new(config: ControlGroups, runtime: Runtime, cpu: i64) -> Self {
        let kernel = Kernel::at(HIERARCHIES.into());
        let (driver, warned) = (OnceCell::new(), AtomicBool::new(false));
        Self(Arc::new(Inner { config, runtime, kernel, cpu, driver, warned }))
    }

    /// The group in which the runtime is to make the pod's sandbox and containers; empty where it may choose.
    pub(crate) async fn parent(&self, pod: &Pod) -> String {
        let config = &self.0.config;
        if config.per_pod {
            let uid = pod.metadata.uid.as_deref().unwrap_or_default();
            return format!("/{}", self.naming().await.pod(Class::of(status::qos(pod)), uid).display());
        }
        if config.root.is_empty() {
            return String::new();
        }
        format!("/{}", self.naming().await.root().display())
    }

    /// Limits a pod as a whole, and its class by what `all` pods of it ask for. Nothing fails when it cannot be done. Whether it is so
    /// for good: it has to be done again once a container has been started, where CRI-O has made no group for the sandbox, and where
    /// systemd, which takes away a group without processes, gives it its own values when it makes it.
    pub(crate) async fn limit(&self, pod: &Pod, all: &[Arc<Pod>]) -> bool {
        if !self.0.config.per_pod {
            return true;
        }
        let (naming, inner) = (self.naming().await, self.0.clone());
        let stays = naming.driver == CgroupDriver::Cgroupfs;
        let class = Class::of(status::qos(pod));
        let group = naming.pod(class, pod.metadata.uid.as_deref().unwrap_or_default());
        let limits = Limits::of_pod(pod, class, inner.config.processes);
        let burstable = limits::cpu_of_class(all.iter().map(Arc::as_ref), Class::Burstable);
        let done = tokio::task::spawn_blocking(move || {
            // groups that are another's, or none, if the pod's own is not there
            if !inner.kernel.limit(&group, &limits)? {
                return Ok(false);
            }
            for (class, millis) in
                [(Class::Guaranteed, inner.cpu), (Class::Burstable, burstable), (Class::BestEffort, 0)]
            {
                inner.kernel.limit(&naming.class(class), &Limits::of_cpu(millis))?;
            }
            Ok(true)
        });
        match done.await {
            Ok(Ok(found)) => return found && stays,
            Ok(Err(error)) if refused(&error) => self.0.warn_once(&error),
            // The group has just gone, or holds more memory already than it may.
            Ok(Err(error)) => {
                let uid = pod.metadata.uid.as_deref();
                tracing::warn!(
                    uid,
                    error = &error as &dyn std::error::Error,
                    "a pod is not limited as a whole"
                );
            }
            // a task that cannot be waited for is one of a program that ends
            Err(_) => {}
        }
        true
    }

    /// Removes what is left of a pod's groups, whatever its class was. Blocks.
    ///
    /// # Errors
    /// Processes are in one. That this program may not remove them is no error: then the machine does not want it.
    pub(crate) fn remove(&self, uid: &str) -> Result<(), Stays> {
        let inner = &self.0;
        for group in inner.possible(uid) {
            match inner.kernel.remove(&group) {
                Err(error) if refused(&error) => inner.warn_once(&error),
                Err(source) => return Err(Stays { group, source }),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    /// Removes the groups of the classes, which hold those of pods, and the one that holds them, as far as nothing is in them. Blocks.
    ///
    /// # Errors
    /// Something is in one.
    pub(crate) fn remove_classes(&self) -> Result<(), Stays> {
        let inner = &self.0;
        if !inner.config.per_pod {
            return Ok(());
        }
        for driver in [CgroupDriver::Cgroupfs, CgroupDriver::Systemd] {
            let group = inner.naming(driver).class(Class::Guaranteed);
            match inner.kernel.remove_empty(&group) {
                Err(error) if refused(&error) => {}
                Err(source) => return Err(Stays { group, source }),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    /// Ends what runs in the group of a container of the pod that never ran, as far as the runtime knows.
    pub(crate) async fn end_container(&self, uid: &str, id: &str) {
        // what is shorter could be a part of another's name
        if id.len() < ID {
            return;
        }
        let (inner, uid, id) = (self.0.clone(), uid.to_owned(), id.to_owned());
        let ended = tokio::task::spawn_blocking(move || {
            for group in inner.possible(&uid) {
                inner.kernel.kill(&group, &id);
            }
        });
        // A task that cannot be waited for is one of a program that ends.
        let _ = ended.await;
    }

    /// The ids of containers and sandboxes in whose groups something runs, below the pod's, but for those that `is_known`. Groups
    /// whose names have no id are somebody's own. Blocks, though never for long.
    pub(crate) fn strangers(&self, pod: &Pod, is_known: impl Fn(&str) -> bool) -> Vec<String> {
        let inner = &self.0;
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        // a pod keeps its class
        let possible = inner.in_class(Class::of(status::qos(pod)), uid);
        let passed = |name: &str| name::id(name).is_none_or(&is_known);
        let names = inner.kernel.inhabited(&possible, passed).into_iter();
        names.filter_map(|name| name::id(&name).map(str::to_owned)).collect()
    }

    /// A watch on pods' groups.
    pub(crate) fn watch(&self) -> Watch {
        Watch::new(self.clone())
    }

    /// Where the kernel shows the pod's group, in one of its hierarchies; `None` where the pod has none.
    fn place(&self, uid: &str) -> Option<PathBuf> {
        self.0.kernel.place(&self.0.possible(uid))
    }

    async fn naming(&self) -> Naming {
        let inner = &self.0;
        let asked = inner.driver.get_or_try_init(|| async {
            let reported = inner.runtime.cgroup_driver().await?;
            let driver = reported.unwrap_or(inner.config.driver);
            tracing::debug!(?driver, reported = reported.is_some(), "control groups");
            Ok::<_, super::runtime::CallError>(driver)
        });
        // A runtime that does not answer makes nothing now, and is asked again.
        inner.naming(asked.await.copied().unwrap_or(inner.config.driver))
    }
}

impl Inner {
    fn naming(&self, driver: CgroupDriver) -> Naming {
        Naming { root: self.config.root.clone(), driver }
    }

    /// The pod's group in each class; none where pods have none.
    fn possible(&self, uid: &str) -> Vec<PathBuf> {
        Class::ALL.into_iter().flat_map(|class| self.in_class(class, uid)).collect()
    }

    /// The pod's group in a class, with either driver: the runtime may have had the other one when it made it.
    fn in_class(&self, class: Class, uid: &str) -> Vec<PathBuf> {
        let drivers = [CgroupDriver::Cgroupfs, CgroupDriver::Systemd].into_iter();
        let drivers = drivers.filter(|_| self.config.per_pod);
        drivers.map(|driver| self.naming(driver).pod(class, uid)).collect()
    }

    /// Once is enough: it is the same for all pods.
    fn warn_once(&self, error: &io::Error) {
        if !self.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                error = error as &dyn std::error::Error,
                "pods are not limited as a whole: this machine does not let control groups below {} be written",
                Path::new(HIERARCHIES).display()
            );
        }
    }
}

fn refused(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
}
