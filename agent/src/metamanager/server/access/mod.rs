//! Authentication and authorization of callers other than this node's own programs.
//!
//! A client certificate of the cloud's CA authenticates a caller, or a service account's token, which is checked without the
//! cloud: by the keys that sign tokens, or, where none are configured, by being a token that the cloud gave to this node. The
//! permissions of an account come from the cloud as a ServiceAccountAccess.

mod keys;
mod token;

use std::path::PathBuf;

use crds::policy::ServiceAccountAccess;
use http::{header, request::Parts};
use kubeapi::Identity;
use objectstore::{Key, Resource};
use ring::digest::{SHA256, digest};
use serde::Deserialize;
use serde_json::{Value, json};
use tracing::debug;
use wire::{ResourceType, application::Verb};

pub use self::keys::KeyError;
use self::{
    keys::Keys,
    token::{Token, Validity},
};
use super::{
    super::{
        desired::{Desired, resource},
        response::ApiError,
    },
    cloud::Cloud,
    keys::text,
    route::ObjectRequest,
};

/// Which tokens are accepted.
#[derive(Clone, Debug)]
pub struct TokenRules {
    /// The accepted issuers.
    pub issuers: Vec<String>,
    /// The accepted audiences; if empty, a token must be for one of the issuers.
    pub audiences: Vec<String>,
    /// Public keys that sign tokens, PEM files; if empty, only tokens that the cloud gave to this node are accepted.
    pub key_files: Vec<PathBuf>,
}

/// Authenticates and authorizes callers.
pub(super) struct Access {
    node: String,
    own: Desired,
    cloud: Cloud,
    rules: TokenRules,
    keys: Keys,
}

/// The caller of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// This node itself, or a caller with all permissions.
    Owner,
    /// A service account: namespace and name.
    Account(String, String),
    /// Another user with a certificate of the cloud's CA.
    Other(String),
    /// A caller without credentials.
    Anonymous,
}

impl Access {
    pub(super) fn new(
        node: &str,
        own: Desired,
        cloud: Cloud,
        rules: TokenRules,
    ) -> Result<Self, KeyError> {
        let keys = Keys::read(&rules.key_files)?;
        Ok(Self {
            node: node.to_owned(),
            own,
            cloud,
            rules,
            keys,
        })
    }

    /// Authenticates the caller. An invalid token is an error, not an anonymous caller.
    pub(super) async fn caller(&self, parts: &Parts) -> Result<Caller, ApiError> {
        if let Some(identity) = parts.extensions.get::<Identity>() {
            let is_owner =
                identity.is_master() || identity.user == format!("system:node:{}", self.node);
            return Ok(if is_owner {
                Caller::Owner
            } else {
                Caller::Other(identity.user.clone())
            });
        }
        let Some(header) = parts.headers.get(header::AUTHORIZATION) else {
            return Ok(Caller::Anonymous);
        };
        let bearer = header.to_str().ok().and_then(|text| text.split_once(' '));
        let bearer = bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let (_, given) = bearer.ok_or_else(ApiError::unauthorized)?;
        match self.account(given.trim()).await? {
            Ok(caller) => Ok(caller),
            Err(why) => {
                debug!(reason = why, "bearer token rejected");
                Err(ApiError::unauthorized())
            }
        }
    }

