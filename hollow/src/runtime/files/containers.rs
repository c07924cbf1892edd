//! The files of all containers of a runtime.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use parking_lot::Mutex;
use wire::cri::{ContainerConfig, Mount};

use super::{Files, Shared};
use crate::runtime::state::Running;

/// The annotation in which a kubelet gives the path of a container's termination message file.
const LAST_WORDS: &str = "io.kubernetes.container.terminationMessagePath";
/// The label in which a kubelet gives the uid of a container's pod.
const POD_UID: &str = "io.kubernetes.pod.uid";

/// The files of the containers in which commands have run.
#[derive(Default)]
pub(crate) struct ContainerFiles {
    /// The files by the container's id.
    all: Mutex<BTreeMap<String, Arc<Files>>>,
    shared: Shared,
}

impl ContainerFiles {
    /// Returns the files of one container, and forgets those of containers that do not run any more.
    pub(crate) fn of(
        &self,
        id: &str,
        running: &Running,
        is_running: impl Fn(&str) -> bool,
    ) -> Arc<Files> {
        let mut all = self.all.lock();
        if let Some(files) = all.get(id) {
            return Arc::clone(files);
        }
        all.retain(|id, _| is_running(id));
        self.shared.clean();
        let Running {
            config, hostname, ..
        } = running;
        let last_words = last_words(config);
        let files = Files::new(
            config.mounts.clone(),
            hostname.clone(),
            last_words,
            &self.shared,
        );
        let security = config
            .linux
            .as_ref()
            .and_then(|linux| linux.security_context.as_ref());
        let is_read_only = security.is_some_and(|security| security.readonly_rootfs);
        let files = Arc::new(files.with_read_only_root(is_read_only));
        all.insert(id.to_owned(), Arc::clone(&files));
        files
    }
}

/// Returns the path of the container's termination message file if the file mounted there is the one that the node has made for it
/// (`…/UID/containers/NAME/FILE`, as a kubelet's), and not one that the pod itself has mounted.
fn last_words(config: &ContainerConfig) -> String {
    let place = config
        .annotations
        .get(LAST_WORDS)
        .map(String::as_str)
        .unwrap_or_default();
    let uid = config
        .labels
        .get(POD_UID)
        .map(String::as_str)
        .unwrap_or_default();
    let name = config
        .metadata
        .as_ref()
        .map(|metadata| metadata.name.as_str())
        .unwrap_or_default();
    let is_the_nodes = |mount: &Mount| {
        let above = Path::new(&mount.host_path).parent();
        !uid.is_empty()
            && above
                .is_some_and(|above| above.ends_with(Path::new(uid).join("containers").join(name)))
    };
    let mut there = config
        .mounts
        .iter()
        .filter(|mount| mount.container_path == place);
    if there.next().is_some_and(is_the_nodes) && there.all(is_the_nodes) {
        place.to_owned()
    } else {
        String::new()
    }
}
