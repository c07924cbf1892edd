//! Nodes' requests for service account tokens, made against the API once `tokens` or a grant allows them.

use k8s_openapi::api::{
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
    core::v1::ServiceAccount,
};
use kube::{Api, api::PostParams};
use serde_json::Value;
use wire::{Answer, text::printable_short};

use super::{
    Edge, objects,
    outcome::{Outcome, refuse},
    request::Request,
    tokens::{self, Verdict},
};
use crate::{
    controllers::{api_status, refusal_log::log_refused},
    mailbox::{ObjectKind, ObjectPath},
};

impl Edge {
    /// Requests a token of an account of one of the node's pods.
    pub(super) async fn token(
        &self,
        node: &str,
        request: &Request<'_>,
    ) -> Result<Outcome, kube::Error> {
        let Request {
            namespace,
            name,
            content,
            ..
        } = request;
        if let Some(reason) = self.token_refusal(node, (namespace, name), content).await? {
            let path = ObjectPath::new(ObjectKind::Pod, *namespace, pod_named(content));
            if !path.name.is_empty() && objects::get(&self.client, &path).await?.is_none() {
                let message = format!("pods \"{}\" not found", printable_short(&path.name));
                return Ok(refuse(
                    request,
                    api_status::failure(404, "NotFound", &message),
                ));
            }
            log_refused(node, &reason);
            return Ok(refuse(
                request,
                api_status::failure(403, "Forbidden", &reason),
            ));
        }
        let api = Api::<ServiceAccount>::namespaced(self.client.clone(), namespace);
        let token: Value = api
            .create_subresource("token", name, &PostParams::default(), content)
            .await?;
        Ok(Outcome::Answer(Answer::Found(token), None))
    }

    /// Returns why `node` gets no token of this account with this `TokenRequest`.
    pub(crate) async fn token_refusal(
        &self,
        node: &str,
        (namespace, account): (&str, &str),
        request: &Value,
    ) -> Result<Option<String>, kube::Error> {
        let verdict = tokens::decide(node, namespace, account, request, &self.index.read());
        let audience = match verdict {
            Verdict::Allowed => return Ok(None),
            Verdict::Refused(why) => return Ok(Some(why)),
            Verdict::IfGranted(audience) => audience,
        };
        let question = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(format!("system:node:{node}")),
                groups: Some(vec![
                    "system:nodes".to_owned(),
                    "system:authenticated".to_owned(),
                ]),
                resource_attributes: Some(ResourceAttributes {
                    verb: Some("request-serviceaccounts-token-audience".to_owned()),
                    resource: Some(audience.clone()),
                    name: Some(account.to_owned()),
                    namespace: Some(namespace.to_owned()),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let answer = Api::all(self.client.clone())
            .create(&PostParams::default(), &question)
            .await?;
        let is_granted = answer.status.is_some_and(|status| status.allowed);
        Ok((!is_granted).then(|| {
            format!(
                "audience {:?} is not requested by the pod, and not granted to node {node}",
                printable_short(&audience)
            )
        }))
    }
}

/// Returns the name of the pod to which a `TokenRequest` is bound.
fn pod_named(request: &Value) -> &str {
    let bound = request
        .pointer("/spec/boundObjectRef")
        .filter(|bound| bound["kind"] == "Pod");
    bound
        .and_then(|bound| bound["name"].as_str())
        .unwrap_or_default()
}
