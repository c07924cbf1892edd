//! Reads: from the copies, which are updated first unless the cloud sends their changes anyway.

use http::{Response, StatusCode, request::Parts};
use http_body_util::BodyExt;
use kubeapi::Body;
use objectstore::Key;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;
use tracing::warn;
use wire::application::Verb;

use super::{
    super::response::ApiError,
    cloud::{CallError, Unavailable},
    json::{parse_answer, raw_response, with_stale_warning},
    keys::{self, key},
    query::Query,
    route::ObjectRequest,
    service::ApiServer,
    watches::Collection,
};

impl ApiServer {
    /// Reads one object: from the copies where the cloud sends their changes, else from the cloud, or from the copies while it
    /// cannot be reached.
    pub(super) async fn get(
        &self,
        request: &ObjectRequest,
        parts: &Parts,
    ) -> Result<Response<Body>, ApiError> {
        let key = key(&request.target);
        let is_whole = request.part.is_empty() || request.part == "status";
        if is_whole
            && (self.copies.is_own(&key).await? || self.is_watched(&collection(request, parts)))
        {
            return Ok(self.local.answer(parts).await);
        }
        let call = self.cloud.call(
            &request.target,
            Verb::Get,
            &json!({}),
            Vec::new(),
            cloud_subresource(request),
        );
        match self.cloud.execute(call).await {
            Ok(answer) if is_whole => {
                let object: Value = parse_answer(&answer)?;
                self.copies.put(&key, &object).await?;
                self.local_or_raw(request, parts, answer).await
            }
            Ok(answer) => Ok(raw_response(StatusCode::OK, answer)),
            Err(CallError::Refused(refusal)) => {
                if refusal.is_not_found() && is_whole {
                    self.copies.remove(&key, "").await?;
                }
                let is_own = refusal.is_forbidden() && is_whole && self.has_device(&key).await?;
                match is_own {
                    true => Ok(self.local.answer(parts).await),
                    false => Err(refusal),
                }
            }
            Err(CallError::Unavailable(away))
                if is_whole
                    && (self.copies.get(&key).await?.is_some()
                        || self.has_device(&key).await?) =>
            {
                Ok(with_stale_warning(self.local.answer(parts).await, away))
            }
            Err(CallError::Unavailable(away)) => Err(away.error(&format!(
                "{} \"{}\" is not stored on this node",
                key.resource, key.name
            ))),
        }
    }

    /// Reads a collection: the copies, after an update from the cloud. Pages after the first are of the same copies.
    pub(super) async fn list(
        &self,
        request: &ObjectRequest,
        parts: &Parts,
    ) -> Result<Response<Body>, ApiError> {
        let collection = collection(request, parts);
        if Query::of(&parts.uri).get("continue").is_some() || self.is_watched(&collection) {
            return Ok(self.local.answer(parts).await);
        }
        self.find_kind(request).await;
        if !self.kinds.knows(&request.target) {
            return self.list_unknown(&collection).await;
        }
        match self.lists.renew(&collection).await {
            Ok(()) => Ok(self.local.answer(parts).await),
            Err(CallError::Refused(refusal)) => {
                let resource = keys::resource(&request.target);
                match refusal.is_forbidden() && self.copies.renew_devices(&resource, true).await? {
                    true => Ok(self.local.answer(parts).await),
                    false => Err(refusal),
                }
            }
            Err(CallError::Unavailable(away)) => {
                let resource = keys::resource(&request.target);
                if let Err(error) = self.check_listed(&collection, away).await
                    && !self.copies.renew_devices(&resource, true).await?
                {
                    return Err(error);
                }
                Ok(with_stale_warning(self.local.answer(parts).await, away))
            }
        }
    }

    /// Reports whether the object is a device or model that this node has, which can then be read from the copies.
    async fn has_device(&self, key: &Key) -> Result<bool, ApiError> {
        let is_device = self.copies.renew_devices(&key.resource, false).await?;
        Ok(is_device && self.copies.get(key).await?.is_some())
    }

    /// Checks that a collection can be listed without the cloud: it was listed before, or it is of this node's own pods or the
    /// node itself, which is all that a node sees of these. An empty list of anything else would say that nothing exists.
    async fn check_listed(
        &self,
        collection: &Collection,
        away: Unavailable,
    ) -> Result<(), ApiError> {
        let target = &collection.target;
        let is_own = target.group.is_empty() && matches!(target.plural.as_str(), "pods" | "nodes");
        if is_own || self.copies.listed.has(collection).await? {
            return Ok(());
        }
        let place = match target.namespace.as_str() {
            "" => "of all namespaces".to_owned(),
            namespace => format!("in the namespace {namespace:?}"),
        };
        Err(away.error(&format!(
            "this node has never listed {} {place}; list them once while the cloud is connected, or get one by its name",
            keys::resource(target)
        )))
    }

