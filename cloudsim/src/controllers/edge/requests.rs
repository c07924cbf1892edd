//! Nodes' requests about objects, made against the API.

use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Node, Pod},
};
use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, PostParams, Preconditions},
};
use serde_json::Value;
use tracing::warn;
use wire::{Answer, Downstream, Header, ObjectResp, ResourcePath, ResourceType};

use super::{
    Edge,
    authorize::{Denied, Rule, Stored, authorize, patch_of, rule},
    objects,
    outcome::{Outcome, refuse, reply},
    request::{Request, Verb},
    restriction,
};
use crate::{
    controllers::{api_status, deadline::within, refusal_log::log_refused},
    delivery::Reply,
    mailbox::{ObjectKind, ObjectPath},
    streams::complete_patch,
};

/// The state of the pod that a refused request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PodState {
    /// It does not exist, or another pod has its name: a report that crossed with the pod's deletion is no violation.
    Gone,
    /// It is another node's, and the patch names no uid: the answer is the same as if the pod did not exist, so that no node finds out
    /// which pods others have.
    Hidden,
    /// Anything else.
    Here,
}

impl Edge {
    /// Answers a node's query for the cluster's CA.
    pub fn root_ca(&self, header: &Header) -> Reply {
        let answer = Downstream::RootCa(Value::from(&*self.root_ca));
        Reply::Direct(
            answer
                .into_message(clock::unix_millis())
                .answering(&header.msg_id),
        )
    }

    /// Handles a request of `node` about the object at `path`; returns the answer, if there is one.
    pub async fn request(
        &self,
        node: &str,
        header: &Header,
        verb: Verb,
        (path, content): (ResourcePath, &Value),
    ) -> Option<Reply> {
        let outcome = match Request::new(verb, &path, content) {
            Some(request) => within(node, self.outcome(node, &request))
                .await
                .unwrap_or_else(|status| refuse(&request, status)),
            None => return self.unhandled.request(node, header, verb, path),
        };
        reply(outcome, path, &header.msg_id)
    }

    async fn outcome(&self, node: &str, request: &Request<'_>) -> Outcome {
        let outcome = match rule(&request.kind, request.verb) {
            Rule::Storage => self.storage(node, request).await,
            Rule::OwnCertificate => self.certificate(node, request).await,
            Rule::PodToken => self.token(node, request).await,
            _ => self.object(node, request).await,
        };
        outcome.unwrap_or_else(|error| refuse(request, api_status::of(&error)))
    }

    /// Handles a request that can be authorized before anything is done.
    async fn object(&self, node: &str, request: &Request<'_>) -> Result<Outcome, kube::Error> {
        let (node_uid, object) = self.stored_for(node, request).await?;
        let stored = Stored {
            node_uid: node_uid.as_deref(),
            object: object.as_ref(),
            is_for_job: request.kind == ResourceType::Secret
                && request.verb == Verb::Query
                && self
                    .node_jobs
                    .as_ref()
                    .is_some_and(|jobs| jobs.has_secret(node, request.namespace, request.name)),
        };
        let allowed = authorize(node, request, &self.index.read(), stored);
        if let Err(Denied(reason)) = allowed {
            let pod = self.pod_state(node, request).await;
            if pod != PodState::Gone {
                log_refused(node, &reason);
            }
            let status = if pod == PodState::Here {
                api_status::failure(403, "Forbidden", &reason)
            } else {
                let message = format!("pods \"{}\" not found", request.name);
                api_status::failure(404, "NotFound", &message)
            };
            return Ok(refuse(request, status));
        }
        if let Some(reason) = self.is_deleted(node, request).await {
            log_refused(node, &reason);
            return Ok(refuse(
                request,
                api_status::failure(403, "Forbidden", &reason),
            ));
        }
        let outcome = self.carry_out(node, request).await;
        if let (Err(error), ResourceType::Event) = (&outcome, &request.kind) {
            self.unhandled.event(node, &error.to_string());
        }
        outcome
    }

    /// Reads the stored objects that authorization needs: the uid of the node's Node, and the object whose status is patched.
    async fn stored_for(
        &self,
        node: &str,
        request: &Request<'_>,
    ) -> Result<(Option<String>, Option<Value>), kube::Error> {
        let found = async |kind, namespace: &str, name: &str| {
            objects::get(&self.client, &ObjectPath::new(kind, namespace, name)).await
        };
        match rule(&request.kind, request.verb) {
            Rule::MirrorPod => {
                let own = found(ObjectKind::Node, "", node).await?;
                let uid = own.and_then(|own| own["metadata"]["uid"].as_str().map(str::to_owned));
                Ok((uid, None))
            }
            rule @ (Rule::NodeStatus | Rule::PodStatus) => {
                // nearly all patches contain only the status
                let is_plain = patch_of(request.content).is_ok_and(|patch| {
                    patch
                        .as_object()
                        .is_some_and(|patch| patch.keys().all(|field| field == "status"))
                        && patch.pointer("/status/resourceClaimStatuses").is_none()
                });
                if is_plain {
                    return Ok((None, None));
                }
                let (kind, namespace) = match rule {
                    Rule::NodeStatus => (ObjectKind::Node, ""),
                    _ => (ObjectKind::Pod, request.namespace),
                };
                Ok((None, found(kind, namespace, request.name).await?))
            }
            // a node that registers anew has no finalizers, and one that renews repeats those of the stored Lease
            Rule::OwnLease if !restriction::is_plain_lease(node, request.content) => {
                let leases = self.of::<Lease>(request.namespace);
                let lease = leases.get_opt(request.name).await?;
                let lease = lease.map(serde_json::to_value).transpose();
                Ok((None, lease.map_err(kube::Error::SerdeError)?))
            }
            _ => Ok((None, None)),
        }
    }

