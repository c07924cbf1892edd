//! The API as a tower service: who may call, and which verb a request is.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures::future::join_all;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header, request::Parts};
use serde_json::Value;
use tower::Service;

use crate::{
    Api, Body, BoxError, Identity, access,
    api::strategy::ReviewRequest,
    describe::{
        discovery,
        document::{Document, Name},
        exposition, health, openapi, remote_discovery,
    },
    registry::{Builtin, Registry},
    request::{
        accept,
        body::{self, RequestBody},
        call::{self, Call, CompleteLists, SkipAdmission},
        gzip, legacy_watch,
        path::{self, IssuerDocument, RequestPath, Target},
        pretty,
        query::Query,
        remote::{RemotePath, RemoteVersion},
        rewrite::Forwarded,
        subresource::Subresource,
        versions::ConvertedVersions,
        warnings::Warnings,
        yaml,
    },
    status::StatusError,
    streams, verbs,
};
use objectstore::{Page, Scope};

/// What kube-apiserver tells all clients of Endpoints.
const ENDPOINTS_WARNING: &str =
    "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";

/// Answers requests from an [`Api`]. The caller's [`Identity`] is in the request's extensions, or a service
/// account's in its bearer token; a request without either is answered 401.
#[derive(Clone, Debug)]
pub struct ApiService(Api);

impl Api {
    /// The API as a tower service.
    pub fn service(&self) -> ApiService {
        ApiService(self.clone())
    }
}

impl<B> Service<Request<B>> for ApiService
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (parts, body) = request.into_parts();
        answer(self.0.clone(), parts, body::request_body(body))
    }
}

/// What comes of a request.
type ResponseFuture = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

fn answer(api: Api, parts: Parts, body: RequestBody) -> ResponseFuture {
    Box::pin(async move {
        let takes_gzip = gzip::accepts(&parts.headers);
        let wants_yaml = yaml::is_requested(&parts.headers);
        let is_for_people = pretty::is_wanted(&parts);
        let answer = handle(&api, parts, body)
            .await
            .unwrap_or_else(|error| body::refusal(&error));
        if answer.extensions().get::<Forwarded>().is_some() {
            return Ok(answer);
        }
        let answer = if wants_yaml {
            yaml::convert_response(answer).await
        } else if is_for_people {
            pretty::indent(answer).await
        } else {
            answer
        };
        Ok(if takes_gzip {
            gzip::compress(answer).await
        } else {
            answer
        })
    })
}

async fn handle(
    api: &Api,
    mut parts: Parts,
    body: RequestBody,
) -> Result<Response<Body>, StatusError> {
    api.strategy().prepare(api).await?;
    legacy_watch::rewrite(&api.registry(), &mut parts);
    let remotes = api.strategy().remote_versions(api).await;
    let place = match RemotePath::find(&remotes, parts.uri.path()) {
        Some(remote) => RequestPath::Remote(remote),
        None => path::parse(&api.registry(), parts.uri.path()),
    };
    let is_open = matches!(place, RequestPath::Health(..) | RequestPath::Version);
    if !is_open || parts.headers.contains_key(header::AUTHORIZATION) {
        match api.strategy().authorize(api, &parts, &place).await {
            Ok(caller) => drop(parts.extensions.insert(caller)),
            // everybody may read these, but not with a false token
            Err(error) if is_open && error.code != StatusCode::UNAUTHORIZED => {}
            Err(error) => return Err(error),
        }
    }
    if matches!(place, RequestPath::Unknown) && !path::is_of_api(parts.uri.path()) {
        return Ok(body::page_not_found());
    }
    if let RequestPath::Review(review, namespace) = &place {
        // There is no table of these, as in Kubernetes, whose registries of them have no TableConvertor: what the caller takes next counts.
        if !accept::takes_objects(&parts.headers) {
            return Err(StatusError::not_acceptable());
        }
        let caller = parts
            .extensions
            .get::<Identity>()
            .ok_or_else(StatusError::unauthorized)?;
        let review = ReviewRequest {
            kind: *review,
            namespace,
            caller,
            parts: &parts,
        };
        return api.strategy().review(api, review, body).await;
    }
    let target = match place {
        RequestPath::Objects(target) => target,
        RequestPath::Remote(remote) => {
            let mut answer = api.strategy().forward(api, &remote, parts, body).await?;
            answer.extensions_mut().insert(Forwarded);
            return Ok(answer);
        }
        place if parts.method == Method::GET => {
            return describe(api, &place, &parts, &remotes).await;
        }
        RequestPath::Unknown => return Err(StatusError::no_resource()),
        _ => return Err(StatusError::method_not_allowed()),
    };
    let counted = api.metrics().begin(&target, access::verb(&parts, &target));
    let answer = call(api, target, parts, body).await;
    counted.end(
        answer
            .as_ref()
            .map_or_else(|error| error.code, Response::status),
    );
    answer
}