    /// Returns the account of the token; the inner error says why the token is invalid.
    async fn account(&self, given: &str) -> Result<Result<Caller, &'static str>, ApiError> {
        let Some(token) = token::read(given) else {
            return Ok(Err("it is no token of a service account"));
        };
        let claims = &token.claims;
        if !claims.is_meant_for(&self.rules.issuers, &self.rules.audiences) {
            return Ok(Err("it is of another issuer or for another audience"));
        }
        let was_issued_to_node = self.was_issued_to_node(given).await?;
        if !self.is_genuine(&token, was_issued_to_node) {
            return Ok(Err("unknown signer"));
        }
        match claims.validity(clock::now().as_second()) {
            Validity::Valid => {}
            Validity::NotYetValid => return Ok(Err("its time has not come")),
            // while the cloud is not connected, the pod cannot get a newer token
            Validity::Expired if was_issued_to_node && self.cloud.link().is_none() => {}
            Validity::Expired => return Ok(Err("it has expired")),
        }
        let about = &claims.kubernetes;
        if let Some(pod) = &about.pod {
            let key = Key::new(
                resource(&ResourceType::Pod),
                about.namespace.as_str(),
                pod.name.as_str(),
            );
            let stands = self.own.get(&key).await?;
            if stands.is_none_or(|stands| text(&stands, "/metadata/uid") != pod.uid) {
                return Ok(Err("its pod does not exist on this node"));
            }
        }
        Ok(Ok(Caller::Account(
            about.namespace.clone(),
            about.serviceaccount.name.clone(),
        )))
    }

    fn is_genuine(&self, token: &Token<'_>, was_issued_to_node: bool) -> bool {
        if self.keys.is_empty() {
            was_issued_to_node
        } else {
            self.keys.verify(token)
        }
    }

    /// Reports whether the cloud gave exactly this token to this node.
    async fn was_issued_to_node(&self, given: &str) -> Result<bool, ApiError> {
        // digests are compared, so that the time of the comparison says nothing about how much of a token is right
        let wanted = digest(&SHA256, given.as_bytes());
        let held = self
            .own
            .list(&Resource::new("kubeedge.io", "serviceaccounttokens"))
            .await?
            .0;
        for entry in held {
            let entry = entry.value()?;
            let held = digest(&SHA256, text(&entry, "/token/status/token").as_bytes());
            if held.as_ref() == wanted.as_ref() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Checks that `caller` may send this request.
    pub(super) async fn check(
        &self,
        caller: &Caller,
        request: &ObjectRequest,
    ) -> Result<(), ApiError> {
        let name = match caller {
            Caller::Owner => return Ok(()),
            Caller::Anonymous => "system:anonymous".to_owned(),
            Caller::Other(user) => user.clone(),
            Caller::Account(namespace, name) => {
                if self.is_granted(namespace, name, request).await? {
                    return Ok(());
                }
                format!("system:serviceaccount:{namespace}:{name}")
            }
        };
        let target = &request.target;
        let place = match target.namespace.as_str() {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace \"{namespace}\""),
        };
        Err(ApiError::forbidden(&format!(
            "{} is forbidden: User \"{name}\" cannot {} resource \"{}\" in API group \"{}\" {place}",
            target.plural,
            verb(request.verb),
            target.plural,
            target.group
        )))
    }

    /// Reports whether the cloud has granted the account this request.
    async fn is_granted(
        &self,
        namespace: &str,
        name: &str,
        request: &ObjectRequest,
    ) -> Result<bool, ApiError> {
        let rules = self
            .rules_of(namespace, name, &request.target.namespace)
            .await?;
        Ok(rules.iter().any(|rule| allows(rule, request)))
    }

    /// Returns the rules that the cloud has granted the account in the namespace `place`, or in all namespaces if that is
    /// empty.
    pub(super) async fn rules_of(
        &self,
        namespace: &str,
        name: &str,
        place: &str,
    ) -> Result<Vec<Value>, ApiError> {
        let mut rules = Vec::new();
        for entry in self
            .own
            .list(&resource(&ResourceType::ServiceAccountAccess))
            .await?
            .0
        {
            let Ok(access) = ServiceAccountAccess::deserialize(&entry.value()?) else {
                continue;
            };
            let account = access
                .spec
                .service_account
                .as_ref()
                .map(|account| &account.metadata);
            let is_it = account.is_some_and(|account| {
                account.namespace.as_deref() == Some(namespace)
                    && account.name.as_deref() == Some(name)
            });
            if is_it {
                rules.extend(access.spec.rules_in(place).map(|rule| json!(rule)));
            }
        }
        Ok(rules)
    }
}

fn allows(rule: &Value, request: &ObjectRequest) -> bool {
    let target = &request.target;
    let resource = if request.part.is_empty() {
        target.plural.clone()
    } else {
        format!("{}/{}", target.plural, request.part)
    };
    kubeapi::rule_allows(
        rule,
        verb(request.verb),
        &target.group,
        &resource,
        &target.name,
    )
}

/// Returns the verb as RBAC rules name it.
fn verb(verb: Verb) -> &'static str {
    match verb {
        Verb::Get => "get",
        Verb::List => "list",
        Verb::Watch => "watch",
        Verb::Create => "create",
        Verb::Delete => "delete",
        Verb::Update | Verb::UpdateStatus => "update",
        Verb::Patch => "patch",
    }
}

#[cfg(test)]
pub(super) mod tests;
