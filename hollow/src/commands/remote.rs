//! Requests to a running cloud beyond the Kubernetes API.

use cloudsim::{ADMIN_PREFIX, LEASE, pki::NAMESPACE};
use http::{Method, Request};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use serde::{Serialize, de::DeserializeOwned};

use super::connect::connect;
use crate::cli::Access;

/// A running cloud.
pub(super) struct Remote {
    /// A client of its API.
    pub(super) client: Client,
}

impl Remote {
    /// Connects to the cloud of a kubeconfig.
    pub(super) async fn of(access: &Access) -> anyhow::Result<Self> {
        Ok(Self {
            client: connect(access).await?,
        })
    }

    /// Reports whether the server is that of an existing cluster with a cloud, whose replicas hold a Lease there. A cloud with an API of
    /// its own has an admin API for [`Self::ask`]; with a cluster, everything is in the cluster's API.
    pub(super) async fn is_a_cluster(&self) -> anyhow::Result<bool> {
        let leases = Api::<Lease>::namespaced(self.client.clone(), NAMESPACE);
        match leases.get_opt(LEASE).await {
            Ok(found) => Ok(found.is_some()),
            // A user who may not read Leases gets the error of the request that follows.
            Err(kube::Error::Api(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends one request to the admin API.
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
        self.client
            .request(request)
            .await
            .map_err(|error| match error {
                // The cloud's message is readable; the text that kube wraps around it is not.
                kube::Error::Api(status) => anyhow::anyhow!("{}", status.message),
                error => error.into(),
            })
    }
}
