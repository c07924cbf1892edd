//! Reads a file of an image through containerd, without a container: nothing of the image is executed.
//!
//! A view of the image's snapshot names the directories of its layers. CRI alone has no such call, so other runtimes are refused.

use std::{
    fs::File,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    time::Duration,
};

use edged::RuntimeChannel;
use nix::{
    errno::Errno,
    fcntl::{OFlag, openat},
    sys::stat::Mode,
};
use serde::Deserialize;
use tokio::time::timeout;
use tonic::{Code, Request, Status, metadata::MetadataValue};
use wire::{
    containerd::{
        CRI, NAMESPACE,
        snapshots::{
            Mount, RemoveSnapshotRequest, ViewSnapshotRequest, snapshots_client::SnapshotsClient,
        },
    },
    cri::{self, image_service_client::ImageServiceClient},
};

/// The timeout of each call.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// The snapshotters of containerd whose layers are directories.
const SNAPSHOTTERS: [&str; 3] = ["overlayfs", "native", "fuse-overlayfs"];
/// The name of the view; one upgrade runs at a time.
const VIEW: &str = "edge-agent-upgrade";
/// Keeps the view from containerd's garbage collection.
const KEEP: &str = "containerd.io/gc.root";

/// An image on this node.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ImageOnNode {
    /// Its id, the digest of its content.
    pub(super) id: String,
    /// The digests under which it was pulled, `NAME@sha256:…`.
    pub(super) digests: Vec<String>,
    /// The name of its snapshot.
    chain: String,
}

/// What containerd adds to the status of an image.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Details {
    #[serde(rename = "chainID")]
    chain_id: String,
}

/// Reads images. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct ImageFiles {
    images: ImageServiceClient<RuntimeChannel>,
    snapshots: SnapshotsClient<RuntimeChannel>,
}

impl ImageFiles {
    /// Creates it for a container runtime; `images` is the image service if that is another one.
    pub(crate) fn new(runtime: RuntimeChannel, images: Option<RuntimeChannel>) -> Self {
        let images = images.unwrap_or_else(|| runtime.clone());
        Self {
            images: ImageServiceClient::new(images),
            snapshots: SnapshotsClient::new(runtime),
        }
    }

    /// Finds an image on this node.
    pub(super) async fn find(&self, image: &str) -> Result<ImageOnNode, String> {
        let request = cri::ImageStatusRequest {
            image: Some(cri::ImageSpec {
                image: image.to_owned(),
                ..Default::default()
            }),
            verbose: true,
        };
        let mut images = self.images.clone();
        let response = call(images.image_status(request)).await;
        let response = response.map_err(|status| status.message().to_owned())?;
        let found = response
            .image
            .ok_or_else(|| format!("{image} is not on this node"))?;
        let details = response.info.get("info").map(String::as_str);
        let details: Details = serde_json::from_str(details.unwrap_or_default()).map_err(|_| {
            "the container runtime does not show the files of images; only containerd does. Install the new version with its package"
                .to_owned()
        })?;
        Ok(ImageOnNode {
            id: found.id,
            digests: found.repo_digests,
            chain: details.chain_id,
        })
    }

    /// Returns the directories of the image's layers, the uppermost first, until [`ImageFiles::close`].
    pub(super) async fn open(&self, image: &ImageOnNode) -> Result<Vec<PathBuf>, String> {
        self.close().await;
        let mut last = String::new();
        for snapshotter in SNAPSHOTTERS {
            let request = request(ViewSnapshotRequest {
                snapshotter: snapshotter.to_owned(),
                key: VIEW.to_owned(),
                parent: image.chain.clone(),
                labels: [(KEEP.to_owned(), clock::now().to_string())].into(),
            });
            let mut snapshots = self.snapshots.clone();
            match call(snapshots.view(request)).await {
                Ok(view) => return layers(&view.mounts),
                Err(status) => last = status.message().to_owned(),
            }
        }
        Err(format!(
            "containerd does not show the files of the image: {last}"
        ))
    }

    /// Removes the view, also one of an earlier process.
    pub(super) async fn close(&self) {
        for snapshotter in SNAPSHOTTERS {
            let request = request(RemoveSnapshotRequest {
                snapshotter: snapshotter.to_owned(),
                key: VIEW.to_owned(),
            });
            let mut snapshots = self.snapshots.clone();
            match call(snapshots.remove(request)).await {
                // containerd has no such snapshotter, or no view of it
                Err(status) if !is_missing(&status) => {
                    let error = &status as &dyn std::error::Error;
                    tracing::warn!(error, "failed to remove the view of an image");
                }
                _ => {}
            }
        }
    }
}

