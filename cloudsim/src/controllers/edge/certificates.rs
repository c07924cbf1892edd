//! Nodes' requests for the certificate of their own server: created in the node's name, whatever they contain, and readable by that node
//! only. Before a cluster's API server they are created in this cloud's name, which then approves them itself.

use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestSpec,
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use kubeapi::{LenientObject, keep_decoded};
use rustls_pki_types::{CertificateSigningRequestDer, pem::PemObject};
use serde_json::{Value, json};
use wire::{Answer, ObjectResp, enroll::node_of_request};

use super::{
    Edge,
    authorize::{Denied, denial},
    outcome::{Outcome, refuse},
    request::{Request, Verb},
};
use crate::controllers::{api_status, certificates::approved_condition, refusal_log::log_refused};

/// The most requests of one node at a time; they are deleted an hour after they were answered.
const MAX_REQUESTS_PER_NODE: usize = 32;
/// The annotation of a request that this cloud created for a node, with the node's name.
const NODE_ANNOTATION: &str = "cloudsim/node";

impl Edge {
    /// Creates the certificate request, or returns it, if it is the node's.
    pub(super) async fn certificate(
        &self,
        node: &str,
        request: &Request<'_>,
    ) -> Result<Outcome, kube::Error> {
        let api = Api::<CertificateSigningRequest>::all(self.client.clone());
        let user = format!("system:node:{node}");
        let is_own = |found: &CertificateSigningRequest| match &self.approver {
            None => found.spec.username.as_deref() == Some(user.as_str()),
            Some(_) => found
                .annotations()
                .get(NODE_ANNOTATION)
                .is_some_and(|by| by == node),
        };
        let forbidden = || {
            let Denied(reason) = denial(node, request);
            log_refused(node, &reason);
            refuse(request, api_status::failure(403, "Forbidden", &reason))
        };
        match request.verb {
            Verb::Insert => {
                let mut new: CertificateSigningRequest =
                    serde_json::from_value(request.content.clone())
                        .map_err(kube::Error::SerdeError)?;
                if new.metadata.name.as_deref().unwrap_or_default() != request.name {
                    return Ok(forbidden());
                }
                if !is_for_itself(node, &new.spec) {
                    return Ok(forbidden());
                }
                let all = Api::<LenientObject<CertificateSigningRequest>>::all(self.client.clone());
                let all = keep_decoded(all.list(&ListParams::default()).await?);
                let own = all.iter().filter(|found| is_own(found)).count();
                if own >= MAX_REQUESTS_PER_NODE {
                    let why = format!(
                        "node {node} has {own} certificate requests; they are deleted an hour after they are answered"
                    );
                    return Ok(refuse(
                        request,
                        api_status::failure(429, "TooManyRequests", &why),
                    ));
                }
                let ObjectMeta {
                    name,
                    generate_name,
                    ..
                } = new.metadata;
                new.metadata = ObjectMeta {
                    name,
                    generate_name,
                    ..ObjectMeta::default()
                };
                new.status = None;
                new.spec.username = Some(user);
                new.spec.groups = Some(vec![
                    "system:nodes".to_owned(),
                    "system:authenticated".to_owned(),
                ]);
                (new.spec.uid, new.spec.extra) = (None, None);
                let made = match &self.approver {
                    None => api.create(&PostParams::default(), &new).await?,
                    Some(approver) => match approver.reason_to_deny(&self.client, &new.spec).await?
                    {
                        Some(why) => {
                            log_refused(node, &why);
                            return Ok(refuse(
                                request,
                                api_status::failure(403, "Forbidden", &why),
                            ));
                        }
                        None => self.create_approved(node, new).await?,
                    },
                };
                Ok(Outcome::Answer(
                    Answer::Response(ObjectResp::ok(to_value(&made)?)),
                    None,
                ))
            }
            Verb::Query => match api.get_opt(request.name).await? {
                Some(found) if is_own(&found) => {
                    Ok(Outcome::Answer(Answer::Found(to_value(&found)?), None))
                }
                Some(_) => Ok(forbidden()),
                None => {
                    let why = format!("{}s \"{}\" not found", request.kind, request.name);
                    Ok(refuse(request, api_status::failure(404, "NotFound", &why)))
                }
            },
            Verb::Update | Verb::Delete | Verb::Patch => Ok(forbidden()),
        }
    }
}

impl Edge {
    /// Creates a node's request in this cloud's name and approves it: the API server does not know the node.
    async fn create_approved(
        &self,
        node: &str,
        mut new: CertificateSigningRequest,
    ) -> Result<CertificateSigningRequest, kube::Error> {
        let api = Api::<CertificateSigningRequest>::all(self.client.clone());
        new.annotations_mut()
            .insert(NODE_ANNOTATION.to_owned(), node.to_owned());
        (new.spec.username, new.spec.groups) = (None, None);
        let made = api.create(&PostParams::default(), &new).await?;
        let yes = json!({"metadata": {"resourceVersion": made.resource_version()}, "status": {"conditions": [approved_condition()]}});
        api.patch_approval(
            &made.name_any(),
            &PatchParams::default(),
            &Patch::Merge(yes),
        )
        .await
    }
}

/// Reports whether a request for a signer of nodes' certificates is for this node.
fn is_for_itself(node: &str, spec: &CertificateSigningRequestSpec) -> bool {
    const SIGNERS: [&str; 2] = [
        "kubernetes.io/kubelet-serving",
        "kubernetes.io/kube-apiserver-client-kubelet",
    ];
    if !SIGNERS.contains(&spec.signer_name.as_str()) {
        return true;
    }
    let csr = CertificateSigningRequestDer::from_pem_slice(&spec.request.0);
    csr.is_ok_and(|csr| node_of_request(&csr).is_ok_and(|of| of == node))
}

fn to_value(object: &CertificateSigningRequest) -> Result<Value, kube::Error> {
    serde_json::to_value(object).map_err(kube::Error::SerdeError)
}
