//! [`Strategy`]: what an API does with its callers and the objects that they send, besides the mechanics of its verbs.
//!
//! The word is that of the API server's registry, whose strategies prepare and validate objects. Two implementations: [`Cache`] stores
//! objects as they came; that of the crate `apiserver` does what a whole API server does.

use std::sync::Arc;

use async_trait::async_trait;
use http::{Response, request::Parts};
use serde_json::Value;
use tokio::sync::OwnedMutexGuard;

use crate::{
    Api, Body, Identity, access, defaults,
    object::{
        conversion::ConversionRequest, default_to, generation::count_generation, metadata,
        timestamp::now,
    },
    registry::Kind,
    request::{
        body::RequestBody,
        call::Call,
        path::{IssuerDocument, RequestPath, Target},
        remote::{RemotePath, RemoteVersion},
        review_kind::ReviewKind,
    },
    status::StatusError,
};
use objectstore::{Key, Write};

/// A lock that is held until an admitted object is stored, so that the next check of a quota counts it. `None` where none applies.
pub type QuotaLock = Option<OwnedMutexGuard<()>>;

/// How the field owners of an object that is written are determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The writer owns all fields that differ.
    Update,
    /// The apply has set them.
    Apply,
}

/// A review to answer: an object that is created and never stored, such as `SubjectAccessReview`.
#[derive(Debug)]
pub struct ReviewRequest<'a> {
    /// The kind of the review.
    pub kind: ReviewKind,
    /// The namespace in the path, or empty.
    pub namespace: &'a str,
    /// The caller.
    pub caller: &'a Identity,
    /// The head of the request.
    pub parts: &'a Parts,
}