    /// Returns why a node may not create its Node: it had one since it joined, which was deleted.
    async fn is_deleted(&self, node: &str, request: &Request<'_>) -> Option<String> {
        let is_new = rule(&request.kind, request.verb) == Rule::NewNode;
        let certificates = self.certificates.as_ref().filter(|_| is_new)?;
        let had_one = match certificates.uid(node).await {
            Ok(uid) => uid.is_some(),
            Err(error) => return Some(error.to_string()),
        };
        let path = ObjectPath::new(ObjectKind::Node, "", node);
        if !had_one || !matches!(objects::get(&self.client, &path).await, Ok(None)) {
            return None;
        }
        if let Err(error) = certificates.reset(node).await {
            warn!(
                node,
                error = &error as &dyn std::error::Error,
                "failed to revoke certificate of a deleted node"
            );
        }
        Some(format!(
            "the Node of {node} was deleted; join again with a token"
        ))
    }

    /// Returns the state of the pod of a refused request.
    async fn pod_state(&self, node: &str, request: &Request<'_>) -> PodState {
        let is_pod = matches!(
            request.kind,
            ResourceType::Pod | ResourceType::PodPatch | ResourceType::PodStatus
        );
        let is_new = request.verb == Verb::Insert;
        let path = ObjectPath::new(ObjectKind::Pod, request.namespace, request.name);
        if !is_pod || is_new {
            return PodState::Here;
        }
        let uid = match request.verb {
            Verb::Delete => uid_to_delete(request.content).map(str::to_owned),
            _ => patch_of(request.content)
                .ok()
                .and_then(|patch| Some(patch.pointer("/metadata/uid")?.as_str()?.to_owned())),
        };
        match objects::get(&self.client, &path).await {
            Ok(None) => PodState::Gone,
            Err(_) => PodState::Here,
            Ok(Some(pod)) => match uid {
                Some(uid) if uid != pod["metadata"]["uid"] => PodState::Gone,
                None if request.verb == Verb::Patch && pod["spec"]["nodeName"] != node => {
                    PodState::Hidden
                }
                Some(_) | None => PodState::Here,
            },
        }
    }

    async fn carry_out(&self, node: &str, request: &Request<'_>) -> Result<Outcome, kube::Error> {
        let Request {
            kind,
            verb,
            namespace,
            name,
            content,
        } = request;
        let post = PostParams::default();
        match (kind, verb) {
            (ResourceType::Node, Verb::Insert) => {
                let mut object: DynamicObject = parse(content)?;
                // counts only in place of a damaged Node, whose certificates stay valid
                object.metadata.uid = self.registered_uid(node).await;
                let made = self.of::<Node>("").create(&post, &object).await;
                if let (Ok(made), Some(certificates)) = (&made, &self.certificates)
                    && let Err(error) = certificates
                        .set_uid(node, made.metadata.uid.as_deref().unwrap_or_default())
                        .await
                {
                    warn!(
                        node,
                        error = &error as &dyn std::error::Error,
                        "failed to record Node registration"
                    );
                }
                self.read_outcome(made)
            }
            (ResourceType::NodePatch, Verb::Patch) => {
                let mut patch = patch_of(content).map_err(kube::Error::SerdeError)?;
                complete_patch(&mut patch, name, self.kubelets.as_ref());
                match self.patch_node(name, patch).await {
                    // the node registers again, which writes its Node anew
                    Err(kube::Error::Api(status)) if kubeapi::is_damaged(&status) => {
                        let message = format!("nodes \"{name}\" not found: {}", status.message);
                        Ok(refuse(
                            request,
                            api_status::failure(404, "NotFound", &message),
                        ))
                    }
                    patched => patched,
                }
            }
            (ResourceType::PodPatch, Verb::Patch) => {
                let patch = patch_of(content).map_err(kube::Error::SerdeError)?;
                self.patch_status(&self.of::<Pod>(namespace), name, patch)
                    .await
            }
            (ResourceType::Pod, Verb::Insert) => self.read_outcome(
                self.of::<Pod>(namespace)
                    .create(&post, &parse(content)?)
                    .await,
            ),
            (ResourceType::Pod, Verb::Delete) => self.delete_pod(namespace, name, content).await,
            (ResourceType::Lease, Verb::Query) => {
                self.handle_renewal(self.of::<Lease>(namespace).get(name).await)
            }
            (ResourceType::Lease, Verb::Insert) => self.handle_renewal(
                self.of::<Lease>(namespace)
                    .create(&post, &parse(content)?)
                    .await,
            ),
            (ResourceType::Lease, Verb::Update) => self.handle_renewal(
                self.of::<Lease>(namespace)
                    .replace(name, &post, &parse(content)?)
                    .await,
            ),
            (ResourceType::ConfigMap, Verb::Query) => {
                self.query(ObjectKind::ConfigMap, request).await
            }
            (ResourceType::Secret, Verb::Query) => self.query(ObjectKind::Secret, request).await,
            (ResourceType::Node, Verb::Query) => self.query(ObjectKind::Node, request).await,
            (ResourceType::Event, Verb::Insert) => self.event(node, namespace, content).await,
            (ResourceType::Event, Verb::Patch) => {
                self.event_again(node, namespace, name, content).await
            }
            _ => {
                let reason = format!("this cloud carries out no such request for {kind}");
                if *kind == ResourceType::Event {
                    self.unhandled.event(node, &reason);
                }
                Ok(refuse(
                    request,
                    api_status::failure(405, "MethodNotAllowed", &reason),
                ))
            }
        }
    }

