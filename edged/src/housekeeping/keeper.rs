//! Runs housekeeping periodically.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::core::v1::Pod;
use kube::runtime::reflector::Store;
use tokio::sync::{Mutex, watch};

use super::{
    containers::{self, PodState},
    images::{Candidate, FsUsage, ImageRecords},
};
use crate::{
    Progress,
    events::{EventType, Recorder, reason},
    housekeeping::remove_container,
    log_links,
    names::Dirs,
    pressure,
    runtime::{CallError, Runtime},
    settings::Housekeeping,
    specs::{self, is_terminal},
};

/// Why images could not be cleaned up.
#[derive(Debug, thiserror::Error)]
enum ImagesError {
    #[error(transparent)]
    Runtime(#[from] CallError),
    #[error("invalid capacity 0 on image filesystem")]
    Capacity,
    #[error(
        "Failed to garbage collect required amount of images. Attempted to free {wanted} bytes, but only found {freed} bytes eligible to free."
    )]
    TooFew { wanted: u64, freed: u64 },
}

/// What housekeeping needs.
pub(crate) struct Deps {
    /// The container runtime.
    pub(crate) runtime: Runtime,
    /// The directories of pods.
    pub(crate) dirs: Dirs,
    /// This node's pods.
    pub(crate) pods: Store<Pod>,
    /// The node's name.
    pub(crate) node_name: String,
    /// Records events of the node.
    pub(crate) events: Recorder,
    /// The image of sandboxes, as configured.
    pub(crate) sandbox_image: String,
}

/// Removes ended containers and unused images, and rotates logs.
pub(crate) struct Keeper {
    pub(super) deps: Deps,
    /// What is kept.
    pub(super) limits: Housekeeping,
    /// Locked while images are removed, so that the same space is not freed twice.
    image_records: Mutex<ImageRecords>,
}

/// Runs housekeeping once all pods are known; before that, everything looks unused. Never returns then.
pub(crate) async fn run(keeper: Arc<Keeper>, mut progress: watch::Receiver<Progress>) {
    if progress
        .wait_for(|progress| progress.pods_listed)
        .await
        .is_err()
    {
        return;
    }
    let containers = async {
        loop {
            warn(
                keeper.clean_containers(false).await,
                "remove ended containers; retrying",
            );
            tokio::time::sleep(keeper.limits.container_period).await;
        }
    };
    let logs = async {
        loop {
            warn(keeper.rotate().await, "rotate container logs; retrying");
            tokio::time::sleep(keeper.limits.log_interval).await;
        }
    };
    let images = async {
        let mut failed_before = false;
        loop {
            failed_before = keeper.clean_images(failed_before).await;
            tokio::time::sleep(keeper.limits.image_period).await;
        }
    };
    tokio::join!(containers, logs, images);
}

/// Logs a failed removal, which is tried again next time and does not prevent others.
fn warn_of(id: &str, result: Result<(), CallError>) {
    if let Err(error) = result {
        tracing::warn!(
            id,
            error = &error as &dyn std::error::Error,
            "failed to remove an ended container or sandbox; retrying"
        );
    }
}

fn warn(result: Result<(), CallError>, what: &str) {
    if let Err(error) = result {
        error.log(what);
    }
}

impl Keeper {
    /// Creates a keeper without records of images.
    pub(crate) fn new(deps: Deps, limits: Housekeeping) -> Self {
        Self {
            deps,
            limits,
            image_records: Mutex::default(),
        }
    }

    fn record(&self, reason: &'static str, message: String) {
        self.deps
            .events
            .node(&self.deps.node_name, EventType::Warning, reason, message);
    }

    /// Removes everything that no pod needs, because the disk is full.
    pub(crate) async fn free_all(&self) {
        warn(
            self.clean_containers(true).await,
            "remove ended containers from a full disk",
        );
        let mut image_records = self.image_records.lock().await;
        let freed = async {
            self.update_image_records(&mut image_records).await?;
            let candidates = image_records.candidates(&self.limits, clock::now());
            Ok(self.remove(candidates, u64::MAX).await)
        };
        match freed.await {
            Ok(freed) => tracing::info!(bytes = freed, "unused images removed"),
            Err(error) => warn(Err(error), "images stay on a full disk"),
        }
    }

    fn pod_state(pods: &[Arc<Pod>], uid: &str) -> PodState {
        let Some(pod) = pods
            .iter()
            .find(|pod| pod.metadata.uid.as_deref() == Some(uid))
        else {
            return PodState::Unknown;
        };
        if is_terminal(pod) {
            PodState::Terminated
        } else {
            PodState::Active
        }
    }

