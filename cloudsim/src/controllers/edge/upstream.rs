//! The nodes' requests, carried out against the API.

use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Node, Pod, ServiceAccount},
};
use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, PostParams, Preconditions},
};
use serde_json::Value;
use tracing::{debug, warn};
use wire::{Answer, Change, Downstream, Message, ObjectResp, ResourceType, Up, Upstream};

use super::{
    Edge,
    authorize::{Denied, authorize},
    certificates, now_ms, objects,
    outcome::{Outcome, Reply, refuse, reply},
    request::Request,
    status, storage,
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
                None => {
                    debug!(node, ?body, "a message that this cloud does not handle");
                    return None;
                }
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
        let allowed = authorize(node, request, &self.index.read());
        if let Err(Denied(reason)) = allowed {
            if self.is_gone(request).await {
                let message = format!("pods \"{}\" not found", request.name);
                return refuse(request, status::failure(404, "NotFound", &message));
            }
            warn!(node, reason, "refused");
            return refuse(request, status::failure(403, "Forbidden", &reason));
        }
        match self.carry_out(node, request).await {
            Ok(outcome) => outcome,
            Err(error) => refuse(request, status::of(&error)),
        }
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
                self.written(self.of::<Node>("").create(&post, &parse(object)?).await)
            }
            (ResourceType::NodePatch, Upstream::Patch { patch, .. }) => {
                self.patched(&self.of::<Node>(""), name, patch).await
            }
            (ResourceType::PodPatch, Upstream::Patch { patch, .. }) => {
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
            (ResourceType::ServiceAccountToken, Upstream::Query { content, .. }) => {
                let api = Api::<ServiceAccount>::namespaced(self.client.clone(), namespace);
                let token: Value = api.create_subresource("token", name, &post, content).await?;
                Ok(Outcome::Answer(Answer::Found(token), None))
            }
            (ResourceType::Event, Upstream::Object { change: Change::Insert, object, .. }) => {
                self.event(node, namespace, object).await
            }
            (ResourceType::Event, Upstream::Patch { patch, .. }) => {
                self.event_again(node, (namespace, name), patch).await
            }
            _ => {
                let reason = format!("this cloud carries out no such request for {kind}");
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

    /// A status patch: JSON text in a string, or the patch itself.
    async fn patched(
        &self,
        api: &Api<DynamicObject>,
        name: &str,
        patch: &Value,
    ) -> Result<Outcome, kube::Error> {
        let patch: Value = match patch {
            Value::String(text) => serde_json::from_str(text).map_err(kube::Error::SerdeError)?,
            object => object.clone(),
        };
        let object = objects::patch_status(&self.client, api, name, patch).await?;
        let revision = object["metadata"]["resourceVersion"].as_str().map(str::to_owned);
        Ok(Outcome::Answer(Answer::Response(ObjectResp::ok(object)), revision))
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

pub(super) fn parse(object: &Value) -> Result<DynamicObject, kube::Error> {
    serde_json::from_value(object.clone()).map_err(kube::Error::SerdeError)
}
