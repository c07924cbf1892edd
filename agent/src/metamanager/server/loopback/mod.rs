//! Authentication while the accounts of pods are not checked: only programs of this machine, over the loopback interface.
//!
//! By default a request needs the token of `metaserver.kubeconfig`, a file that only root can read, or a group if one is
//! configured. It comes over TLS with a certificate that is generated here, since client-go sends a token over TLS only.
//! Secrets and tokens are refused, and commands in pods if a group has the token. With `anonymousAuth`, as with EdgeCore,
//! whoever reaches the address may do what the node may. In both cases the host names of requests are checked: a web page in a
//! browser on this machine must not reach the API under a name of its own.
//!
//! Source: kube-apiserver's loopback client configuration; <https://en.wikipedia.org/wiki/DNS_rebinding>.

mod credentials;

use std::path::PathBuf;

use http::{header, request::Parts};
use kubeapi::hosts::{Hosts, Scheme};
use ring::digest::{SHA256, digest};

use self::credentials::KUBECONFIG;
pub(super) use self::credentials::{Credentials, remove_stale_kubeconfig};
pub use self::credentials::{CredentialsError, files};
use super::{super::response::ApiError, route::ObjectRequest};

/// How MetaServer is protected while the accounts of pods are not checked.
#[derive(Clone, Debug)]
pub struct Loopback {
    /// Whether a request needs no token, and comes over plain HTTP: EdgeCore's behaviour.
    pub anonymous: bool,
    /// The directory of the kubeconfig with the token, and of the certificate.
    pub directory: PathBuf,
    /// The group that may read the kubeconfig, by name or number; `None`: only the user that the agent runs as.
    pub group: Option<String>,
    /// Host names beside the loopback interface's own under which MetaServer may be called.
    pub hosts: Vec<String>,
}

/// The paths that everybody may read: Kubernetes' ClusterRole `system:public-info-viewer`.
const PUBLIC_PATHS: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

/// Authenticates programs of this machine.
pub(super) struct LocalClients {
    hosts: Hosts,
    /// The digest of the token; `None`: no token is needed.
    token: Option<Vec<u8>>,
    kubeconfig: PathBuf,
    /// Whether other users than this one have the token.
    is_shared: bool,
}

impl LocalClients {
    /// Creates the check for the token that requests need; `None`: no token.
    pub(super) fn new(config: &Loopback, token: Option<&str>) -> Self {
        Self {
            hosts: Hosts::new(
                config.hosts.clone(),
                if config.anonymous {
                    Scheme::Http
                } else {
                    Scheme::Https
                },
            ),
            token: token.map(|token| digest(&SHA256, token.as_bytes()).as_ref().to_vec()),
            kubeconfig: config.directory.join(KUBECONFIG),
            is_shared: config.group.is_some(),
        }
    }

    /// Checks that the request may go on.
    pub(super) fn authenticate(&self, parts: &Parts) -> Result<(), ApiError> {
        self.hosts.check(&parts.uri, &parts.headers).map_err(|refused| {
            let cure =
                "use a loopback address, or add the name to modules.metaManager.metaServer.allowedHosts";
            ApiError::with_code(refused.code, "Forbidden", &format!("{}; {cure}", refused.why))
        })?;
        let Some(expected) = &self.token else {
            return Ok(());
        };
        let path = parts.uri.path();
        if PUBLIC_PATHS.contains(&path.strip_suffix('/').unwrap_or(path)) {
            return Ok(());
        }
        let given = parts
            .headers
            .get(header::AUTHORIZATION)
            .and_then(|header| header.to_str().ok());
        let given = given.and_then(|text| text.split_once(' '));
        let given = given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        // digests are compared, so that the time of the comparison says nothing about how much of a token is right
        let is_it = given.is_some_and(|(_, token)| {
            digest(&SHA256, token.trim().as_bytes()).as_ref() == expected.as_slice()
        });
        if is_it {
            return Ok(());
        }
        Err(ApiError::unauthorized_because(&format!(
            "MetaServer needs the token of {}: kubectl --kubeconfig {0}",
            self.kubeconfig.display()
        )))
    }

    /// Checks that local programs may send this request for objects.
    pub(super) fn authorize(&self, request: &ObjectRequest) -> Result<(), ApiError> {
        let target = &request.target;
        let is_secret =
            target.group.is_empty() && target.plural == "secrets" || request.part == "token";
        if self.token.is_some() && is_secret {
            return Err(ApiError::forbidden(
                "MetaServer gives Secrets and tokens only to callers whose roles say so; set featureGates.requireAuthorization to true",
            ));
        }
        if self.token.is_none() && request.is_stream() {
            return Err(ApiError::forbidden(
                "MetaServer serves logs and sessions of pods to authenticated users only; remove modules.metaManager.metaServer.anonymousAuth",
            ));
        }
        if self.is_shared && matches!(request.part.as_str(), "exec" | "attach") {
            return Err(ApiError::forbidden(
                "commands in pods can read their Secrets, and modules.metaManager.metaServer.clientGroup shares this token with other users than root; set featureGates.requireAuthorization to true to use roles",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