    /// Removes ended containers and sandboxes. With `all`, no container of a terminated pod is kept.
    async fn clean_containers(&self, all: bool) -> Result<(), CallError> {
        let runtime = &self.deps.runtime;
        let listed = runtime.containers(None).await?;
        let pods = self.deps.pods.state();
        let (pod_state, now) = (|uid: &str| Self::pod_state(&pods, uid), clock::now());
        let gone = containers::surplus(
            containers::ended_containers(&listed),
            pod_state,
            &self.limits,
            all,
            now,
        );
        for id in &gone {
            warn_of(id, remove_container(runtime, &self.deps.dirs, id).await);
        }
        let (sandboxes, listed) =
            tokio::try_join!(runtime.sandboxes(None), runtime.containers(None))?;
        for id in containers::empty_sandboxes(&sandboxes, &listed, pod_state, &self.limits, now) {
            warn_of(&id, runtime.remove_sandbox(&id).await);
        }
        let dirs = self.deps.dirs.clone();
        let _ = componentbase::spawn_blocking(move || log_links::remove_dangling(&dirs)).await;
        Ok(())
    }

    /// Removes images when the disk fills, and those that are too old; returns whether that failed. A single failure may be
    /// temporary, so an event is recorded at the second in a row.
    async fn clean_images(&self, failed_before: bool) -> bool {
        let Err(error) = self.try_clean_images().await else {
            return false;
        };
        match &error {
            ImagesError::Runtime(error) => error.log("clean up images"),
            error => tracing::warn!(
                error = error as &dyn std::error::Error,
                "failed to clean up images"
            ),
        }
        if failed_before {
            self.record(reason::IMAGE_GC_FAILED, error.to_string());
        }
        true
    }

    async fn try_clean_images(&self) -> Result<(), ImagesError> {
        let mut image_records = self.image_records.lock().await;
        self.update_image_records(&mut image_records).await?;
        let now = clock::now();
        let old = image_records.too_old(&self.limits, now);
        if !old.is_empty() {
            self.remove(old, u64::MAX).await;
            self.update_image_records(&mut image_records).await?;
        }
        let Some(root) = pressure::image_root(&self.deps.runtime).await else {
            return Ok(());
        };
        let seen = componentbase::spawn_blocking(move || pressure::disk(&root))
            .await
            .ok()
            .flatten();
        let Some((bytes, _)) = seen else {
            return Ok(());
        };
        if bytes.capacity == 0 {
            let error = ImagesError::Capacity;
            self.record(reason::INVALID_DISK_CAPACITY, error.to_string());
            return Err(error);
        }
        let disk = FsUsage {
            capacity: bytes.capacity,
            available: bytes.available,
        };
        let Some(wanted) = disk.bytes_to_free(&self.limits) else {
            return Ok(());
        };
        let percent = disk.percent();
        tracing::info!(percent, wanted, "image disk is filling up");
        let freed = self
            .remove(image_records.candidates(&self.limits, now), wanted)
            .await;
        if freed >= wanted {
            return Ok(());
        }
        let text = format!(
            "Insufficient free disk space on the node's image filesystem ({percent}% of {} used). Failed to free sufficient space by deleting unused images (freed {freed} bytes). Consider resizing the disk or deleting unused files.",
            size(disk.capacity)
        );
        self.record(reason::FREE_DISK_SPACE_FAILED, text);
        Err(ImagesError::TooFew { wanted, freed })
    }

    /// Updates the records of images and their use. Images of pods that shall run are in use even if they are not present yet: an
    /// offline node could not pull them again.
    async fn update_image_records(
        &self,
        image_records: &mut ImageRecords,
    ) -> Result<(), CallError> {
        let runtime = &self.deps.runtime;
        let (images, containers) =
            tokio::try_join!(runtime.list_images(), runtime.containers(None))?;
        let mut used: BTreeSet<String> = [self.deps.sandbox_image.clone()].into();
        used.extend(runtime.sandbox_image().await?);
        for container in containers {
            used.insert(container.image_ref);
            used.extend(container.image.map(|image| image.image));
        }
        let runs = |pod: &&Arc<Pod>| pod.metadata.deletion_timestamp.is_none() && !is_terminal(pod);
        for pod in self.deps.pods.state().iter().filter(runs) {
            used.extend(specs::containers_of(pod).filter_map(|container| container.image.clone()));
        }
        used.remove("");
        image_records.update(&images, &used, clock::now());
        Ok(())
    }

    /// Removes images until `wanted` bytes are freed, and returns how many are.
    async fn remove(&self, candidates: Vec<Candidate>, wanted: u64) -> u64 {
        let mut freed = 0_u64;
        for image in candidates {
            if freed >= wanted {
                break;
            }
            match self.deps.runtime.remove_image(&image.id).await {
                Ok(()) => {
                    tracing::info!(image = image.id, bytes = image.size, "unused image removed");
                    freed = freed.saturating_add(image.size);
                }
                Err(error) => {
                    tracing::warn!(
                        image = image.id,
                        error = &error as &dyn std::error::Error,
                        "failed to remove image"
                    );
                }
            }
        }
        freed
    }
}

/// Formats a size for people: `10.5 GiB`.
// no more than a few digits are shown
#[allow(clippy::cast_precision_loss)]
fn size(bytes: i64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return format!("{value:.1} {unit}");
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_formatted_with_units() {
        assert_eq!(
            [size(10), size(1536), size(3 << 40)],
            ["10.0 B", "1.5 KiB", "3.0 TiB"]
        );
    }
}
