//! The API as a tower service: who may call, and which verb a request is.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, request::Parts};
use serde_json::Value;
use tower::Service;

use crate::{
    Api, Body, BoxError, Identity,
    accept::{self, Shape},
    body, discovery, openapi,
    path::{self, Part, Place, Target},
    query::Query,
    status::StatusError,
    verbs,
};

/// Answers requests from an [`Api`]. The caller's [`Identity`] is in the request's extensions; a request without one is
/// answered 401.
#[derive(Clone, Debug)]
pub struct ApiService(Api);

impl ApiService {
    pub(crate) fn new(api: Api) -> Self {
        Self(api)
    }
}

impl<B> Service<Request<B>> for ApiService
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let api = self.0.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            Ok(handle(&api, parts, body).await.unwrap_or_else(|error| refusal(&error)))
        })
    }
}

/// The answer that a refusal is.
fn refusal(error: &StatusError) -> Response<Body> {
    body::answer(error.code, Bytes::from(error.body().to_string()), &[])
}

/// One request on a collection, an object or a part of one.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) target: Target,
    pub(crate) query: Query,
    pub(crate) shape: Shape,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Call {
    /// The same, without what came in.
    pub(crate) fn bodyless(&self) -> Self {
        Self {
            target: self.target.clone(),
            query: self.query.clone(),
            shape: self.shape,
            headers: self.headers.clone(),
            body: Bytes::new(),
        }
    }

    /// Who writes, for `metadata.managedFields`: the `fieldManager` parameter or else the program in the user agent.
    pub(crate) fn manager(&self) -> &str {
        let agent = self.headers.get(http::header::USER_AGENT).and_then(|value| value.to_str().ok());
        let program = agent.and_then(|agent| agent.split('/').next()).filter(|program| !program.is_empty());
        self.query.get("fieldManager").or(program).unwrap_or("unknown")
    }
}

async fn handle<B>(api: &Api, parts: Parts, body: B) -> Result<Response<Body>, StatusError>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<BoxError>,
{
    let place = path::parse(api.registry(), parts.uri.path());
    if !matches!(place, Place::Health | Place::Version) {
        admit(&parts, &place)?;
    }
    let target = match place {
        Place::Objects(target) => target,
        place if parts.method == Method::GET => return describe(api, &place, &parts.headers),
        Place::Unknown => return Err(StatusError::no_resource()),
        _ => return Err(StatusError::method_not_allowed()),
    };
    let shape = accept::shape(&parts.headers).ok_or_else(StatusError::not_acceptable)?;
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let body = body::read(body).await?;
    let call = Call { target, query, shape, headers: parts.headers, body };
    objects(api, &parts.method, &call).await
}

/// Only `system:masters` get in.
fn admit(parts: &Parts, place: &Place) -> Result<(), StatusError> {
    let identity = parts.extensions.get::<Identity>().ok_or_else(StatusError::unauthorized)?;
    if identity.is_master() {
        return Ok(());
    }
    Err(match place {
        Place::Objects(target) => StatusError::forbidden(&identity.user, verb(parts, target), target),
        _ => StatusError::forbidden_path(
            &identity.user,
            &parts.method.as_str().to_lowercase(),
            parts.uri.path(),
        ),
    })
}

/// The verb of a request, as access rules name it.
fn verb(parts: &Parts, target: &Target) -> &'static str {
    let is_named = !target.name.is_empty();
    let watches = || Query::parse(parts.uri.query().unwrap_or_default()).flag("watch");
    match parts.method.as_str() {
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" if is_named => "delete",
        "DELETE" => "deletecollection",
        _ if is_named => "get",
        _ if watches() => "watch",
        _ => "list",
    }
}

async fn objects(api: &Api, method: &Method, call: &Call) -> Result<Response<Body>, StatusError> {
    let named = !call.target.name.is_empty();
    verbs::check_options(method, call)?;
    match (method.as_str(), call.target.part, named) {
        ("GET", None, false) if call.query.flag("watch") => verbs::watch(api, call).await,
        ("GET", None, false) => verbs::list(api, call).await,
        ("GET", None | Some(Part::Status), true) => verbs::get(api, call).await,
        ("POST", None, false) => verbs::create(api, call).await,
        ("POST", Some(Part::Binding), true) => verbs::bind(api, call).await,
        ("POST", Some(Part::Token), true) => verbs::token(api, call).await,
        ("PUT", None | Some(Part::Status), true) => verbs::update(api, call).await,
        ("PATCH", None | Some(Part::Status), true) => verbs::patch(api, call).await,
        ("DELETE", None, true) => verbs::delete(api, call).await,
        ("DELETE", None, false) => verbs::delete_collection(api, call).await,
        _ => Err(StatusError::method_not_allowed()),
    }
}

/// What the API says about itself.
fn describe(api: &Api, place: &Place, headers: &HeaderMap) -> Result<Response<Body>, StatusError> {
    let registry = api.registry();
    let found: Option<Value> = match place {
        Place::Health => return Ok(body::text("ok")),
        Place::Version => Some(discovery::version()),
        Place::CoreVersions if accept::wants_aggregated(headers) => {
            return Ok(aggregated(&discovery::aggregated_core(registry)));
        }
        Place::Groups if accept::wants_aggregated(headers) => {
            return Ok(aggregated(&discovery::aggregated(registry)));
        }
        Place::CoreVersions => Some(discovery::core_versions()),
        Place::Groups => Some(discovery::groups(registry)),
        Place::Group(group) => discovery::group(registry, group),
        Place::GroupVersion(group, version) => discovery::resources(registry, group, version),
        Place::OpenApiIndex => Some(openapi::index(registry)),
        Place::OpenApi(group, version) => {
            let document = api.openapi(group, version).ok_or_else(StatusError::no_resource)?;
            return Ok(body::answer(StatusCode::OK, document, &[]));
        }
        Place::Objects(_) | Place::Unknown => None,
    };
    let found = found.ok_or_else(StatusError::no_resource)?;
    Ok(body::answer(StatusCode::OK, Bytes::from(found.to_string()), &[]))
}

/// Discovery in one answer, under the media type by which clients know that they got it.
fn aggregated(document: &Value) -> Response<Body> {
    let mut response = body::answer(StatusCode::OK, Bytes::from(document.to_string()), &[]);
    let media_type = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(media_type));
    response
}
