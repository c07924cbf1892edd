//! What is asked of a running cloud beside the Kubernetes API.

use std::path::Path;

use cloudsim::{ADMIN_PREFIX, LEASE, pki::NAMESPACE};
use http::{Method, Request, Uri};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use serde::{Serialize, de::DeserializeOwned};

use super::connect::connect;

/// A running cloud.
pub(super) struct Remote {
    /// Its API.
    pub(super) client: Client,
    /// Where that is, for people.
    pub(super) server: Uri,
}

impl Remote {
    /// The cloud of a kubeconfig.
    pub(super) async fn of(kubeconfig: Option<&Path>) -> anyhow::Result<Self> {
        let (client, server) = connect(kubeconfig).await?;
        Ok(Self { client, server })
    }

    /// Whether the server is that of a cluster before which a cloud stands: its replicas hold a Lease there. The administrators' part of
    /// a cloud with an API of its own is asked by [`Self::ask`]; here everything is in the cluster.
    pub(super) async fn is_a_cluster(&self) -> anyhow::Result<bool> {
        let leases = Api::<Lease>::namespaced(self.client.clone(), NAMESPACE);
        match leases.get_opt(LEASE).await {
            Ok(found) => Ok(found.is_some()),
            // whoever may not read it is told by what he asks for
            Err(kube::Error::Api(_)) => Ok(false),
            Err(error) => {
                let context = format!("{} does not answer; check that the cloud runs", self.server);
                Err(anyhow::Error::new(error).context(context))
            }
        }
    }

    /// One request of the administrators' part.
    pub(super) async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> anyhow::Result<T> {
        let request = Request::builder()
            .method(method)
            .uri(format!("{ADMIN_PREFIX}{path}"))
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(serde_json::to_vec(body)?)?;
        self.client.request(request).await.map_err(|error| match error {
            // what the cloud says is for people; its wrapping is not
            kube::Error::Api(status) => anyhow::anyhow!("{}", status.message),
            error => anyhow::Error::new(error)
                .context(format!("{} does not answer; check that the cloud runs", self.server)),
        })
    }
}
