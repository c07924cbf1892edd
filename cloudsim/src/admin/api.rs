//! The Kubernetes API beside the administrators' API: this cloud's own, or that of the cluster. The cluster's is called with the token of
//! the user: the cluster authenticates and authorizes, and this cloud adds no permissions.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use kube::{
    Client, Config,
    client::{Body as ClientBody, ClientBuilder},
    config::AuthInfo,
};
use kubeapi::{ApiService, Body, Identity, client_as, gather};
use tokio::io::copy_bidirectional;
use tower::Service;
use tracing::debug;

use super::{refusal, response};
use crate::reviews::bearer_token;

/// The largest body of a request, bytes: that of the API server.
const MAX_BODY_BYTES: usize = 3 << 20;
/// Headers of a request that are for this server, or for one connection.
const OWN_HEADERS: [HeaderName; 6] = [
    header::COOKIE,
    header::HOST,
    header::ORIGIN,
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    header::CONTENT_LENGTH,
];

/// The Kubernetes API of users; cheap to clone.
#[derive(Clone)]
pub(crate) enum UserApi {
    /// This cloud's own.
    Own(ApiService),
    /// That of the cluster.
    Cluster(ClusterApi),
}

/// The cluster's API, without credentials of this cloud; cheap to clone.
#[derive(Clone)]
pub(crate) struct ClusterApi {
    config: Arc<Config>,
    client: Client,
}

impl UserApi {
    /// Returns a client with the permissions of the caller, who has sent these headers.
    ///
    /// # Errors
    /// The client cannot be built.
    pub(super) fn client_for(
        &self,
        caller: Identity,
        headers: &HeaderMap,
        namespace: &str,
    ) -> Result<Client, kube::Error> {
        match self {
            Self::Own(api) => Ok(client_as(caller, api.clone(), namespace)),
            Self::Cluster(api) => {
                let token = bearer_token(headers).map(|token| token.to_owned().into());
                let mut config = Config::clone(&api.config);
                config.auth_info.token = token.ok();
                namespace.clone_into(&mut config.default_namespace);
                Client::try_from(config)
            }
        }
    }

    /// Passes on a request of a user.
    pub(super) async fn call(&mut self, request: Request<Incoming>) -> Response<Body> {
        match self {
            Self::Own(api) => {
                let Ok(response) = api.call(request).await;
                response
            }
            Self::Cluster(api) => api.forward(request).await,
        }
    }
}

impl ClusterApi {
    /// Creates it from this cloud's own configuration, whose credentials are left out.
    ///
    /// # Errors
    /// The client cannot be built.
    pub(crate) fn new(config: &Config) -> Result<Self, kube::Error> {
        let mut config = config.clone();
        config.auth_info = AuthInfo::default();
        // logs and watches may be silent for long
        config.read_timeout = None;
        config.default_retry = false;
        let client = ClientBuilder::try_from(config.clone())?.build();
        let config = Arc::new(config);
        Ok(Self { config, client })
    }

    async fn forward(&self, mut request: Request<Incoming>) -> Response<Body> {
        if bearer_token(request.headers()).is_err() {
            let why = "log in to the page, or send a bearer token";
            let code = StatusCode::UNAUTHORIZED;
            return response(code, &refusal(code, why));
        }
        let is_upgrade = request.headers().contains_key(header::UPGRADE);
        let upgraded = is_upgrade.then(|| hyper::upgrade::on(&mut request));
        let (mut parts, body) = request.into_parts();
        for name in OWN_HEADERS {
            parts.headers.remove(name);
        }
        if is_upgrade {
            let value = http::HeaderValue::from_static("Upgrade");
            parts.headers.insert(header::CONNECTION, value);
        }
        parts.extensions.clear();
        let path = parts.uri.path_and_query().cloned();
        parts.uri = path.map(http::Uri::from).unwrap_or_default();
        parts.version = http::Version::default();
        let body = match gather(body, MAX_BODY_BYTES).await {
            Ok(body) => body,
            Err(unread) => {
                return response(unread.code(), &refusal(unread.code(), &unread.to_string()));
            }
        };
        let request = Request::from_parts(parts, ClientBody::from(body.to_vec()));
        let mut answer = match self.client.send(request).await {
            Ok(answer) => answer,
            Err(error) => {
                let why = format!("cannot reach the API server of the cluster: {error}");
                let code = StatusCode::BAD_GATEWAY;
                return response(code, &refusal(code, &why));
            }
        };
        if let Some(upgraded) = upgraded
            && answer.status() == StatusCode::SWITCHING_PROTOCOLS
        {
            let far = hyper::upgrade::on(&mut answer);
            // ends when one side closes its connection
            tokio::spawn(async move {
                let (near, far) = match tokio::try_join!(upgraded, far) {
                    Ok(both) => both,
                    Err(error) => {
                        debug!(%error, "stream of the page ended before it began");
                        return;
                    }
                };
                let (mut near, mut far) = (TokioIo::new(near), TokioIo::new(far));
                let _ = copy_bidirectional(&mut near, &mut far).await;
            });
        }
        let (mut parts, body) = answer.into_parts();
        parts.headers.remove(header::TRANSFER_ENCODING);
        // a page session is this server's alone
        parts.headers.remove(header::SET_COOKIE);
        if !is_upgrade {
            parts.headers.remove(header::CONNECTION);
        }
        parts.version = http::Version::default();
        let body = body
            .map_err(|error| Box::<dyn std::error::Error + Send + Sync>::from(error.to_string()));
        Response::from_parts(parts, body.boxed_unsync())
    }
}
