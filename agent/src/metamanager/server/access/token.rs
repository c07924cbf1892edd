//! Parses the claims of a service account's token and checks its validity. Pure.
//!
//! Source: Kubernetes, "Managing Service Accounts" (bound service account tokens); RFC 7519.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::Deserialize;

/// How far the clocks of the cloud and of this node may differ, seconds.
const MAX_CLOCK_SKEW: i64 = 60;
/// The length of the longest accepted token, bytes.
const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// A parsed token whose signature is not verified yet.
#[derive(Debug)]
pub(super) struct Token<'a> {
    /// The signed text.
    pub(super) signed: &'a str,
    /// The signature.
    pub(super) signature: Vec<u8>,
    /// The algorithm, such as `RS256`.
    pub(super) algorithm: String,
    /// The claims.
    pub(super) claims: Claims,
}

/// The claims that are checked.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Claims {
    #[serde(rename = "iss")]
    pub(super) issuer: String,
    #[serde(rename = "aud", default)]
    pub(super) audiences: Audiences,
    #[serde(rename = "exp", default)]
    pub(super) expires: i64,
    #[serde(rename = "nbf", default)]
    pub(super) not_before: i64,
    #[serde(rename = "kubernetes.io")]
    pub(super) kubernetes: KubernetesClaims,
}

/// One audience or several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(super) enum Audiences {
    One(String),
    Several(Vec<String>),
    #[default]
    None,
}

/// The private claims of Kubernetes: the account, and the pod to which the token is bound.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct KubernetesClaims {
    pub(super) namespace: String,
    pub(super) serviceaccount: BoundObject,
    pub(super) pod: Option<BoundObject>,
}

/// An object that the token names.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct BoundObject {
    pub(super) name: String,
    pub(super) uid: String,
}

/// Whether a token is valid at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Validity {
    Valid,
    Expired,
    NotYetValid,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
}

/// Parses a token; `None` if the text is none.
pub(super) fn read(text: &str) -> Option<Token<'_>> {
    if text.len() > MAX_TOKEN_BYTES {
        return None;
    }
    let (signed, signature) = text.rsplit_once('.')?;
    let (header, claims) = signed.split_once('.')?;
    let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).ok();
    let header: Header = serde_json::from_slice(&decode(header)?).ok()?;
    let claims = serde_json::from_slice(&decode(claims)?).ok()?;
    Some(Token {
        signed,
        signature: decode(signature)?,
        algorithm: header.alg,
        claims,
    })
}

impl Claims {
    /// Reports whether the token is from one of `issuers` and for one of `audiences`; if these are empty, the issuers are the
    /// audiences.
    pub(super) fn is_meant_for(&self, issuers: &[String], audiences: &[String]) -> bool {
        let audiences = if audiences.is_empty() {
            issuers
        } else {
            audiences
        };
        let own = match &self.audiences {
            Audiences::One(one) => std::slice::from_ref(one),
            Audiences::Several(several) => several,
            // older tokens have no audience and are for the API
            Audiences::None => return issuers.contains(&self.issuer),
        };
        issuers.contains(&self.issuer) && own.iter().any(|audience| audiences.contains(audience))
    }

    /// Returns whether the token is valid at `now`, seconds since the Unix epoch. Old tokens, from Secrets, never expire.
    pub(super) fn validity(&self, now: i64) -> Validity {
        if now < self.not_before - MAX_CLOCK_SKEW {
            Validity::NotYetValid
        } else if self.expires > 0 && now > self.expires + MAX_CLOCK_SKEW {
            Validity::Expired
        } else {
            Validity::Valid
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn claims(aud: Value) -> Claims {
        let about = json!({"namespace": "ns", "serviceaccount": {"name": "robot", "uid": "u"}, "pod": {"name": "p", "uid": "v"}});
        serde_json::from_value(
            json!({"iss": "https://c", "aud": aud, "exp": 2000, "nbf": 1000, "kubernetes.io": about}),
        )
        .unwrap()
    }

    #[test]
    fn a_token_is_valid_for_its_issuers_and_audiences() {
        let texts = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let rows = [
            (
                json!(["https://c"]),
                texts(&["https://c"]),
                texts(&[]),
                true,
            ),
            (json!("https://c"), texts(&["https://c"]), texts(&[]), true),
            (json!(["vault"]), texts(&["https://c"]), texts(&[]), false),
            (
                json!(["vault"]),
                texts(&["https://c"]),
                texts(&["vault"]),
                true,
            ),
            (
                json!(["https://c"]),
                texts(&["https://c"]),
                texts(&["vault"]),
                false,
            ),
            (
                json!(["https://c"]),
                texts(&["https://other"]),
                texts(&["https://c"]),
                false,
            ),
        ];
        for (aud, issuers, audiences, expected) in rows {
            assert_eq!(
                claims(aud.clone()).is_meant_for(&issuers, &audiences),
                expected,
                "{aud} {issuers:?} {audiences:?}"
            );
        }
    }

    #[test]
    fn a_token_has_its_time() {
        let claims = claims(json!("a"));
        for (now, expected) in [
            (900, Validity::NotYetValid),
            (940, Validity::Valid),
            (1500, Validity::Valid),
            (2060, Validity::Valid),
            (2061, Validity::Expired),
        ] {
            assert_eq!(claims.validity(now), expected, "{now}");
        }
        assert_eq!(
            Claims {
                expires: 0,
                ..claims
            }
            .validity(i64::MAX - 100),
            Validity::Valid
        );
    }

    #[test]
    fn invalid_tokens_are_rejected() {
        let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let good = part(
            json!({"iss": "i", "kubernetes.io": {"namespace": "n", "serviceaccount": {"name": "a", "uid": "u"}}}),
        );
        let header = part(json!({"alg": "none"}));
        assert!(read(&format!("{header}.{good}.AAAA")).is_some());
        let bad = [
            String::new(),
            "a.b.c".to_owned(),
            format!("{header}.{good}"),
            format!("{header}.{header}.AAAA"),
            format!("{header}.{good}.***"),
            format!("{}.AAAA", "x".repeat(MAX_TOKEN_BYTES)),
        ];
        for text in bad {
            assert!(read(&text).is_none(), "{text}");
        }
    }
}
