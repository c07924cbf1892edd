//! A node's requests for the certificate of its own server: made in the node's name, whatever they say themselves, and read by
//! nobody else.

use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec};
use kube::{
    Api,
    api::{ListParams, ObjectMeta, PostParams},
};
use rustls_pki_types::{CertificateSigningRequestDer, pem::PemObject};
use serde_json::Value;
use tracing::warn;
use wire::{Answer, Change, ObjectResp, ResourceType, Upstream, enroll::node_of_request};

use super::{
    Edge,
    authorize::{Denied, denied},
    outcome::{Outcome, refuse},
    request::Request,
    status,
};

/// How many requests of one node there may be; they are deleted an hour after they were answered.
const LIMIT: usize = 32;

/// Whether the request is about one of these.
pub(super) fn is_asked_by(request: &Request<'_>) -> bool {
    request.kind == ResourceType::CertificateSigningRequest
}

impl Edge {
    /// Makes the certificate request, or answers with it, if it is the node's.
    pub(super) async fn certificate(
        &self,
        node: &str,
        request: &Request<'_>,
    ) -> Result<Outcome, kube::Error> {
        let api = Api::<CertificateSigningRequest>::all(self.client.clone());
        let user = format!("system:node:{node}");
        let is_own =
            |found: &CertificateSigningRequest| found.spec.username.as_deref() == Some(user.as_str());
        let forbidden = || {
            let Denied(reason) = denied(node, request);
            warn!(node, reason, "refused");
            refuse(request, status::failure(403, "Forbidden", &reason))
        };
        if !self.certificate_requests {
            let why = "this cloud stands before a cluster's API server, which would take the request for the cloud's own: MetaServer gets no \
                       certificate of the cluster here";
            warn!(node, why, "refused");
            return Ok(refuse(request, status::failure(403, "Forbidden", why)));
        }
        match request.body {
            Upstream::Object { change: Change::Insert, object, .. } => {
                let mut new: CertificateSigningRequest =
                    serde_json::from_value(object.clone()).map_err(kube::Error::SerdeError)?;
                if new.metadata.name.as_deref().unwrap_or_default() != request.name {
                    return Ok(forbidden());
                }
                if !is_for_itself(node, &new.spec) {
                    return Ok(forbidden());
                }
                let own =
                    api.list(&ListParams::default()).await?.iter().filter(|found| is_own(found)).count();
                if own >= LIMIT {
                    let why = format!(
                        "node {node} has {own} certificate requests; they are deleted an hour after they are answered"
                    );
                    return Ok(refuse(request, status::failure(429, "TooManyRequests", &why)));
                }
                let ObjectMeta { name, generate_name, .. } = new.metadata;
                new.metadata = ObjectMeta { name, generate_name, ..ObjectMeta::default() };
                new.status = None;
                new.spec.username = Some(user);
                new.spec.groups = Some(vec!["system:nodes".to_owned(), "system:authenticated".to_owned()]);
                (new.spec.uid, new.spec.extra) = (None, None);
                let made = to_value(&api.create(&PostParams::default(), &new).await?)?;
                Ok(Outcome::Answer(Answer::Response(ObjectResp::ok(made)), None))
            }
            Upstream::Query { .. } => match api.get_opt(request.name).await? {
                Some(found) if is_own(&found) => Ok(Outcome::Answer(Answer::Found(to_value(&found)?), None)),
                Some(_) => Ok(forbidden()),
                None => {
                    let why = format!("{}s \"{}\" not found", request.kind, request.name);
                    Ok(refuse(request, status::failure(404, "NotFound", &why)))
                }
            },
            _ => Ok(forbidden()),
        }
    }
}

/// Whether a request for a signer of nodes' certificates is for this very node.
fn is_for_itself(node: &str, spec: &CertificateSigningRequestSpec) -> bool {
    const SIGNERS: [&str; 2] =
        ["kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"];
    if !SIGNERS.contains(&spec.signer_name.as_str()) {
        return true;
    }
    let csr = CertificateSigningRequestDer::from_pem_slice(&spec.request.0);
    csr.is_ok_and(|csr| node_of_request(&csr).is_ok_and(|of| of == node))
}

fn to_value(object: &CertificateSigningRequest) -> Result<Value, kube::Error> {
    serde_json::to_value(object).map_err(kube::Error::SerdeError)
}
