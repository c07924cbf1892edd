//! Tokens of service accounts: ES256, with the claims of Kubernetes.
//!
//! Source: Kubernetes, "Managing Service Accounts" (bound service account tokens).

use std::{
    sync::OnceLock,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use apiserver::{
    BoundKind, BoundObject, PublishedKeys, TokenError, TokenGrant, TokenIssuer, VerifiedToken,
};
use async_trait::async_trait;
use k8s_openapi::{
    api::authentication::v1::TokenRequestStatus, apimachinery::pkg::apis::meta::v1::Time,
};
use serde_json::{Value, json};
use wire::enroll::{EcKey, verify_es256_within};

/// The issuer, and the audience of requests without one; a real cluster's default.
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// The accepted clock difference; Kubernetes' leeway.
const LEEWAY: Duration = Duration::from_secs(60);

/// Issues tokens once it has its key, which is stored in the API that it serves.
#[derive(Debug)]
pub struct ServiceAccountTokens {
    key: OnceLock<EcKey>,
    max_lifetime: Duration,
}

impl ServiceAccountTokens {
    /// The default for the longest lifetime of a token: a year, the longest to which Kubernetes extends one.
    pub const MAX_LIFETIME: Duration = Duration::from_secs(365 * 24 * 60 * 60);
    /// The smallest maximum that can be configured; kube-apiserver's.
    pub const LEAST_MAX_LIFETIME: Duration = Duration::from_secs(60 * 60);

    /// Creates an issuer without a key, whose tokens live no longer than `max_lifetime`.
    pub fn new(max_lifetime: Duration) -> Self {
        Self {
            key: OnceLock::new(),
            max_lifetime,
        }
    }

    /// Sets the signing key. Only the first call has an effect.
    pub fn set_key(&self, key: EcKey) {
        let _ = self.key.set(key);
    }

    fn key(&self) -> Result<&EcKey, TokenError> {
        self.key
            .get()
            .ok_or_else(|| TokenError::Failed("this cloud is still starting".to_owned()))
    }
}

impl Default for ServiceAccountTokens {
    fn default() -> Self {
        Self::new(Self::MAX_LIFETIME)
    }
}

#[async_trait]
impl TokenIssuer for ServiceAccountTokens {
    async fn issue(&self, grant: &TokenGrant) -> Result<TokenRequestStatus, TokenError> {
        let key = self.key()?;
        let failed = |error: &dyn std::fmt::Display| TokenError::Failed(error.to_string());
        let now = clock::system_now();
        let expiry = now.checked_add(grant.lifetime.min(self.max_lifetime));
        let expiry =
            expiry.ok_or_else(|| failed(&"the token's lifetime is too long for a date"))?;
        let token = key
            .sign_es256(&claims(grant, now, expiry))
            .map_err(|error| failed(&error))?;
        let expiry = jiff::Timestamp::try_from(expiry).map_err(|error| failed(&error))?;
        Ok(TokenRequestStatus {
            token,
            expiration_timestamp: Time(expiry),
        })
    }

    async fn verify(&self, token: &str, audiences: &[String]) -> Result<VerifiedToken, TokenError> {
        let refused = |why: &str| TokenError::Refused(format!("invalid bearer token: {why}"));
        let claims =
            verify_es256_within(token, self.key()?.public_key(), clock::system_now(), LEEWAY)
                .map_err(|error| refused(&error.to_string()))?;
        verify_claims(&claims, audiences).map_err(refused)
    }

    fn max_lifetime(&self) -> Option<Duration> {
        Some(self.max_lifetime)
    }

    fn published_keys(&self) -> Option<PublishedKeys> {
        Some(PublishedKeys {
            issuer: ISSUER,
            algorithm: "ES256",
            keys: vec![self.key.get()?.to_jwk()],
        })
    }
}

/// Checks the claims of a token with a valid signature.
fn verify_claims(claims: &Value, audiences: &[String]) -> Result<VerifiedToken, &'static str> {
    if claims["iss"] != ISSUER {
        return Err("another issuer");
    }
    let own = [ISSUER.to_owned()];
    let wanted = if audiences.is_empty() {
        &own
    } else {
        audiences
    };
    let is_for = |audience: &&String| match &claims["aud"] {
        Value::Array(all) => all.iter().any(|one| one == audience.as_str()),
        one => one == audience.as_str(),
    };
    let audiences: Vec<_> = wanted.iter().filter(is_for).cloned().collect();
    if audiences.is_empty() {
        return Err("token audiences do not match");
    }
    let text = |pointer: &str| {
        let found = claims
            .pointer(pointer)
            .and_then(Value::as_str)
            .map(str::to_owned);
        found.ok_or("no service account's")
    };
    let named = |kind: BoundKind| {
        let pointer = format!("/kubernetes.io/{}", kind.claim());
        claims
            .pointer(&pointer)
            .map(|_| (format!("{pointer}/name"), format!("{pointer}/uid")))
    };
    let mut bound = None;
    // the node of a pod's token is informative, and the token does not end with it
    for kind in [BoundKind::Pod, BoundKind::Secret, BoundKind::Node] {
        if let (None, Some((name, uid))) = (&bound, named(kind)) {
            bound = Some(BoundObject {
                kind,
                name: text(&name)?,
                uid: text(&uid)?,
            });
        }
    }
    let node = match (&bound, named(BoundKind::Node)) {
        (
            Some(BoundObject {
                kind: BoundKind::Pod,
                ..
            }),
            Some((name, uid)),
        ) => Some((text(&name)?, text(&uid).ok())),
        _ => None,
    };
    Ok(VerifiedToken {
        namespace: text("/kubernetes.io/namespace")?,
        name: text("/kubernetes.io/serviceaccount/name")?,
        uid: text("/kubernetes.io/serviceaccount/uid")?,
        bound,
        node,
        id: text("/jti").ok(),
        audiences,
    })
}

