//! Control groups of pods: one for each pod, below that of its QoS class, so that a pod is limited and measured as a whole.
//!
//! Provides the cgroup parent in which the runtime creates sandboxes and containers, sets limits, and removes groups. The runtime
//! creates the groups; if it uses none, or others, they are left alone.
//!
//! | part | what |
//! |---|---|
//! | `name`, `limits` | decisions without input or output |
//! | `cgroup_fs` | the kernel's files |
//! | `watch` | reports removed groups, which show that containers have ended |

mod cgroup_fs;
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

pub(crate) use self::watch::{CgroupWatch, WatchedPod};
use self::{
    cgroup_fs::CgroupFs,
    limits::Limits,
    name::{Naming, QosClass},
};
use super::{runtime::Runtime, specs};
use crate::settings::{CgroupDriver, ControlGroups};

/// Where Linux mounts control groups.
pub(crate) const CGROUP_ROOT: &str = "/sys/fs/cgroup";

/// Minimum length of a runtime's container id.
const MIN_ID_LEN: usize = 32;

/// Reports whether the control groups at `base` are of version 2, with one hierarchy.
pub(crate) fn is_unified(base: &Path) -> bool {
    base.join("cgroup.controllers").exists()
}

/// A control group cannot be removed.
#[derive(Debug, thiserror::Error)]
#[error("the control group {} cannot be removed; stop the processes in it", group.display())]
pub(crate) struct RemoveError {
    group: PathBuf,
    source: io::Error,
}

/// Manages the control groups of all pods. Clones share their state.
#[derive(Clone)]
pub(crate) struct Cgroups(Arc<Inner>);

struct Inner {
    config: ControlGroups,
    runtime: Runtime,
    cgroup_fs: CgroupFs,
    /// CPU of all pods, in thousandths of a core.
    cpu: i64,
    driver: OnceCell<CgroupDriver>,
    /// Whether missing permission to write was logged.
    warned: AtomicBool,
}

impl Cgroups {
    /// Creates a manager, without input or output yet. `cpu` is that of all pods, in thousandths of a core.
    pub(crate) fn new(config: ControlGroups, runtime: Runtime, cpu: i64) -> Self {
        let cgroup_fs = CgroupFs::new(CGROUP_ROOT.into());
        let (driver, warned) = (OnceCell::new(), AtomicBool::new(false));
        Self(Arc::new(Inner {
            config,
            runtime,
            cgroup_fs,
            cpu,
            driver,
            warned,
        }))
    }

    /// Returns the cgroup parent of the pod's sandbox and containers, empty if the runtime may choose.
    pub(crate) async fn cgroup_parent(&self, pod: &Pod) -> String {
        let config = &self.0.config;
        if config.per_pod {
            let uid = pod.metadata.uid.as_deref().unwrap_or_default();
            return format!(
                "/{}",
                self.naming()
                    .await
                    .pod(QosClass::of(specs::qos(pod)), uid)
                    .display()
            );
        }
        if config.root.is_empty() {
            return String::new();
        }
        format!("/{}", self.naming().await.root().display())
    }

    /// Sets the limits of a pod's group, and of the QoS classes from the requests of `all` pods. Failures are logged only.
    /// Returns true if the limits are final. They have to be set again after a container's start if CRI-O has not created the
    /// group for the sandbox, or with systemd, which removes groups without processes and creates them with its own values.
    pub(crate) async fn apply_limits(&self, pod: &Pod, all: &[Arc<Pod>]) -> bool {
        if !self.0.config.per_pod {
            return true;
        }
        let (naming, inner) = (self.naming().await, self.0.clone());
        let keeps_limits = naming.driver == CgroupDriver::Cgroupfs;
        let class = QosClass::of(specs::qos(pod));
        let group = naming.pod(class, pod.metadata.uid.as_deref().unwrap_or_default());
        let limits = Limits::of_pod(pod, class, inner.config.pod_pids_limit);
        let burstable = limits::class_cpu_request(all.iter().map(Arc::as_ref), QosClass::Burstable);
        let done = componentbase::spawn_blocking(move || {
            // if the pod's own group does not exist, the classes' groups are others' or do not exist
            if !inner.cgroup_fs.set_limits(&group, &limits)? {
                return Ok(false);
            }
            for (class, millis) in [
                (QosClass::Guaranteed, inner.cpu),
                (QosClass::Burstable, burstable),
                (QosClass::BestEffort, 0),
            ] {
                inner
                    .cgroup_fs
                    .set_limits(&naming.class(class), &Limits::of_cpu(millis))?;
            }
            Ok(true)
        });
        match done.await {
            Ok(Ok(found)) => return found && keeps_limits,
            Ok(Err(error)) if is_permission_error(&error) => self.0.warn_once(&error),
            // The group was removed just now, or uses more memory already than its limit.
            Ok(Err(error)) => {
                let uid = pod.metadata.uid.as_deref();
                tracing::warn!(
                    uid,
                    error = &error as &dyn std::error::Error,
                    "failed to set limits of a pod's control group"
                );
            }
            // waiting for a task fails only when the program ends
            Err(_) => {}
        }
        true
    }