/// How an API handles callers and objects. The methods are called in this order. The defaults are those of a cache: objects are
/// stored unchanged, and only `system:masters` has access.
#[async_trait]
pub trait Strategy: Send + Sync + 'static {
    // --- requests

    /// Makes the API ready for a request: stores the initial objects and serves the stored definitions, once.
    async fn prepare(&self, _api: &Api) -> Result<(), StatusError> {
        Ok(())
    }

    /// Authenticates and authorizes the caller of a request.
    ///
    /// # Errors
    /// 401 for an unknown caller, 403 for one that may not do what the request asks for.
    async fn authorize(
        &self,
        _api: &Api,
        parts: &Parts,
        place: &RequestPath,
    ) -> Result<Identity, StatusError> {
        access::authorize_master(parts, place)
    }

    /// Answers a review.
    async fn review(
        &self,
        _api: &Api,
        _review: ReviewRequest<'_>,
        _body: RequestBody,
    ) -> Result<Response<Body>, StatusError> {
        Err(StatusError::not_implemented(
            "this API does not support reviews; use the cloud's API",
        ))
    }

    /// Admits the opening of a stream or proxy, which has the parameters `options`.
    async fn connect(&self, _api: &Api, _call: &Call, _options: &Value) -> Result<(), StatusError> {
        Ok(())
    }

    /// Issues a token for the service account of a request for `serviceaccounts/<name>/token`.
    async fn request_token(&self, _api: &Api, _call: &Call) -> Result<Response<Body>, StatusError> {
        Err(StatusError::not_implemented(
            "no issuer of service account tokens is configured; use the cloud's API",
        ))
    }

    /// Returns a document of OpenID discovery about the issuer of service account tokens. `host` is that of the request. `None` if there is
    /// no issuer.
    fn issuer_document(&self, _api: &Api, _which: IssuerDocument, _host: &str) -> Option<Value> {
        None
    }

    // --- other servers

    /// Returns the groups and versions that other servers serve.
    async fn remote_versions(&self, _api: &Api) -> Arc<[RemoteVersion]> {
        Arc::default()
    }

    /// Answers a request for one of them, by forwarding it to its server. The caller's [`Identity`] is in the extensions of `parts`.
    async fn forward(
        &self,
        _api: &Api,
        _remote: &RemotePath,
        _parts: Parts,
        _body: RequestBody,
    ) -> Result<Response<Body>, StatusError> {
        Err(StatusError::no_resource())
    }

    /// Returns the resources of one of them (an `APIResourceList`); `None` if its server does not answer.
    async fn remote_resources(&self, _api: &Api, _version: &RemoteVersion) -> Option<Value> {
        None
    }

    // --- versions

    /// Reports whether [`Self::convert`] converts objects by webhooks. A cache stores such objects in the version in which they come.
    fn converts(&self) -> bool {
        false
    }

    /// Converts objects by the webhook of their definition; returns as many, in the same order.
    async fn convert(
        &self,
        _api: &Api,
        request: ConversionRequest<'_>,
        _objects: Vec<Value>,
    ) -> Result<Vec<Value>, StatusError> {
        let ConversionRequest {
            kind, api_version, ..
        } = request;
        Err(StatusError::not_implemented(format!(
            "this API calls no conversion webhook, so that stored {} are not converted to {api_version}; use another version or the cloud's API",
            kind.plural
        )))
    }

    // --- writes

    /// Prepares a request that may write, whose body is not yet read.
    async fn begin_write(&self, _api: &Api, _call: &Call) -> Result<(), StatusError> {
        Ok(())
    }

    /// Reads what is applied in the form in which it would be stored, and refuses what no schema declares.
    fn decode_applied(&self, call: &Call, object: &mut Value) -> Result<(), StatusError> {
        defaults::normalise(&call.target.kind, object);
        Ok(())
    }

    /// Checks the size of what is applied in place of `old`, before the owners of its fields are determined.
    fn check_applied(
        &self,
        _call: &Call,
        _old: Option<&Value>,
        _new: &Value,
    ) -> Result<(), StatusError> {
        Ok(())
    }

    /// Checks a received object against its schema and brings it into the form in which it is stored; returns warnings.
    fn decode(&self, _call: &Call, _object: &mut Value) -> Result<Vec<String>, StatusError> {
        Ok(Vec::new())
    }

    /// Checks that an object may be created in its namespace, and adds what other objects determine: the default class of a claim, the
    /// account of a pod.
    async fn admit_new(
        &self,
        _api: &Api,
        _target: &Target,
        _object: &mut Value,
    ) -> Result<(), StatusError> {
        Ok(())
    }

    /// Sets the defaults and the metadata of a new object. `sent` is the object as its writer sent it, if admission has changed it: the
    /// writer owns its fields. A cache leaves the UID to the API server, which hears of the object later.
    fn prepare_create(
        &self,
        _call: &Call,
        object: &mut Value,
        _sent: Option<&Value>,
        _origin: Origin,
    ) -> Result<(), StatusError> {
        default_to(metadata(object), "creationTimestamp", now());
        Ok(())
    }

    /// Admits a new object, which is returned as it is to be stored: webhooks may change it.
    async fn admit_create(
        &self,
        _api: &Api,
        _call: &Call,
        _target: &Target,
        object: Value,
    ) -> Result<Value, StatusError> {
        Ok(object)
    }

    /// Reports whether an update of `kind` must name the version that it replaces.
    fn requires_resource_version(&self, _kind: &Kind) -> bool {
        false
    }

    /// Sets the defaults and the metadata of an object that replaces `old`, and then counts its generation.
    fn prepare_update(
        &self,
        call: &Call,
        old: &Value,
        new: &mut Value,
        _origin: Origin,
    ) -> Result<(), StatusError> {
        count_generation(&call.target.kind, old, new);
        Ok(())
    }

    /// Admits an object that replaces `old`, and returns it as it is to be stored.
    async fn admit_update(
        &self,
        _api: &Api,
        _call: &Call,
        _old: &Value,
        new: Value,
    ) -> Result<Value, StatusError> {
        Ok(new)
    }

    /// Admits the deletion of `old`.
    async fn admit_delete(
        &self,
        _api: &Api,
        _call: &Call,
        _old: &Value,
    ) -> Result<(), StatusError> {
        Ok(())
    }

    /// Checks each object that is to replace `old`, also one that only begins to be deleted.
    async fn check_replacement(
        &self,
        _api: &Api,
        _call: &Call,
        _old: &Value,
        _new: &Value,
    ) -> Result<(), StatusError> {
        Ok(())
    }

    /// Refuses an object in place of `old`, if there is one, that exceeds a quota of its namespace.
    async fn admit_quota(
        &self,
        _api: &Api,
        _target: &Target,
        _old: Option<&Value>,
        _new: &Value,
    ) -> Result<QuotaLock, StatusError> {
        Ok(None)
    }

    /// Checks the size of an object as it is to be stored, in place of `old`.
    fn check_size(&self, _old: Option<&Value>, _new: &Value) -> Result<(), StatusError> {
        Ok(())
    }

    /// Reports whether writes of `target` come with others, which [`Self::allocate`] returns.
    fn allocates(&self, _target: &Target) -> bool {
        false
    }

    /// Allocates what the server gives the object: sets it in `new` (`None`: the object is deleted), and returns the writes that claim it
    /// or release what `old` had. They are stored with the object.
    async fn allocate(
        &self,
        _api: &Api,
        _target: &Target,
        _old: Option<&Value>,
        _new: Option<&mut Value>,
    ) -> Result<Vec<Write>, StatusError> {
        Ok(Vec::new())
    }

    /// Reports whether this is the key of a write of [`Self::allocate`]: if it fails, the allocation is tried again.
    fn is_allocation(&self, _key: &Key) -> bool {
        false
    }

    /// Updates what depends on the objects of a request that has written, or (`succeeded` is false) may have written before it failed.
    async fn after_write(
        &self,
        _api: &Api,
        _call: &Call,
        _succeeded: bool,
    ) -> Result<(), StatusError> {
        Ok(())
    }

    // --- properties

    /// Reports whether controllers empty deleted namespaces and collect dependents. In a cache, the cloud has done so.
    fn collects_garbage(&self) -> bool {
        false
    }

    /// Reports whether items of lists carry no kind, as those of Kubernetes' own kinds. In a cache they do, as in KubeEdge's.
    fn lists_untyped(&self, _kind: &Kind) -> bool {
        false
    }

    /// Reports whether stored objects are returned with defaults that their definition got later.
    fn fills_defaults_on_read(&self) -> bool {
        false
    }
}

/// The strategy of a cache of objects that an API server has admitted: they are stored unchanged, with fields of newer versions.
#[derive(Clone, Copy, Debug)]
pub struct Cache;

impl Strategy for Cache {}