async fn call(
    api: &Api,
    target: Target,
    parts: Parts,
    body: RequestBody,
) -> Result<Response<Body>, StatusError> {
    if let Some(Subresource::Remote(part)) = target.part {
        return streams::answer(api, target, part, parts, body).await;
    }
    let shape = accept::shape(&parts.headers).ok_or_else(StatusError::not_acceptable)?;
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let deadline = call::deadline(&query)?;
    let body = body::read(body).await?;
    let caller = parts.extensions.get().cloned();
    let is_reviewed = parts.extensions.get::<SkipAdmission>().is_none();
    let needs_complete_lists = parts.extensions.get::<CompleteLists>().is_some();
    let (headers, warnings) = (parts.headers, Warnings::default());
    let call = Call {
        target,
        query,
        shape,
        headers,
        body,
        caller,
        is_reviewed,
        needs_complete_lists,
        warnings,
        deadline,
        versions: ConvertedVersions::default(),
    };
    let kind = &call.target.kind;
    if kind.is(Builtin::Endpoints) {
        call.warnings.add(ENDPOINTS_WARNING.to_owned());
    }
    let writes = parts.method != Method::GET;
    if writes && !kind.is(Builtin::Computed) {
        api.strategy().begin_write(api, &call).await?;
    }
    let answered = objects(api, &parts.method, &call).await;
    if writes && answered.is_err() {
        // something may have been written before
        api.strategy().after_write(api, &call, false).await?;
    }
    let mut answer = match answered {
        Ok(answer) => answer,
        Err(error) if call.warnings.is_empty() => return Err(error),
        Err(error) => {
            let mut answer = body::refusal(&error);
            call.warnings.write_headers(&mut answer);
            return Ok(answer);
        }
    };
    call.warnings.write_headers(&mut answer);
    if let Some(warning) = kind
        .defined
        .as_ref()
        .and_then(|defined| defined.deprecation_warning.as_deref())
    {
        body::warn(&mut answer, warning);
    }
    if writes {
        api.strategy().after_write(api, &call, true).await?;
    }
    Ok(answer)
}

