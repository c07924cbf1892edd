//! The nodes' requests, carried out against the API.

use k8s_openapi::api::{
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
    coordination::v1::Lease,
    core::v1::{Node, Pod, ServiceAccount},
};
use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, PostParams, Preconditions},
};
use serde_json::{Value, json};
use tracing::warn;
use wire::{Answer, Change, Downstream, Message, ObjectResp, ResourceType, Up, Upstream};

use super::{
    Edge,
    authorize::{Denied, Stored, authorize, patch_of},
    certificates, now_ms, objects,
    outcome::{Outcome, Reply, refuse, reply},
    request::Request,
    status, storage,
    tokens::Verdict,
};
use crate::mailbox::{ObjectKind, ObjectPath};

impl Edge {
    /// Carries out one message of `node`; the answer, where there is one.
    pub async fn handle(&self, node: &str, message: Message) -> Option<Reply> {
        let Up { header, body } = Up::from(message);
        let outcome = match &body {
            Upstream::RootCa(_) => {
                let answer = Downstream::RootCa(Value::from(&*self.root_ca));
                return Some(Reply::Direct(answer.into_message(now_ms()).answering(&header.msg_id)));
            }
            _ => match Request::of(&body) {
                Some(request) => self.request(node, &request).await,
                None => return self.unhandled.answer(node, &header, body).map(Reply::Direct),
            },
        };
        let path = match body {
            Upstream::Object { path, .. } | Upstream::Patch { path, .. } | Upstream::Query { path, .. } => {
                path
            }
            _ => return None,
        };
        reply(outcome, path, &header.msg_id)
    }

    async fn request(&self, node: &str, request: &Request<'_>) -> Outcome {
        if storage::is_asked_by(request) {
            return match self.storage(node, request).await {
                Ok(answer) => answer,
                Err(error) => refuse(request, status::of(&error)),
            };
        }
        if certificates::is_asked_by(request) {
            return match self.certificate(node, request).await {
                Ok(answer) => answer,
                Err(error) => refuse(request, status::of(&error)),
            };
        }
        if request.kind == ResourceType::ServiceAccountToken {
            return match self.token(node, request).await {
                Ok(outcome) => outcome,
                Err(error) => refuse(request, status::of(&error)),
            };
        }
        let stored = match self.stored_for(node, request).await {
            Ok(stored) => stored,
            Err(error) => return refuse(request, status::of(&error)),
        };
        let (node_uid, object) = &stored;
        let stored = Stored { node_uid: node_uid.as_deref(), object: object.as_ref() };
        let allowed = authorize(node, request, &self.index.read(), stored);
        if let Err(Denied(reason)) = allowed {
            if self.is_gone(request).await {
                let message = format!("pods \"{}\" not found", request.name);
                return refuse(request, status::failure(404, "NotFound", &message));
            }
            warn!(node, reason, "refused");
            return refuse(request, status::failure(403, "Forbidden", &reason));
        }
        if let Some(reason) = self.is_deleted(node, request).await {
            warn!(node, reason, "refused");
            return refuse(request, status::failure(403, "Forbidden", &reason));
        }
        match self.carry_out(node, request).await {
            Ok(outcome) => outcome,
            Err(error) => {
                if request.kind == ResourceType::Event {
                    self.unhandled.event(node, &error.to_string());
                }
                refuse(request, status::of(&error))
            }
        }
    }

    /// What is stored that decides on the request: the uid of the node's Node, and the object whose status is to change.
    async fn stored_for(
        &self,
        node: &str,
        request: &Request<'_>,
    ) -> Result<(Option<String>, Option<Value>), kube::Error> {
        let found = async |kind, namespace: &str, name: &str| {
            objects::get(&self.client, &ObjectPath::new(kind, namespace, name)).await
        };
        match (&request.kind, request.body) {
            (ResourceType::Pod, Upstream::Object { change: Change::Insert, .. }) => {
                let own = found(ObjectKind::Node, "", node).await?;
                let uid = own.and_then(|own| own["metadata"]["uid"].as_str().map(str::to_owned));
                Ok((uid, None))
            }
            (kind @ (ResourceType::NodePatch | ResourceType::PodPatch), Upstream::Patch { patch, .. }) => {
                // nearly all of them say nothing but the status
                let plain = patch_of(patch).is_ok_and(|patch| {
                    patch.as_object().is_some_and(|patch| patch.keys().all(|field| field == "status"))
                });
                if plain
                    && patch_of(patch)
                        .is_ok_and(|patch| patch.pointer("/status/resourceClaimStatuses").is_none())
                {
                    return Ok((None, None));
                }
                let (kind, namespace) = match kind {
                    ResourceType::NodePatch => (ObjectKind::Node, ""),
                    _ => (ObjectKind::Pod, request.namespace),
                };
                Ok((None, found(kind, namespace, request.name).await?))
            }
            _ => Ok((None, None)),
        }
    }

