//! When a service account's token is replaced: decided from the token itself, so that one that an earlier run of the agent
//! wrote is used on, also without the cloud. Pure.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, ServiceAccountTokenProjection};
use serde::Deserialize;

use crate::edged::volume_source::{VolumeSource, volumes};

/// The shortest life that the API grants, and the default of pods.
const MIN_SECONDS: i64 = 600;
const DEFAULT_SECONDS: i64 = 3600;
/// A token is replaced after this share of its life, and at the latest after a day; the kubelet's rule.
const SHARE: (i64, i64) = (4, 5);
const MAX_AGE: i64 = 24 * 3600;
/// The clocks of cloud and node may differ by so many seconds.
const SKEW: i64 = 60;

/// The claims that matter here.
#[derive(Deserialize)]
struct Claims {
    exp: i64,
    iat: Option<i64>,
}

/// A token that a pod needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WantedToken {
    /// The volume.
    pub(crate) volume: String,
    /// The file in it.
    pub(crate) path: String,
    /// For whom; empty for the API server.
    pub(crate) audience: String,
    /// Seconds of life.
    pub(crate) seconds: i64,
}

/// The tokens of the pod's projected volumes.
pub(crate) fn wanted(pod: &Pod) -> Vec<WantedToken> {
    let pairs = volumes(pod).flat_map(|volume| {
        let projection = VolumeSource::of(volume).and_then(VolumeSource::projection);
        let sources = projection.into_iter().flat_map(|projected| projected.sources.iter().flatten());
        sources.filter_map(|source| Some((volume.name.clone(), source.service_account_token.as_ref()?)))
    });
    let one = |(volume, source): (String, &ServiceAccountTokenProjection)| WantedToken {
        volume,
        path: source.path.clone(),
        audience: source.audience.clone().unwrap_or_default(),
        seconds: source.expiration_seconds.unwrap_or(DEFAULT_SECONDS).max(MIN_SECONDS),
    };
    pairs.map(one).collect()
}

/// When the token should be replaced; `None` when it does not say how long it lives.
pub(crate) fn refresh_at(token: &str) -> Option<Timestamp> {
    let Life { issued, age } = life(token)?;
    Timestamp::from_second(issued.checked_add(age)?).ok()
}

/// Whether the token should be replaced now. `held`: for how long this program has it, if it was fetched by this program, which
/// counts also where the node's clock is wrong. One that was fetched before must not be younger than the clock says.
pub(crate) fn is_due(token: &str, held: Option<Duration>, now: Timestamp) -> bool {
    let (Some(life), Some(at)) = (life(token), refresh_at(token)) else { return true };
    let age = u64::try_from(life.age).unwrap_or(0);
    match held {
        Some(held) if held.as_secs() >= age => true,
        None if life.issued > now.as_second().saturating_add(SKEW) => true,
        _ => at <= now,
    }
}

/// Seconds.
struct Life {
    issued: i64,
    /// From then on until it should be replaced.
    age: i64,
}

fn life(token: &str) -> Option<Life> {
    let claims = token.trim().split('.').nth(1)?;
    let claims: Claims = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
    let issued = claims.iat.unwrap_or(claims.exp.saturating_sub(DEFAULT_SECONDS));
    let life = claims.exp.checked_sub(issued).filter(|life| *life > 0)?;
    Some(Life { issued, age: (life / SHARE.1 * SHARE.0).min(MAX_AGE) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(claims: &str) -> String {
        format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims))
    }

    #[test]
    fn a_clock_that_is_wrong_lets_no_token_grow_old() {
        let token = token(r#"{"iat":10000,"exp":13600}"#);
        let due = |held: Option<u64>, now: i64| {
            is_due(&token, held.map(Duration::from_secs), Timestamp::from_second(now).unwrap())
        };
        assert!(!due(None, 10_000) && !due(None, 9_940) && due(None, 12_880));
        assert!(due(None, 9_939), "fetched before the clock was set back, nobody knows how long ago");
        assert!(!due(Some(2879), 0) && due(Some(2880), 0), "the node's clock is behind");
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
        assert_eq!(at(&format!(r#"{{"iat":{},"exp":{}}}"#, i64::MIN, i64::MAX)), None);
        for bad in ["", "a", "a.b.c", "..", "é.é.é"] {
            assert_eq!(refresh_at(bad), None, "{bad}");
        }
    }
}
