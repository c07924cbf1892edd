//! Tokens of service accounts: ES256, with the claims that Kubernetes' own have.
//!
//! Source: Kubernetes, "Managing Service Accounts" (bound service account tokens).

use std::{
    sync::OnceLock,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use async_trait::async_trait;
use k8s_openapi::{
    api::authentication::v1::{TokenRequestSpec, TokenRequestStatus},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kubeapi::{TokenError, TokenIssuer, VerifiedToken};
use serde_json::{Value, json};
use uuid::Uuid;
use wire::enroll::{EcKey, verify_es256};

/// The issuer and the audience of requests that name none; a real cluster's default.
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// Kubernetes' limits of `expirationSeconds`.
const SHORTEST: i64 = 600;
const LONGEST: i64 = 1 << 32;
/// Kubernetes' default of `expirationSeconds`.
const DEFAULT: i64 = 3600;

/// Issues tokens once it has its key, which is kept in the API that it serves.
#[derive(Debug, Default)]
pub struct ServiceAccountTokens(OnceLock<EcKey>);

impl ServiceAccountTokens {
    /// Gives it the key to sign with. The first one stays.
    pub fn set_key(&self, key: EcKey) {
        let _ = self.0.set(key);
    }
}

#[async_trait]
impl TokenIssuer for ServiceAccountTokens {
    async fn issue(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        spec: &TokenRequestSpec,
    ) -> Result<TokenRequestStatus, TokenError> {
        let key =
            self.0.get().ok_or_else(|| TokenError::Failed("this cloud is still starting".to_owned()))?;
        let seconds = spec.expiration_seconds.unwrap_or(DEFAULT);
        if !(SHORTEST..=LONGEST).contains(&seconds) {
            return Err(TokenError::Refused(format!(
                "spec.expirationSeconds: Invalid value: {seconds}: may not specify a duration less than 10 minutes or \
                 larger than 2^32 seconds"
            )));
        }
        let lifetime = Duration::from_secs(seconds.unsigned_abs());
        let now = SystemTime::now();
        let expiry = now + lifetime;
        let claims = claims(namespace, name, uid, spec, (now, expiry));
        let token = key.sign_es256(&claims).map_err(|error| TokenError::Failed(error.to_string()))?;
        let expiry =
            jiff::Timestamp::try_from(expiry).map_err(|error| TokenError::Failed(error.to_string()))?;
        Ok(TokenRequestStatus { token, expiration_timestamp: Time(expiry) })
    }

    async fn verify(&self, token: &str, audiences: &[String]) -> Result<VerifiedToken, TokenError> {
        let key =
            self.0.get().ok_or_else(|| TokenError::Failed("this cloud is still starting".to_owned()))?;
        let refused = |why: &str| TokenError::Refused(format!("invalid bearer token: {why}"));
        let claims = verify_es256(token, key.public_key(), SystemTime::now())
            .map_err(|error| refused(&error.to_string()))?;
        verified(&claims, audiences).map_err(refused)
    }
}

/// What the claims of a token say that bears this cloud's signature.
fn verified(claims: &Value, audiences: &[String]) -> Result<VerifiedToken, &'static str> {
    if claims["iss"] != ISSUER {
        return Err("another issuer");
    }
    let own = [ISSUER.to_owned()];
    let wanted = if audiences.is_empty() { &own } else { audiences };
    let is_for = |audience: &&String| match &claims["aud"] {
        Value::Array(all) => all.iter().any(|one| one == audience.as_str()),
        one => one == audience.as_str(),
    };
    let audiences: Vec<_> = wanted.iter().filter(is_for).cloned().collect();
    if audiences.is_empty() {
        return Err("token audiences do not match");
    }
    let text = |pointer: &str| {
        let found = claims.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        found.ok_or("no service account's")
    };
    let pod = claims.pointer("/kubernetes.io/pod").is_some();
    let pod =
        if pod { Some((text("/kubernetes.io/pod/name")?, text("/kubernetes.io/pod/uid")?)) } else { None };
    Ok(VerifiedToken {
        namespace: text("/kubernetes.io/namespace")?,
        name: text("/kubernetes.io/serviceaccount/name")?,
        uid: text("/kubernetes.io/serviceaccount/uid")?,
        pod,
        audiences,
    })
}

fn claims(
    namespace: &str,
    name: &str,
    uid: &str,
    spec: &TokenRequestSpec,
    (now, expiry): (SystemTime, SystemTime),
) -> Value {
    let seconds = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let audiences = if spec.audiences.is_empty() { vec![ISSUER.to_owned()] } else { spec.audiences.clone() };
    let mut kubernetes = json!({"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}});
    if let Some(bound) = &spec.bound_object_ref
        && let Some(kind) = bound.kind.as_deref().map(str::to_lowercase)
    {
        kubernetes[kind] = json!({"name": bound.name, "uid": bound.uid});
    }
    json!({
        "aud": audiences, "exp": seconds(expiry), "iat": seconds(now), "nbf": seconds(now), "iss": ISSUER,
        "jti": Uuid::new_v4().to_string(), "sub": format!("system:serviceaccount:{namespace}:{name}"),
        "kubernetes.io": kubernetes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(seconds: Option<i64>) -> TokenRequestSpec {
        serde_json::from_value(json!({
            "audiences": [], "expirationSeconds": seconds,
            "boundObjectRef": {"kind": "Pod", "name": "p", "uid": "pod-uid"},
        }))
        .unwrap()
    }

    #[tokio::test]
    async fn a_token_says_whose_it_is_and_where_it_may_be_shown() {
        let key = EcKey::generate().unwrap();
        let public = key.public_key().to_vec();
        let issuer = ServiceAccountTokens::default();
        issuer.set_key(key);
        let status = issuer.issue("ns", "robot", "u", &spec(None)).await.unwrap();
        let claims = verify_es256(&status.token, &public, SystemTime::now()).unwrap();
        assert_eq!(claims["sub"], "system:serviceaccount:ns:robot");
        assert_eq!(claims["aud"], json!([ISSUER]));
        assert_eq!(claims["kubernetes.io"]["pod"], json!({"name": "p", "uid": "pod-uid"}));
        assert_eq!(claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap(), 3600);
    }

    #[tokio::test]
    async fn a_token_is_known_again_by_whoever_signed_it() {
        let issuer = |key| {
            let issuer = ServiceAccountTokens::default();
            issuer.set_key(key);
            issuer
        };
        let own = issuer(EcKey::generate().unwrap());
        let token = own.issue("ns", "robot", "u", &spec(None)).await.unwrap().token;
        let verified = own.verify(&token, &[]).await.unwrap();
        assert_eq!(
            (verified.namespace.as_str(), verified.name.as_str(), verified.uid.as_str()),
            ("ns", "robot", "u")
        );
        assert_eq!(verified.pod, Some(("p".to_owned(), "pod-uid".to_owned())));
        let audiences = ["other".to_owned(), ISSUER.to_owned()];
        assert_eq!(own.verify(&token, &audiences).await.unwrap().audiences, [ISSUER]);
        let foreign = issuer(EcKey::generate().unwrap()).verify(&token, &[]).await;
        let elsewhere = own.verify(&token, &["other".to_owned()]).await;
        let cut = own.verify(&token[..token.len() - 4], &[]).await;
        for refused in [foreign, elsewhere, cut, own.verify("", &[]).await] {
            assert!(matches!(refused, Err(TokenError::Refused(_))), "{refused:?}");
        }
    }

    #[tokio::test]
    async fn lifetimes_out_of_bounds_and_a_missing_key_are_refused() {
        let issuer = ServiceAccountTokens::default();
        assert!(matches!(issuer.issue("ns", "a", "u", &spec(None)).await, Err(TokenError::Failed(_))));
        issuer.set_key(EcKey::generate().unwrap());
        for seconds in [-1, 0, 599, LONGEST + 1] {
            assert!(matches!(
                issuer.issue("ns", "a", "u", &spec(Some(seconds))).await,
                Err(TokenError::Refused(_))
            ));
        }
    }
}
