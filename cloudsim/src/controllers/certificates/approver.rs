//! Decides about nodes' certificate requests by the present state of the API and the sessions.

use k8s_openapi::api::{
    certificates::v1::CertificateSigningRequestSpec,
    core::v1::{Node, Service},
};
use kube::{Api, Client, ResourceExt, api::ListParams};
use kubeapi::LenientObject;

use super::approval::{self, Decision, NodeNames, ReservedNames, SIGNER};
use crate::sessions::Sessions;

/// Approves or denies requests of nodes.
#[derive(Clone, Debug)]
pub struct Approver {
    /// The names and addresses of the cloud itself, which no node may have, except loopback ones.
    pub cloud: Vec<String>,
    /// The sessions, for nodes' addresses.
    pub sessions: Sessions,
}

impl Approver {
    /// Returns why a node that is connected here may not have what it requests; `None` if it may. `spec` names the node as requester.
    pub(crate) async fn reason_to_deny(
        &self,
        client: &Client,
        spec: &CertificateSigningRequestSpec,
    ) -> Result<Option<String>, kube::Error> {
        if spec.signer_name != SIGNER {
            return Ok(Some(format!(
                "the signer {:?} is not {SIGNER:?}",
                spec.signer_name
            )));
        }
        Ok(match self.decide(client, spec).await? {
            Decision::Approve => None,
            Decision::Deny(why) => Some(why),
            Decision::Wait => Some("the node is not connected".to_owned()),
            Decision::Leave => Some("the requester is not a node".to_owned()),
        })
    }

    /// Decides about a request.
    pub(super) async fn decide(
        &self,
        client: &Client,
        spec: &CertificateSigningRequestSpec,
    ) -> Result<Decision, kube::Error> {
        let names = match approval::user(spec) {
            Some(node) => self.names(client, node).await?,
            None => NodeNames::default(),
        };
        Ok(approval::decide(
            spec,
            &names,
            &self.reserved_names(client).await?,
        ))
    }

    /// Returns the names that the node may have.
    async fn names(&self, client: &Client, node: &str) -> Result<NodeNames, kube::Error> {
        let seen = self.sessions.address(node);
        let is_shared = seen.is_some_and(|seen| self.sessions.is_shared(node, seen));
        let object = Api::<Node>::all(client.clone()).get_opt(node).await?;
        Ok(NodeNames {
            seen,
            is_shared,
            allowed: NodeNames::allowed_by(object.as_ref()),
        })
    }

    /// Returns the names that no node may have.
    pub(super) async fn reserved_names(
        &self,
        client: &Client,
    ) -> Result<ReservedNames, kube::Error> {
        let services = Api::<LenientObject<Service>>::all(client.clone())
            .list(&ListParams::default())
            .await?;
        // of one that cannot be decoded, the name is reserved, too
        let named = |service: LenientObject<Service>| {
            service.into_decoded().unwrap_or_else(|error| Service {
                metadata: error.metadata,
                ..Service::default()
            })
        };
        let services: Vec<_> = services.into_iter().map(named).collect();
        let nodes = Api::<Node>::all(client.clone())
            .list_metadata(&ListParams::default())
            .await?;
        Ok(ReservedNames::new(
            &self.cloud,
            &services,
            nodes.iter().map(ResourceExt::name_any),
        ))
    }
}