    /// Returns the uid that the node's Node had, if the node's certificates are recorded here.
    async fn registered_uid(&self, node: &str) -> Option<String> {
        self.certificates.as_ref()?.uid(node).await.ok().flatten()
    }

    pub(super) fn of<K: kube::Resource<DynamicType = ()>>(
        &self,
        namespace: &str,
    ) -> Api<DynamicObject> {
        let resource = ApiResource::erase::<K>(&());
        match namespace {
            "" => Api::all_with(self.client.clone(), &resource),
            namespace => Api::namespaced_with(self.client.clone(), namespace, &resource),
        }
    }

    fn read_outcome(
        &self,
        result: Result<DynamicObject, kube::Error>,
    ) -> Result<Outcome, kube::Error> {
        let object = serde_json::to_value(result?).map_err(kube::Error::SerdeError)?;
        Ok(Outcome::Answer(
            Answer::Response(ObjectResp::ok(object)),
            None,
        ))
    }

    /// Removes from a lease what no node uses, since it is sent every ten seconds.
    fn handle_renewal(
        &self,
        result: Result<DynamicObject, kube::Error>,
    ) -> Result<Outcome, kube::Error> {
        self.read_outcome(result.map(|mut lease| {
            lease.metadata.managed_fields = None;
            lease
        }))
    }

    /// Patches a status.
    async fn patch_status(
        &self,
        api: &Api<DynamicObject>,
        name: &str,
        patch: Value,
    ) -> Result<Outcome, kube::Error> {
        let object = objects::patch_status(&self.client, api, name, patch).await?;
        let revision = object["metadata"]["resourceVersion"]
            .as_str()
            .map(str::to_owned);
        Ok(Outcome::Answer(
            Answer::Response(ObjectResp::ok(object)),
            revision,
        ))
    }

    /// Patches a Node's status. One that lacks the address of the kubelets is patched again, as nodes send only what has changed.
    async fn patch_node(&self, name: &str, patch: Value) -> Result<Outcome, kube::Error> {
        let nodes = self.of::<Node>("");
        let outcome = self.patch_status(&nodes, name, patch).await?;
        let (Some(kubelets), Outcome::Answer(Answer::Response(response), _)) =
            (&self.kubelets, &outcome)
        else {
            return Ok(outcome);
        };
        match kubelets.missing_address(&response.object) {
            Some(patch) => self.patch_status(&nodes, name, patch).await,
            None => Ok(outcome),
        }
    }

    /// Ends a graceful deletion. It succeeds if the pod is already gone or has been replaced.
    async fn delete_pod(
        &self,
        namespace: &str,
        name: &str,
        options: &Value,
    ) -> Result<Outcome, kube::Error> {
        let preconditions = uid_to_delete(options).map(|uid| Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        });
        let parameters = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions,
            ..DeleteParams::default()
        };
        match self.of::<Pod>(namespace).delete(name, &parameters).await {
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            result => drop(result?),
        }
        Ok(Outcome::Answer(Answer::Done, None))
    }

    async fn query(&self, kind: ObjectKind, request: &Request<'_>) -> Result<Outcome, kube::Error> {
        let path = ObjectPath::new(kind, request.namespace, request.name);
        match objects::get(&self.client, &path).await? {
            Some(object) => Ok(Outcome::Object(path, object)),
            None => {
                let message = format!("{}s \"{}\" not found", request.kind, request.name);
                Ok(Outcome::Answer(
                    Answer::Failed(api_status::failure(404, "NotFound", &message)),
                    None,
                ))
            }
        }
    }
}

/// Returns the uid of the pod that is to be deleted. Older nodes send it without options.
fn uid_to_delete(options: &Value) -> Option<&str> {
    options
        .as_str()
        .or_else(|| options["preconditions"]["uid"].as_str())
}

pub(super) fn parse(object: &Value) -> Result<DynamicObject, kube::Error> {
    serde_json::from_value(object.clone()).map_err(kube::Error::SerdeError)
}
