//! Pulls images that no pod needs yet, for node jobs.

use std::{collections::BTreeMap, path::PathBuf};

use wire::cri;

use crate::{
    RuntimeChannel,
    pods::registry::{credentials_of, plain_credentials},
    pressure::machine::image_root,
    runtime::Runtime,
};

/// Pulls images. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ImagePuller(Runtime);

impl ImagePuller {
    /// Creates it for a container runtime, CRI v1; `images` is the image service if that is another one.
    pub fn new(runtime: RuntimeChannel, images: Option<RuntimeChannel>) -> Self {
        Self(Runtime::new(runtime, images))
    }

    /// Returns a directory on the disk of images, if the runtime reports it and this program can access it.
    pub async fn image_root(&self) -> Option<PathBuf> {
        image_root(&self.0).await
    }

    /// Pulls an image, unless it is on this node. `secret` is the data of a Secret with credentials of registries, of type
    /// `kubernetes.io/dockerconfigjson` or `kubernetes.io/dockercfg`; as with kubelet, the entry for the image's registry is used. If
    /// `.dockerconfigjson` is one `AuthConfig` of CRI, as KubeEdge reads it, it is used, too.
    ///
    /// # Errors
    /// The runtime's message, or those for each of several credentials.
    pub async fn pull(
        &self,
        image: &str,
        secret: Option<&BTreeMap<String, Vec<u8>>>,
    ) -> Result<(), String> {
        let spec = cri::ImageSpec {
            image: image.to_owned(),
            ..Default::default()
        };
        let found = self.0.image(spec).await;
        match found.map_err(|error| error.message().to_owned())? {
            Some(_) => Ok(()),
            None => {
                let mut credentials = credentials_of(secret, image);
                credentials.extend(secret.and_then(|secret| plain_credentials(secret, image)));
                self.0.pull_with_any(image, credentials, None).await
            }
        }
    }
}