async fn objects(api: &Api, method: &Method, call: &Call) -> Result<Response<Body>, StatusError> {
    let named = !call.target.name.is_empty();
    if call.target.kind.is(Builtin::Computed) {
        if *method != Method::GET || call.query.flag("watch") {
            return Err(StatusError::method_not_allowed());
        }
        verbs::check_options(method, call)?;
        return verbs::answer_computed(api, call).await;
    }
    verbs::check_options(method, call)?;
    match (method.as_str(), call.target.part, named) {
        // lines of changes are JSON
        ("GET", None, false) if call.query.flag("watch") && yaml::is_requested(&call.headers) => {
            Err(StatusError::not_acceptable())
        }
        ("GET", None, false) if call.query.flag("watch") => verbs::watch(api, call).await,
        ("GET", None, false) => verbs::list(api, call).await,
        (
            "GET",
            None
            | Some(
                Subresource::Status
                | Subresource::Approval
                | Subresource::EphemeralContainers
                | Subresource::Resize,
            ),
            true,
        ) => verbs::get(api, call).await,
        ("GET" | "PUT" | "PATCH", Some(Subresource::Scale), true) => {
            verbs::scale(api, call, method).await
        }
        ("POST", Some(Subresource::Eviction), true) => verbs::evict(api, call).await,
        ("POST", None, false) => verbs::create(api, call).await,
        ("POST", Some(Subresource::Binding), true) => verbs::bind(api, call).await,
        ("POST", Some(Subresource::Token), true) => api.strategy().request_token(api, call).await,
        (
            "PUT",
            None
            | Some(
                Subresource::Status
                | Subresource::Finalize
                | Subresource::Approval
                | Subresource::EphemeralContainers
                | Subresource::Resize,
            ),
            true,
        ) => verbs::update(api, call).await,
        (
            "PATCH",
            None
            | Some(
                Subresource::Status
                | Subresource::Approval
                | Subresource::EphemeralContainers
                | Subresource::Resize,
            ),
            true,
        ) => verbs::patch(api, call).await,
        ("DELETE", None, true) => verbs::delete(api, call).await,
        ("DELETE", None, false) => verbs::delete_collection(api, call).await,
        _ => Err(StatusError::method_not_allowed()),
    }
}

/// What the API says about itself.
async fn describe(
    api: &Api,
    place: &RequestPath,
    parts: &Parts,
    remotes: &[RemoteVersion],
) -> Result<Response<Body>, StatusError> {
    let headers = &parts.headers;
    if let Some(answer) = describe_all(api, place, headers, remotes).await {
        return answer;
    }
    let document = match place {
        RequestPath::Health(which, one) => {
            let query = parts.uri.query().unwrap_or_default();
            return health::answer(
                api.check_cache(),
                &**api.store(),
                which,
                one.as_deref(),
                query,
            )
            .await;
        }
        RequestPath::Root => return Ok(json_response(&discovery::root(&api.registry()))),
        RequestPath::Metrics => return metrics(api, &api.registry()).await,
        RequestPath::Version => return Ok(json_response(&discovery::version())),
        RequestPath::CoreVersions if accept::wants_aggregated(headers) => {
            let document = api.document(Name::AggregatedCore, |registry| {
                Some(discovery::aggregated_core(registry))
            });
            return aggregated_response(document, headers);
        }
        RequestPath::Groups if accept::wants_aggregated(headers) => {
            let document = api.document(Name::Aggregated, |registry| {
                Some(discovery::aggregated_discovery(registry))
            });
            return aggregated_response(document, headers);
        }
        RequestPath::CoreVersions => return Ok(json_response(&discovery::core_versions())),
        RequestPath::Groups => {
            api.document(Name::Groups, |registry| Some(discovery::groups(registry)))
        }
        RequestPath::Group(group) => api.document(Name::Group(group.clone()), |registry| {
            discovery::group(registry, group)
        }),
        RequestPath::GroupVersion(group, version) => {
            let name = Name::Resources(group.clone(), version.clone());
            api.document(name, |registry| {
                discovery::resources(registry, group, version)
            })
        }
        RequestPath::OpenApiV2 if accept::wants_protobuf_openapi(headers) => {
            let mut answer = body::answer(StatusCode::OK, Bytes::from(openapi::v2_protobuf()), &[]);
            let media_type = http::HeaderValue::from_static(openapi::V2_PROTOBUF);
            answer
                .headers_mut()
                .insert(http::header::CONTENT_TYPE, media_type);
            return Ok(answer);
        }
        RequestPath::OpenApiV2 if accept::shape(headers).is_none() => {
            return Err(StatusError::not_acceptable());
        }
        RequestPath::OpenApiV2 => {
            api.document(Name::OpenApiV2, |registry| Some(openapi::v2(registry)))
        }
        RequestPath::OpenApiIndex => api.document(Name::OpenApiIndex, |registry| {
            Some(openapi::index(registry))
        }),
        RequestPath::OpenApi(group, version) => {
            let name = Name::OpenApi(group.clone(), version.clone());
            api.document(name, |registry| openapi::document(registry, group, version))
        }
        RequestPath::Issuer(which) => return issuer_document(api, *which, parts),
        RequestPath::Objects(_)
        | RequestPath::Review(..)
        | RequestPath::Remote(_)
        | RequestPath::Unknown => None,
    };
    Ok(document
        .ok_or_else(StatusError::no_resource)?
        .answer(headers))
}

