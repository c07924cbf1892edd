//! `ImageService`: any image is present after it was pulled.

use tonic::{Request, Response, Status};
use wire::cri::{self, image_service_server::ImageService};

use super::{Reply, Service, pause};
use crate::runtime::state::{IMAGE_BYTES, Reference, Registry};

/// The annotation of a pod that says which user its images run as, by number or name.
const IMAGE_USER: &str = "sim.outrigger.dev/image-user";

fn with_user(image: cri::Image, user: Option<String>) -> cri::Image {
    match user.map(|user| user.parse().map_err(|_| user)) {
        None => image,
        Some(Ok(value)) => cri::Image {
            uid: Some(cri::Int64Value { value }),
            ..image
        },
        Some(Err(username)) => cri::Image {
            uid: None,
            username,
            ..image
        },
    }
}

fn name(image: Option<cri::ImageSpec>) -> Result<String, Status> {
    match image {
        Some(image) if !image.image.is_empty() => Ok(image.image),
        _ => Err(Status::invalid_argument("image.image is missing")),
    }
}

#[tonic::async_trait]
impl ImageService for Service {
    async fn list_images(
        &self,
        request: Request<cri::ListImagesRequest>,
    ) -> Reply<cri::ListImagesResponse> {
        let filter = request.into_inner().filter.and_then(|filter| filter.image);
        let wanted = filter
            .map(|image| image.image)
            .filter(|image| !image.is_empty());
        let images = self.core.read(|state| match wanted {
            Some(wanted) => state
                .find_image(&wanted)
                .map(Reference::image)
                .into_iter()
                .collect(),
            None => state.images().map(Reference::image).collect(),
        });
        Ok(Response::new(cri::ListImagesResponse { images }))
    }

    async fn image_status(
        &self,
        request: Request<cri::ImageStatusRequest>,
    ) -> Reply<cri::ImageStatusResponse> {
        let spec = request.into_inner().image.unwrap_or_default();
        let user = spec.annotations.get(IMAGE_USER).cloned();
        let name = name(Some(spec))?;
        let image = self
            .core
            .read(|state| state.find_image(&name).map(Reference::image));
        let image = image.map(|image| with_user(image, user));
        Ok(Response::new(cri::ImageStatusResponse {
            image,
            ..Default::default()
        }))
    }

    async fn pull_image(
        &self,
        request: Request<cri::PullImageRequest>,
    ) -> Reply<cri::PullImageResponse> {
        let name = name(request.into_inner().image)?;
        let failed = |why: &str| format!("failed to pull and unpack image {name:?}: {why}");
        let reference =
            Reference::parse(&name).map_err(|e| Status::invalid_argument(failed(&e)))?;
        match reference.registry() {
            Registry::Absent => {
                return Err(Status::not_found(failed(
                    "failed to resolve reference: not found",
                )));
            }
            Registry::Unresolvable => {
                let host = reference.host();
                let why = format!(
                    "failed to resolve reference {name:?}: failed to do request: dial tcp: lookup {host}: no such host"
                );
                return Err(Status::unknown(failed(&why)));
            }
            Registry::Denied => {
                return Err(Status::unknown(failed("pull access denied, unauthorized")));
            }
            Registry::Serves { after } => pause(after).await,
        }
        let image_ref = reference.id();
        self.core.change(|state, _| state.add_image(reference));
        Ok(Response::new(cri::PullImageResponse { image_ref }))
    }

    async fn remove_image(
        &self,
        request: Request<cri::RemoveImageRequest>,
    ) -> Reply<cri::RemoveImageResponse> {
        let name = name(request.into_inner().image)?;
        self.core.change(|state, _| state.remove_image(&name));
        Ok(Response::new(cri::RemoveImageResponse {}))
    }

    async fn image_fs_info(
        &self,
        _: Request<cri::ImageFsInfoRequest>,
    ) -> Reply<cri::ImageFsInfoResponse> {
        let (count, timestamp) = self
            .core
            .with_state(|state, now| (state.images().count() as u64, now));
        let root = self
            .core
            .options
            .root
            .as_deref()
            .unwrap_or(std::path::Path::new("/"));
        let usage = cri::FilesystemUsage {
            timestamp,
            fs_id: Some(cri::FilesystemIdentifier {
                mountpoint: root.display().to_string(),
            }),
            used_bytes: Some(cri::UInt64Value {
                value: count * IMAGE_BYTES,
            }),
            inodes_used: Some(cri::UInt64Value { value: count }),
        };
        Ok(Response::new(cri::ImageFsInfoResponse {
            image_filesystems: vec![usage.clone()],
            container_filesystems: vec![usage],
        }))
    }
}