    /// Watches a collection: the changes of the copies, for which the cloud is asked to send updates meanwhile.
    pub(super) async fn watch(
        &self,
        request: &ObjectRequest,
        parts: &Parts,
    ) -> Result<Response<Body>, ApiError> {
        self.find_kind(request).await;
        let collection = collection(request, parts);
        let client = self.watches.add(&collection);
        let client = client.ok_or_else(|| {
            ApiError::too_busy("too many different collections are watched on this node")
        })?;
        let mut devices = None;
        if !self.is_watched(&collection)
            && let Err(failure) = self.subscribe(&collection).await
        {
            devices = self.watch_devices(&collection, &failure).await?;
            match failure {
                _ if devices.is_some() => {}
                // a client that resumes from a version has a list already
                CallError::Unavailable(_) if resumes_watch(parts) => {}
                CallError::Unavailable(away) => self.check_listed(&collection, away).await?,
                CallError::Refused(refusal) => return Err(refusal),
            }
        }
        let answer = self.local.answer(parts).await;
        // the watch ends with the response
        Ok(answer.map(|body| {
            body.map_frame(move |frame| {
                let _ = (&client, &devices);
                frame
            })
            .boxed_unsync()
        }))
    }

    /// Follows this node's own devices until what it returns is dropped, if the node may not watch those of the cloud or cannot reach it.
    async fn watch_devices(
        &self,
        collection: &Collection,
        failure: &CallError,
    ) -> Result<Option<AbortOnDropHandle<()>>, ApiError> {
        let is_meant = match failure {
            CallError::Refused(refusal) => refusal.is_forbidden(),
            CallError::Unavailable(_) => true,
        };
        let resource = keys::resource(&collection.target);
        if !is_meant || !self.copies.renew_devices(&resource, true).await? {
            return Ok(None);
        }
        let copies = self.copies.clone();
        let following = tokio::spawn(async move {
            if let Err(error) = copies.follow_devices(&resource).await {
                let error = &error as &dyn std::error::Error;
                warn!(
                    error,
                    "failed to follow this node's own devices; watches show no changes"
                );
            }
        });
        Ok(Some(AbortOnDropHandle::new(following)))
    }

    /// Asks the cloud to send the changes of a collection from now on, and then lists it: a change in between comes twice, and
    /// no earlier one is missed.
    pub(super) async fn subscribe(&self, collection: &Collection) -> Result<(), CallError> {
        let link = self.cloud.link();
        self.cloud.execute(self.watch_call(collection)).await?;
        self.lists.renew(collection).await?;
        if let Some(link) = link {
            self.watches.confirm(collection, link);
        }
        Ok(())
    }

    /// Builds the call that asks for a watch: the same for the same collection.
    pub(super) fn watch_call(&self, collection: &Collection) -> wire::application::Application {
        let mut option = json!({"watch": true});
        for (name, value) in [
            ("labelSelector", &collection.labels),
            ("fieldSelector", &collection.fields),
        ] {
            if !value.is_empty() {
                option[name] = value.as_str().into();
            }
        }
        self.cloud
            .call(&collection.target, Verb::Watch, &option, Vec::new(), "")
    }

    /// Reports whether the cloud sends all changes of the collection now.
    pub(super) fn is_watched(&self, collection: &Collection) -> bool {
        self.cloud
            .link()
            .is_some_and(|link| self.watches.is_confirmed(collection, link))
    }

    /// An unknown kind may have been defined since: fetches the definitions.
    async fn find_kind(&self, request: &ObjectRequest) {
        if !self.kinds.knows(&request.target) {
            self.kinds.refresh(self.cloud.link()).await;
        }
    }

    /// Returns the local API's answer, in the form that the client wants; the cloud's own answer where the kind is not known
    /// here.
    async fn local_or_raw(
        &self,
        request: &ObjectRequest,
        parts: &Parts,
        answer: Vec<u8>,
    ) -> Result<Response<Body>, ApiError> {
        self.find_kind(request).await;
        if self.kinds.knows(&request.target) {
            Ok(self.local.answer(parts).await)
        } else {
            Ok(raw_response(StatusCode::OK, answer))
        }
    }

    /// Lists a kind that only the cloud knows: returns the cloud's answer unchanged.
    async fn list_unknown(&self, collection: &Collection) -> Result<Response<Body>, ApiError> {
        let option =
            json!({"labelSelector": collection.labels, "fieldSelector": collection.fields});
        let call = self
            .cloud
            .call(&collection.target, Verb::List, &option, Vec::new(), "");
        match self.cloud.execute(call).await {
            Ok(answer) => Ok(raw_response(StatusCode::OK, answer)),
            Err(CallError::Refused(refusal)) => Err(refusal),
            Err(CallError::Unavailable(away)) => {
                Err(away.error("this kind is not known on this node"))
            }
        }
    }
}

/// Reports whether a watch continues after a list, and does not begin with all objects.
fn resumes_watch(parts: &Parts) -> bool {
    let query = Query::of(&parts.uri);
    let version = query.get("resourceVersion").unwrap_or("0");
    version != "0" && !query.flag("sendInitialEvents")
}

/// Returns the subresource that the cloud is asked for; the status comes with the whole object.
fn cloud_subresource(request: &ObjectRequest) -> &str {
    if request.part == "status" {
        ""
    } else {
        &request.part
    }
}

/// Returns the collection of a read; for one object, the collection that it is in.
fn collection(request: &ObjectRequest, parts: &Parts) -> Collection {
    let query = Query::of(&parts.uri);
    let selector = |name: &str| query.get(name).unwrap_or_default().to_owned();
    let mut target = request.target.clone();
    target.name.clear();
    Collection {
        target,
        labels: selector("labelSelector"),
        fields: selector("fieldSelector"),
    }
}