    /// Why a node may not make its Node: it had one since it joined, which somebody has deleted.
    async fn is_deleted(&self, node: &str, request: &Request<'_>) -> Option<String> {
        let is_new = matches!(request.body, Upstream::Object { change: Change::Insert, .. });
        let certificates =
            self.certificates.as_ref().filter(|_| is_new && request.kind == ResourceType::Node)?;
        let had_one = match certificates.uid(node).await {
            Ok(uid) => uid.is_some(),
            Err(error) => return Some(error.to_string()),
        };
        let path = ObjectPath::new(ObjectKind::Node, "", node);
        if !had_one || !matches!(objects::get(&self.client, &path).await, Ok(None)) {
            return None;
        }
        if let Err(error) = certificates.reset(node).await {
            warn!(node, error = &error as &dyn std::error::Error, "a certificate could not be taken back");
        }
        Some(format!("the Node of {node} was deleted: join anew, with a token"))
    }

    /// A token of an account of one of the node's pods.
    async fn token(&self, node: &str, request: &Request<'_>) -> Result<Outcome, kube::Error> {
        let Request { namespace, name, body, .. } = request;
        let Upstream::Query { content, .. } = body else {
            let Denied(reason) = super::authorize::denied(node, request);
            return Ok(refuse(request, status::failure(403, "Forbidden", &reason)));
        };
        if let Some(reason) = self.token_refusal(node, (namespace, name), content).await? {
            let path = ObjectPath::new(ObjectKind::Pod, *namespace, pod_named(content));
            if !path.name.is_empty() && objects::get(&self.client, &path).await?.is_none() {
                let message = format!("pods \"{}\" not found", path.name);
                return Ok(refuse(request, status::failure(404, "NotFound", &message)));
            }
            warn!(node, reason, "refused");
            return Ok(refuse(request, status::failure(403, "Forbidden", &reason)));
        }
        let api = Api::<ServiceAccount>::namespaced(self.client.clone(), namespace);
        let token: Value = api.create_subresource("token", name, &PostParams::default(), content).await?;
        Ok(Outcome::Answer(Answer::Found(token), None))
    }

    /// Why `node` gets no token of this account with this `TokenRequest`.
    pub(crate) async fn token_refusal(
        &self,
        node: &str,
        (namespace, account): (&str, &str),
        request: &Value,
    ) -> Result<Option<String>, kube::Error> {
        let verdict = super::tokens::judge(node, (namespace, account), request, &self.index.read());
        let audience = match verdict {
            Verdict::Allowed => return Ok(None),
            Verdict::Refused(why) => return Ok(Some(why)),
            Verdict::IfGranted(audience) => audience,
        };
        let question = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(format!("system:node:{node}")),
                groups: Some(vec!["system:nodes".to_owned(), "system:authenticated".to_owned()]),
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
        let answer = Api::all(self.client.clone()).create(&PostParams::default(), &question).await?;
        let is_granted = answer.status.is_some_and(|status| status.allowed);
        Ok((!is_granted).then(|| {
            format!(
                "audience {audience:?} is not asked for by the pod, and nobody has granted it to node {node}"
            )
        }))
    }

    /// Whether the request is about a pod that nobody has: a report that crossed with the pod's deletion is no trespass.
    async fn is_gone(&self, request: &Request<'_>) -> bool {
        let is_pod =
            matches!(request.kind, ResourceType::Pod | ResourceType::PodPatch | ResourceType::PodStatus);
        let is_new = matches!(request.body, Upstream::Object { change: Change::Insert, .. });
        let path = ObjectPath::new(ObjectKind::Pod, request.namespace, request.name);
        is_pod && !is_new && matches!(objects::get(&self.client, &path).await, Ok(None))
    }