fn is_missing(status: &Status) -> bool {
    matches!(status.code(), Code::NotFound | Code::InvalidArgument)
}

fn request<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    let namespace = MetadataValue::from_static(CRI);
    request.metadata_mut().insert(NAMESPACE, namespace);
    request
}

async fn call<T>(
    response: impl Future<Output = Result<tonic::Response<T>, Status>>,
) -> Result<T, Status> {
    match timeout(CALL_TIMEOUT, Box::pin(response)).await {
        Ok(response) => response.map(tonic::Response::into_inner),
        Err(_) => Err(Status::deadline_exceeded(format!(
            "no answer within {} s",
            CALL_TIMEOUT.as_secs()
        ))),
    }
}

/// Returns the directories that a view mounts.
fn layers(mounts: &[Mount]) -> Result<Vec<PathBuf>, String> {
    let [mount] = mounts else {
        return Err("the view of the image has no file system".to_owned());
    };
    let lower = mount
        .options
        .iter()
        .find_map(|option| option.strip_prefix("lowerdir="));
    match (mount.r#type.as_str(), lower) {
        ("bind", _) => Ok(vec![PathBuf::from(&mount.source)]),
        (_, Some(lower)) => Ok(lower.split(':').map(PathBuf::from).collect()),
        (other, None) => Err(format!(
            "the layers of the image are no directories but {other}"
        )),
    }
}

/// Opens a regular file of an image; `None` if it has none at this path. Symbolic links are not followed, so no file of this machine is
/// opened.
pub(super) fn open_file(layers: &[PathBuf], path: &str) -> Result<Option<File>, String> {
    for layer in layers {
        match open_below(layer, path) {
            Ok(file) => {
                let file = File::from(file);
                // another kind of file hides those of lower layers
                let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
                return Ok(is_file.then_some(file));
            }
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => {}
            Err(error) => {
                let path = layer.join(path);
                return Err(format!("cannot read {}: {error}", path.display()));
            }
        }
    }
    Ok(None)
}

fn open_below(layer: &Path, path: &str) -> nix::Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let mut at = nix::fcntl::open(layer, flags | OFlag::O_DIRECTORY, Mode::empty())?;
    for part in path.split('/') {
        at = openat(at.as_fd(), part, flags, Mode::empty())?;
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Read, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn layers_of_a_view_are_directories() {
        let mount = |kind: &str, options: &[&str]| Mount {
            r#type: kind.to_owned(),
            source: "/one".to_owned(),
            target: String::new(),
            options: options.iter().map(|&option| option.to_owned()).collect(),
        };
        for (mounts, expected) in [
            (vec![mount("bind", &["ro", "rbind"])], Some(vec!["/one"])),
            (
                vec![mount("overlay", &["index=off", "lowerdir=/b:/a"])],
                Some(vec!["/b", "/a"]),
            ),
            (vec![mount("ext4", &["ro"])], None),
            (vec![], None),
        ] {
            let found = layers(&mounts).ok();
            let expected = expected.map(|paths| paths.iter().map(PathBuf::from).collect());
            assert_eq!(found, expected, "{mounts:?}");
        }
    }

    #[test]
    fn a_file_of_the_uppermost_layer_is_read_and_no_link_is_followed() {
        let directory = tempfile::tempdir().unwrap();
        let layers = ["upper", "lower"].map(|name| directory.path().join(name));
        for layer in &layers {
            fs::create_dir_all(layer.join("bin")).unwrap();
        }
        let [upper, lower] = &layers;
        fs::write(upper.join("bin/both"), "upper").unwrap();
        fs::write(lower.join("bin/both"), "lower").unwrap();
        fs::write(lower.join("bin/low"), "lower").unwrap();
        fs::write(lower.join("bin/hidden"), "lower").unwrap();
        fs::create_dir(upper.join("bin/hidden")).unwrap();
        symlink("/etc/passwd", upper.join("bin/link")).unwrap();
        symlink("/etc", upper.join("etc")).unwrap();
        for (path, expected) in [
            ("bin/both", Some("upper")),
            ("bin/low", Some("lower")),
            ("bin/hidden", None),
            ("bin/link", None),
            ("etc/passwd", None),
            ("bin/none", None),
            ("bin/both/none", None),
        ] {
            let text = open_file(&layers, path).unwrap().map(|mut file| {
                let mut text = String::new();
                file.read_to_string(&mut text).unwrap();
                text
            });
            assert_eq!(text.as_deref(), expected, "{path}");
        }
    }
}