    /// Removes a pod's groups of any QoS class. Blocks.
    ///
    /// # Errors
    /// A group has processes. Lacking permission is no error: then the machine does not let control groups be used.
    pub(crate) fn remove(&self, uid: &str) -> Result<(), RemoveError> {
        let inner = &self.0;
        for group in inner.candidates(uid) {
            match inner.cgroup_fs.remove(&group) {
                Err(error) if is_permission_error(&error) => inner.warn_once(&error),
                Err(source) => return Err(RemoveError { group, source }),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    /// Removes the groups of QoS classes and of all pods if they are empty. Blocks.
    ///
    /// # Errors
    /// A group is not empty.
    pub(crate) fn remove_classes(&self) -> Result<(), RemoveError> {
        let inner = &self.0;
        if !inner.config.per_pod {
            return Ok(());
        }
        for driver in [CgroupDriver::Cgroupfs, CgroupDriver::Systemd] {
            let group = inner.naming(driver).class(QosClass::Guaranteed);
            match inner.cgroup_fs.remove_empty(&group) {
                Err(error) if is_permission_error(&error) => {}
                Err(source) => return Err(RemoveError { group, source }),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    /// Kills the processes of a container that, according to the runtime, never ran.
    pub(crate) async fn end_container(&self, uid: &str, id: &str) {
        // a shorter id could be part of another's name
        if id.len() < MIN_ID_LEN {
            return;
        }
        let (inner, uid, id) = (self.0.clone(), uid.to_owned(), id.to_owned());
        let ended = componentbase::spawn_blocking(move || {
            for group in inner.candidates(&uid) {
                inner.cgroup_fs.kill_container(&group, &id);
            }
        });
        // Waiting for a task fails only when the program ends.
        let _ = ended.await;
    }

    /// Returns the ids of containers and sandboxes with processes in the pod's group, except those that `is_known`. Groups whose
    /// names contain no id are ignored. Blocks, but only for short times.
    pub(crate) fn unknown_containers(
        &self,
        pod: &Pod,
        is_known: impl Fn(&str) -> bool,
    ) -> Vec<String> {
        let inner = &self.0;
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        // a pod's QoS class never changes
        let candidates = inner.in_class(QosClass::of(specs::qos(pod)), uid);
        let passed = |name: &str| name::container_id(name).is_none_or(&is_known);
        let names = inner
            .cgroup_fs
            .populated_groups(&candidates, passed)
            .into_iter();
        names
            .filter_map(|name| name::container_id(&name).map(str::to_owned))
            .collect()
    }

    /// Returns a watch on pods' groups.
    pub(crate) fn watch(&self) -> CgroupWatch {
        CgroupWatch::new(self.clone())
    }

    /// Returns the path of the pod's group in one hierarchy, or `None` if there is none.
    fn path(&self, uid: &str) -> Option<PathBuf> {
        self.0.cgroup_fs.path(&self.0.candidates(uid))
    }

    async fn naming(&self) -> Naming {
        let inner = &self.0;
        let result = inner.driver.get_or_try_init(|| async {
            let reported = inner.runtime.cgroup_driver().await?;
            let driver = reported.unwrap_or(inner.config.driver);
            tracing::debug!(
                driver = driver.as_str(),
                reported = reported.is_some(),
                "control group driver selected"
            );
            Ok::<_, super::runtime::CallError>(driver)
        });
        // A runtime that does not answer creates nothing now; it is asked again later.
        inner.naming(result.await.copied().unwrap_or(inner.config.driver))
    }
}

impl Inner {
    fn naming(&self, driver: CgroupDriver) -> Naming {
        Naming {
            root: self.config.root.clone(),
            driver,
        }
    }

    /// Returns the possible paths of the pod's group in all QoS classes; none if pods have no groups.
    fn candidates(&self, uid: &str) -> Vec<PathBuf> {
        QosClass::ALL
            .into_iter()
            .flat_map(|class| self.in_class(class, uid))
            .collect()
    }

    /// Returns the pod's group in a class for both drivers: the runtime may have used the other one when it created the group.
    fn in_class(&self, class: QosClass, uid: &str) -> Vec<PathBuf> {
        let drivers = [CgroupDriver::Cgroupfs, CgroupDriver::Systemd].into_iter();
        let drivers = drivers.filter(|_| self.config.per_pod);
        drivers
            .map(|driver| self.naming(driver).pod(class, uid))
            .collect()
    }

    /// Logs missing permission once, as it concerns all pods.
    fn warn_once(&self, error: &io::Error) {
        if !self.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                error = error as &dyn std::error::Error,
                "cannot write control groups below {}; pods run without pod-level limits",
                Path::new(CGROUP_ROOT).display()
            );
        }
    }
}

fn is_permission_error(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem
    )
}
