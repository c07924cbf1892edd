//! Decides when a service account token is replaced, from the token itself, so that one that a previous run of the agent has
//! written is used further, also without the cloud. Pure.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, ServiceAccountTokenProjection};
use serde::Deserialize;

use crate::volume_source::{VolumeSource, volumes};

/// Minimum lifetime that the API grants, in seconds, and the default lifetime.
const MIN_SECONDS: i64 = 600;
const DEFAULT_SECONDS: i64 = 3600;
/// A token is replaced after this fraction of its lifetime, and at the latest after [`MAX_AGE`]; the kubelet's rule.
const REFRESH_FRACTION: (i64, i64) = (4, 5);
const MAX_AGE: i64 = 24 * 3600;
/// Maximum difference between the clocks of cloud and node, in seconds.
const MAX_CLOCK_SKEW: i64 = 60;

/// The JWT claims that are needed.
#[derive(Deserialize)]
struct JwtClaims {
    exp: i64,
    iat: Option<i64>,
}

/// A token that a pod needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequiredToken {
    /// The volume's name.
    pub(crate) volume: String,
    /// The file's path in the volume.
    pub(crate) path: String,
    /// The audience, empty for the API server.
    pub(crate) audience: String,
    /// Lifetime in seconds.
    pub(crate) seconds: i64,
}

/// Returns the tokens that the pod's projected volumes need.
pub(crate) fn required_tokens(pod: &Pod) -> Vec<RequiredToken> {
    let pairs = volumes(pod).flat_map(|volume| {
        let projection = VolumeSource::of(volume).and_then(VolumeSource::projection);
        let sources = projection
            .into_iter()
            .flat_map(|projected| projected.sources.iter().flatten());
        sources.filter_map(|source| {
            Some((volume.name.clone(), source.service_account_token.as_ref()?))
        })
    });
    let one = |(volume, source): (String, &ServiceAccountTokenProjection)| RequiredToken {
        volume,
        path: source.path.clone(),
        audience: source.audience.clone().unwrap_or_default(),
        seconds: source
            .expiration_seconds
            .unwrap_or(DEFAULT_SECONDS)
            .max(MIN_SECONDS),
    };
    pairs.map(one).collect()
}

/// Returns when the token should be replaced, `None` if its lifetime is unknown.
pub(crate) fn refresh_at(token: &str) -> Option<Timestamp> {
    let TokenLifetime { issued, use_for } = life(token)?;
    Timestamp::from_second(issued.checked_add(use_for)?).ok()
}

/// Reports whether the token should be replaced now. `age` is how long ago this program fetched it, if it did; that counts also
/// if the node's clock is wrong. A token from a previous run must not have been issued in the future.
pub(crate) fn is_due(token: &str, age: Option<Duration>, now: Timestamp) -> bool {
    let (Some(life), Some(at)) = (life(token), refresh_at(token)) else {
        return true;
    };
    let use_for = u64::try_from(life.use_for).unwrap_or(0);
    match age {
        Some(age) if age.as_secs() >= use_for => true,
        None if life.issued > now.as_second().saturating_add(MAX_CLOCK_SKEW) => true,
        _ => at <= now,
    }
}

/// When a token was issued and for how long it is used, in seconds.
struct TokenLifetime {
    issued: i64,
    /// Time from the issue until it should be replaced.
    use_for: i64,
}

fn life(token: &str) -> Option<TokenLifetime> {
    let claims = token.trim().split('.').nth(1)?;
    let claims: JwtClaims = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
    let issued = claims
        .iat
        .unwrap_or(claims.exp.saturating_sub(DEFAULT_SECONDS));
    let life = claims.exp.checked_sub(issued).filter(|life| *life > 0)?;
    Some(TokenLifetime {
        issued,
        use_for: (life / REFRESH_FRACTION.1 * REFRESH_FRACTION.0).min(MAX_AGE),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(claims: &str) -> String {
        format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims))
    }

    #[test]
    fn wrong_clock_does_not_delay_token_refresh() {
        let token = token(r#"{"iat":10000,"exp":13600}"#);
        let due = |age: Option<u64>, now: i64| {
            is_due(
                &token,
                age.map(Duration::from_secs),
                Timestamp::from_second(now).unwrap(),
            )
        };
        assert!(!due(None, 10_000) && !due(None, 9_940) && due(None, 12_880));
        assert!(
            due(None, 9_939),
            "fetched before the clock was set back, nobody knows how long ago"
        );
        assert!(
            !due(Some(2879), 0) && due(Some(2880), 0),
            "the node's clock is behind"
        );
        assert!(due(Some(1), 20_000), "the node's clock was set");
        assert!(is_due("no token", None, Timestamp::UNIX_EPOCH));
    }

    #[test]
    fn a_token_is_replaced_at_four_fifths_of_its_life() {
        let at = |claims: &str| refresh_at(&token(claims)).map(|at| at.as_second());
        assert_eq!(at(r#"{"iat":1000,"exp":4600}"#), Some(3880));
        assert_eq!(at(r#"{"iat":0,"exp":1000000}"#), Some(86400));
        assert_eq!(at(r#"{"exp":4600}"#), Some(3880));
        for bad in [r#"{"iat":9,"exp":9}"#, "{}", r#"{"exp":"x"}"#] {
            assert_eq!(at(bad), None, "{bad}");
        }
        assert_eq!(
            at(&format!(r#"{{"iat":{},"exp":{}}}"#, i64::MIN, i64::MAX)),
            None
        );
        for bad in ["", "a", "a.b.c", "..", "é.é.é"] {
            assert_eq!(refresh_at(bad), None, "{bad}");
        }
    }
}