/// Returns the documents about this API and other servers together; `None` for all other documents.
async fn describe_all(
    api: &Api,
    place: &RequestPath,
    headers: &HeaderMap,
    remotes: &[RemoteVersion],
) -> Option<Result<Response<Body>, StatusError>> {
    if remotes.is_empty() {
        return None;
    }
    let registry = api.registry();
    let document = match place {
        RequestPath::Root => remote_discovery::root(discovery::root(&registry), remotes),
        RequestPath::Groups if accept::wants_aggregated(headers) => {
            // all at once: one that does not answer holds up the others only until its own time is over
            let resources = remotes
                .iter()
                .map(|remote| api.strategy().remote_resources(api, remote));
            let resources = join_all(resources).await;
            let own = discovery::aggregated_discovery(&registry);
            let all = remote_discovery::with_resources(own, remotes, &resources);
            return Some(aggregated_response(Document::of(&all), headers));
        }
        RequestPath::Groups => remote_discovery::groups(discovery::groups(&registry), remotes),
        RequestPath::Group(group) => {
            let own = discovery::group(&registry, group);
            remote_discovery::group(own, group, remotes)?
        }
        RequestPath::OpenApiIndex => remote_discovery::index(openapi::index(&registry), remotes),
        _ => return None,
    };
    let document = Document::of(&document).ok_or_else(StatusError::no_resource);
    Some(document.map(|document| document.answer(headers)))
}

/// Answers with a document of OpenID discovery, which clients may cache.
fn issuer_document(
    api: &Api,
    which: IssuerDocument,
    parts: &Parts,
) -> Result<Response<Body>, StatusError> {
    let host = parts.headers.get(header::HOST);
    let host = host.and_then(|host| host.to_str().ok());
    let host = host.or(parts.uri.authority().map(|authority| authority.as_str()));
    let document = api
        .strategy()
        .issuer_document(api, which, host.unwrap_or("localhost"));
    let mut answer = json_response(&document.ok_or_else(StatusError::no_resource)?);
    let headers = answer.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static(which.media_type()),
    );
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("public, max-age=3600"),
    );
    Ok(answer)
}

fn json_response(value: &Value) -> Response<Body> {
    body::answer(StatusCode::OK, Bytes::from(value.to_string()), &[])
}

async fn metrics(api: &Api, registry: &Registry) -> Result<Response<Body>, StatusError> {
    let mut stored = Vec::new();
    for kind in registry
        .kinds()
        .iter()
        .filter(|kind| !kind.is(Builtin::Computed))
    {
        let resource = kind.resource();
        if stored.iter().any(|(known, _)| known == resource) {
            continue;
        }
        let scope = Scope {
            resource: resource.clone(),
            namespace: None,
        };
        let page = api
            .store()
            .list(
                &scope,
                &Page {
                    after: None,
                    limit: Some(1),
                },
            )
            .await?;
        stored.push((resource.clone(), page.items.len() + page.remaining));
    }
    let mut answer = body::text(api.metrics().text(registry, &**api.store(), &stored));
    let media_type = http::HeaderValue::from_static(exposition::MEDIA_TYPE);
    answer
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, media_type);
    Ok(answer)
}

/// Discovery in one answer, under the media type by which clients know that they got it.
fn aggregated_response(
    document: Option<Document>,
    headers: &HeaderMap,
) -> Result<Response<Body>, StatusError> {
    let mut answer = document
        .ok_or_else(StatusError::no_resource)?
        .answer(headers);
    let media_type = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    if let Some(own) = answer.headers_mut().get_mut(http::header::CONTENT_TYPE) {
        *own = http::HeaderValue::from_static(media_type);
    }
    Ok(answer)
}