fn claims(grant: &TokenGrant, now: SystemTime, expiry: SystemTime) -> Value {
    let TokenGrant {
        namespace,
        name,
        uid,
        audiences,
        bound,
        node,
        ..
    } = grant;
    let seconds = |time: SystemTime| {
        time.duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs()
    };
    let audiences = if audiences.is_empty() {
        vec![ISSUER.to_owned()]
    } else {
        audiences.clone()
    };
    let mut kubernetes =
        json!({"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}});
    if let Some((name, uid)) = node {
        kubernetes["node"] = match uid {
            Some(uid) => json!({"name": name, "uid": uid}),
            None => json!({"name": name}),
        };
    }
    if let Some(BoundObject { kind, name, uid }) = bound {
        kubernetes[kind.claim()] = json!({"name": name, "uid": uid});
    }
    json!({
        "aud": audiences, "exp": seconds(expiry), "iat": seconds(now), "nbf": seconds(now), "iss": ISSUER,
        "jti": clock::uuid().to_string(), "sub": format!("system:serviceaccount:{namespace}:{name}"),
        "kubernetes.io": kubernetes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};

    fn grant(bound: BoundKind, lifetime: u64) -> TokenGrant {
        TokenGrant {
            namespace: "ns".into(),
            name: "robot".into(),
            uid: "u".into(),
            audiences: Vec::new(),
            lifetime: Duration::from_secs(lifetime),
            bound: Some(BoundObject {
                kind: bound,
                name: "p".into(),
                uid: "p-uid".into(),
            }),
            node: (bound == BoundKind::Pod).then(|| ("edge-1".into(), None)),
        }
    }

    #[tokio::test]
    async fn a_token_says_whose_it_is_and_where_it_may_be_shown() {
        let key = EcKey::generate().unwrap();
        let public = key.public_key().to_vec();
        let issuer = ServiceAccountTokens::default();
        issuer.set_key(key);
        let status = issuer.issue(&grant(BoundKind::Pod, 3600)).await.unwrap();
        let claims =
            verify_es256_within(&status.token, &public, clock::system_now(), LEEWAY).unwrap();
        assert_eq!(claims["sub"], "system:serviceaccount:ns:robot");
        assert_eq!(claims["aud"], json!([ISSUER]));
        assert_eq!(
            claims["kubernetes.io"]["pod"],
            json!({"name": "p", "uid": "p-uid"})
        );
        assert_eq!(claims["kubernetes.io"]["node"], json!({"name": "edge-1"}));
        assert_eq!(
            claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap(),
            3600
        );
    }

    /// Reads a part of a token, or a coordinate of a key.
    fn decode(text: &str) -> Vec<u8> {
        BASE64_URL_SAFE_NO_PAD.decode(text).unwrap()
    }

    #[tokio::test]
    async fn published_keys_verify_tokens() {
        let issuer = ServiceAccountTokens::default();
        assert_eq!(issuer.published_keys(), None, "without a key");
        issuer.set_key(EcKey::generate().unwrap());
        let published = issuer.published_keys().unwrap();
        let key = &published.keys[0];
        let coordinate = |name: &str| decode(key[name].as_str().unwrap());
        let public = [vec![4], coordinate("x"), coordinate("y")].concat();
        let token = issuer
            .issue(&grant(BoundKind::Pod, 3600))
            .await
            .unwrap()
            .token;
        let claims = verify_es256_within(&token, &public, clock::system_now(), LEEWAY).unwrap();
        assert_eq!(claims["iss"], published.issuer);
        let head: Value =
            serde_json::from_slice(&decode(token.split('.').next().unwrap())).unwrap();
        assert_eq!(head["alg"], published.algorithm);
    }

    #[tokio::test]
    async fn a_token_is_known_again_by_whoever_signed_it() {
        let issuer = |key| {
            let issuer = ServiceAccountTokens::default();
            issuer.set_key(key);
            issuer
        };
        let own = issuer(EcKey::generate().unwrap());
        for kind in BoundKind::ALL {
            let token = own.issue(&grant(kind, 3600)).await.unwrap().token;
            let verified = own.verify(&token, &[]).await.unwrap();
            assert_eq!(
                (
                    verified.namespace.as_str(),
                    verified.name.as_str(),
                    verified.uid.as_str()
                ),
                ("ns", "robot", "u")
            );
            let grant = grant(kind, 3600);
            assert_eq!((verified.bound, verified.node), (grant.bound, grant.node));
        }
        let token = own.issue(&grant(BoundKind::Pod, 3600)).await.unwrap().token;
        let audiences = ["other".to_owned(), ISSUER.to_owned()];
        assert_eq!(
            own.verify(&token, &audiences).await.unwrap().audiences,
            [ISSUER]
        );
        let foreign = issuer(EcKey::generate().unwrap()).verify(&token, &[]).await;
        let elsewhere = own.verify(&token, &["other".to_owned()]).await;
        let cut = own.verify(&token[..token.len() - 4], &[]).await;
        for refused in [foreign, elsewhere, cut, own.verify("", &[]).await] {
            assert!(
                matches!(refused, Err(TokenError::Refused(_))),
                "{refused:?}"
            );
        }
    }

    #[tokio::test]
    async fn no_token_outlives_what_is_allowed_and_there_is_none_without_a_key() {
        let issuer = ServiceAccountTokens::new(Duration::from_secs(7200));
        let long = grant(BoundKind::Secret, 1 << 32);
        assert!(matches!(
            issuer.issue(&long).await,
            Err(TokenError::Failed(_))
        ));
        issuer.set_key(EcKey::generate().unwrap());
        let end = issuer.issue(&long).await.unwrap().expiration_timestamp.0;
        let life = end.duration_since(clock::now()).as_secs();
        assert!((7100..=7200).contains(&life), "{life}");
    }
}