    async fn carry_out(&self, node: &str, request: &Request<'_>) -> Result<Outcome, kube::Error> {
        let Request { kind, namespace, name, body } = request;
        let post = PostParams::default();
        match (kind, body) {
            (ResourceType::Node, Upstream::Object { change: Change::Insert, object, .. }) => {
                let made = self.of::<Node>("").create(&post, &parse(object)?).await;
                if let (Ok(made), Some(certificates)) = (&made, &self.certificates)
                    && let Err(error) =
                        certificates.registered(node, made.metadata.uid.as_deref().unwrap_or_default()).await
                {
                    warn!(node, error = &error as &dyn std::error::Error, "the node's Node is not on record");
                }
                self.written(made)
            }
            (ResourceType::NodePatch, Upstream::Patch { patch, .. }) => {
                let mut patch = patch_of(patch).map_err(kube::Error::SerdeError)?;
                self.redirect(&mut patch);
                self.patched(&self.of::<Node>(""), name, patch).await
            }
            (ResourceType::PodPatch, Upstream::Patch { patch, .. }) => {
                let patch = patch_of(patch).map_err(kube::Error::SerdeError)?;
                self.patched(&self.of::<Pod>(namespace), name, patch).await
            }
            (ResourceType::Pod, Upstream::Object { change: Change::Insert, object, .. }) => {
                self.written(self.of::<Pod>(namespace).create(&post, &parse(object)?).await)
            }
            (ResourceType::Pod, Upstream::Object { change: Change::Delete, object, .. }) => {
                self.delete_pod(namespace, name, object).await
            }
            (ResourceType::Lease, Upstream::Query { .. }) => {
                self.renewed(self.of::<Lease>(namespace).get(name).await)
            }
            (ResourceType::Lease, Upstream::Object { change: Change::Insert, object, .. }) => {
                self.renewed(self.of::<Lease>(namespace).create(&post, &parse(object)?).await)
            }
            (ResourceType::Lease, Upstream::Object { change: Change::Update, object, .. }) => {
                self.renewed(self.of::<Lease>(namespace).replace(name, &post, &parse(object)?).await)
            }
            (ResourceType::ConfigMap, Upstream::Query { .. }) => {
                self.query(ObjectKind::ConfigMap, request).await
            }
            (ResourceType::Secret, Upstream::Query { .. }) => self.query(ObjectKind::Secret, request).await,
            (ResourceType::Node, Upstream::Query { .. }) => self.query(ObjectKind::Node, request).await,
            (ResourceType::Event, Upstream::Object { change: Change::Insert, object, .. }) => {
                self.event(node, namespace, object).await
            }
            (ResourceType::Event, Upstream::Patch { patch, .. }) => {
                self.event_again(node, (namespace, name), patch).await
            }
            _ => {
                let reason = format!("this cloud carries out no such request for {kind}");
                if *kind == ResourceType::Event {
                    self.unhandled.event(node, &reason);
                }
                Ok(refuse(request, status::failure(405, "MethodNotAllowed", &reason)))
            }
        }
    }

    pub(super) fn of<K: kube::Resource<DynamicType = ()>>(&self, namespace: &str) -> Api<DynamicObject> {
        let resource = ApiResource::erase::<K>(&());
        match namespace {
            "" => Api::all_with(self.client.clone(), &resource),
            namespace => Api::namespaced_with(self.client.clone(), namespace, &resource),
        }
    }

    fn written(&self, result: Result<DynamicObject, kube::Error>) -> Result<Outcome, kube::Error> {
        let object = serde_json::to_value(result?).map_err(kube::Error::SerdeError)?;
        Ok(Outcome::Answer(Answer::Response(ObjectResp::ok(object)), None))
    }

    /// A lease, without what no node uses: it is told every ten seconds.
    fn renewed(&self, result: Result<DynamicObject, kube::Error>) -> Result<Outcome, kube::Error> {
        self.written(result.map(|mut lease| {
            lease.metadata.managed_fields = None;
            lease
        }))
    }

    /// A patch of the status.
    async fn patched(
        &self,
        api: &Api<DynamicObject>,
        name: &str,
        patch: Value,
    ) -> Result<Outcome, kube::Error> {
        let object = objects::patch_status(&self.client, api, name, patch).await?;
        let revision = object["metadata"]["resourceVersion"].as_str().map(str::to_owned);
        Ok(Outcome::Answer(Answer::Response(ObjectResp::ok(object)), revision))
    }

    /// Puts the cloud's own port in the place of the node's, which no API server reaches; as CloudCore does.
    fn redirect(&self, patch: &mut Value) {
        if let (Some(port), Some(status)) =
            (self.kubelet_port, patch.get_mut("status").and_then(Value::as_object_mut))
        {
            status.insert("daemonEndpoints".to_owned(), json!({"kubeletEndpoint": {"Port": port}}));
        }
    }

    /// The end of a graceful deletion. A pod that is gone already, or another one by now, is no error: what the node wants is so.
    async fn delete_pod(&self, namespace: &str, name: &str, options: &Value) -> Result<Outcome, kube::Error> {
        // older nodes send the bare UID
        let uid = options.as_str().or_else(|| options["preconditions"]["uid"].as_str());
        let preconditions =
            uid.map(|uid| Preconditions { uid: Some(uid.to_owned()), resource_version: None });
        let parameters =
            DeleteParams { grace_period_seconds: Some(0), preconditions, ..DeleteParams::default() };
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
                Ok(Outcome::Answer(Answer::Failed(status::failure(404, "NotFound", &message)), None))
            }
        }
    }
}

/// The pod that a `TokenRequest` is bound to.
fn pod_named(request: &Value) -> &str {
    let bound = request.pointer("/spec/boundObjectRef").filter(|bound| bound["kind"] == "Pod");
    bound.and_then(|bound| bound["name"].as_str()).unwrap_or_default()
}

pub(super) fn parse(object: &Value) -> Result<DynamicObject, kube::Error> {
    serde_json::from_value(object.clone()).map_err(kube::Error::SerdeError)
}
