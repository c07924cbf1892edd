//! Provides the service account tokens of a pod's volumes: those on disk while they are valid, else new ones.

use clock::Instant;

use jiff::Timestamp;
use k8s_openapi::api::{
    authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec},
    core::v1::{Pod, ServiceAccount},
};
use kube::{Api, api::PostParams};
use wire::names::is_path_component;

use super::super::{context::Context, identity::Identity};
use crate::{
    api_message, timestamps,
    volumes::{
        Tokens,
        token::{self, RequiredToken},
    },
};

/// Returns all tokens of the pod, and when the first of them must be replaced.
pub(super) async fn of_pod(
    context: &Context,
    pod: &Pod,
    identity: &Identity<'_>,
    now: Timestamp,
) -> (Tokens, Option<Timestamp>) {
    let (mut tokens, mut next) = (Tokens::new(), None);
    for wanted in token::required_tokens(pod) {
        let old = on_disk(context, identity, &wanted).await;
        let key = (wanted.volume.clone(), wanted.path.clone());
        let age = context.pod_cache.with(identity.uid, |state| {
            state.tokens.get(&key).map(Instant::elapsed)
        });
        let is_valid = old
            .as_deref()
            .is_some_and(|old| !token::is_due(old, age, now));
        let token = match old {
            Some(old) if is_valid => Ok(old),
            old => match request(context, pod, identity, &wanted).await {
                Ok(token) => {
                    context.pod_cache.with(identity.uid, |state| {
                        state.tokens.insert(key, Instant::now())
                    });
                    Ok(token)
                }
                // The old token may still be valid for a while, and there is no better one.
                Err(error) => old.ok_or(error),
            },
        };
        if let Ok(token) = &token {
            next = timestamps::earlier(next, token::refresh_at(token));
        }
        tokens.insert((wanted.volume, wanted.path), token);
    }
    (tokens, next)
}

async fn on_disk(
    context: &Context,
    identity: &Identity<'_>,
    wanted: &RequiredToken,
) -> Option<String> {
    if !is_path_component(&wanted.volume) || !crate::names::is_below(wanted.path.as_ref()) {
        return None;
    }
    let path = context
        .dirs
        .volume(identity.uid, "projected", &wanted.volume)
        .join(&wanted.path);
    clock::fs::read_to_string(path).await.ok()
}

async fn request(
    context: &Context,
    pod: &Pod,
    identity: &Identity<'_>,
    wanted: &RequiredToken,
) -> Result<String, String> {
    let account = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.service_account_name.as_deref())
        .unwrap_or("default");
    if !is_path_component(account) {
        return Err("that is not a service account's name".into());
    }
    let audiences = Some(wanted.audience.clone()).filter(|audience| !audience.is_empty());
    let request = TokenRequest {
        spec: TokenRequestSpec {
            audiences: audiences.into_iter().collect(),
            expiration_seconds: Some(wanted.seconds),
            bound_object_ref: Some(BoundObjectReference {
                api_version: Some("v1".into()),
                kind: Some("Pod".into()),
                name: Some(identity.name.to_owned()),
                uid: Some(identity.uid.to_owned()),
            }),
        },
        ..Default::default()
    };
    let api = Api::<ServiceAccount>::namespaced(context.client.clone(), identity.namespace);
    let answer = api
        .create_token_request(account, &PostParams::default(), &request)
        .await;
    let status = answer.map_err(|error| api_message(&error))?.status;
    let token = status
        .map(|status| status.token)
        .filter(|token| !token.is_empty());
    token.ok_or_else(|| "the API's answer has no token".into())
}
