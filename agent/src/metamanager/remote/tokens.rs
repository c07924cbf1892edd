//! Tokens of service accounts: requested from the cloud and kept on disk, so that a pod starts with the last known token while
//! the cloud is not connected.

use http::{Method, Response};
use jiff::{SignedDuration, Timestamp};
use kubeapi::Body;
use objectstore::{Key, Resource, StoreError};
use serde_json::{Value, json};
use tracing::debug;
use wire::{Answer, Upstream};

use super::{ApiError, Remote, success};
use crate::metamanager::{desired::Desired, record::fingerprint};

/// The share of its lifetime after which a token is renewed; the kubelet's.
const RENEW_AFTER_PERCENT: i64 = 80;
/// The age after which every token is renewed; the kubelet's.
const MAX_TOKEN_AGE: SignedDuration = SignedDuration::from_hours(24);

impl Remote {
    /// Returns a token for the account: a stored one that is fresh, else a new one, else the last known.
    pub(super) async fn token(
        &self,
        namespace: &str,
        account: &str,
        request: Value,
    ) -> Result<Response<Body>, ApiError> {
        let key = key(namespace, account, &request);
        let kept = self.desired.get(&key).await?;
        if let Some(kept) = kept.as_ref().filter(|kept| is_fresh(kept, clock::now())) {
            return Ok(success(&Method::POST, &kept["token"]));
        }
        let asked = match self
            .request(Upstream::token(namespace, account, request.clone()))
            .await
        {
            Ok((Answer::Found(token), _)) => Ok(token),
            Ok((Answer::Failed(status), _)) => return Err(ApiError::of(status)),
            Ok((Answer::Response(response), _)) => response.into_result().map_err(ApiError::of),
            Ok((Answer::Done, _)) => Err(ApiError::bad_gateway(
                "the cloud answered a token request without a token",
            )),
            Err(refusal) => Err(refusal),
        };
        let token = match (asked, kept) {
            (Ok(token), _) => token,
            (Err(_), Some(kept)) => {
                debug!(
                    namespace,
                    account, "cannot get a token from the cloud; using the last one"
                );
                return Ok(success(&Method::POST, &kept["token"]));
            }
            (Err(refusal), None) => return Err(refusal),
        };
        let now = clock::now().to_string();
        let (key, entry) = stored_token(namespace, account, &request, &now, token.clone());
        self.desired.set(&key, Some(entry)).await?;
        Ok(success(&Method::POST, &token))
    }
}

/// Returns the key and the object under which a token is stored that was issued at `issued`.
pub(in crate::metamanager) fn stored_token(
    namespace: &str,
    account: &str,
    request: &Value,
    issued: &str,
    token: Value,
) -> (Key, Value) {
    let key = key(namespace, account, request);
    let entry = json!({
        "metadata": {"name": key.name, "namespace": namespace}, "pod": bound_pod(request),
        "issued": issued, "token": token,
    });
    (key, entry)
}

/// Removes the tokens that are bound to a pod.
pub(super) async fn remove_tokens_of_pod(
    desired: &Desired,
    namespace: &str,
    pod: &str,
) -> Result<(), StoreError> {
    for object in desired.list(&resource()).await?.0 {
        if object.key.namespace == namespace && object.value()?["pod"] == pod {
            desired.set(&object.key, None).await?;
        }
    }
    Ok(())
}

/// Returns the collection of tokens.
pub(in crate::metamanager) fn resource() -> Resource {
    Resource::new("kubeedge.io", "serviceaccounttokens")
}

fn bound_pod(request: &Value) -> &str {
    request
        .pointer("/spec/boundObjectRef/uid")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Returns the key of a token: one for each account, audience, lifetime and pod.
fn key(namespace: &str, account: &str, request: &Value) -> Key {
    let spec = request.get("spec").unwrap_or(&Value::Null);
    let part = |name: &str| spec.get(name).cloned().unwrap_or_default();
    let what = json!([
        part("audiences"),
        part("expirationSeconds"),
        bound_pod(request)
    ]);
    Key::new(
        resource(),
        namespace,
        format!("{account}.{}", fingerprint(&what)),
    )
}

fn is_fresh(kept: &Value, now: Timestamp) -> bool {
    let time = |pointer: &str| {
        kept.pointer(pointer)
            .and_then(Value::as_str)
            .and_then(|text| text.parse::<Timestamp>().ok())
    };
    let (Some(issued), Some(expiry)) = (time("/issued"), time("/token/status/expirationTimestamp"))
    else {
        return false;
    };
    let (life, age) = (expiry.duration_since(issued), now.duration_since(issued));
    // after the clock was set back, a token may seem to come from the future
    age >= SignedDuration::ZERO
        && age < MAX_TOKEN_AGE
        && age.as_secs() * 100 < life.as_secs() * RENEW_AFTER_PERCENT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_fresh_for_four_fifths_of_its_life_and_a_day_at_most() {
        let kept = |expiry: &str| json!({"issued": "2026-01-01T00:00:00Z", "token": {"status": {"expirationTimestamp": expiry}}});
        let rows = [
            ("2026-01-01T01:00:00Z", "2026-01-01T00:47:59Z", true),
            ("2026-01-01T01:00:00Z", "2026-01-01T00:48:00Z", false),
            ("2027-01-01T00:00:00Z", "2026-01-01T23:59:59Z", true),
            ("2027-01-01T00:00:00Z", "2026-01-02T00:00:00Z", false),
            ("2026-01-01T01:00:00Z", "2025-12-31T23:59:59Z", false),
            ("nonsense", "2026-01-01T00:00:01Z", false),
        ];
        for (expiry, now, expected) in rows {
            assert_eq!(
                is_fresh(&kept(expiry), now.parse().unwrap()),
                expected,
                "{expiry} {now}"
            );
        }
    }

    #[test]
    fn another_pod_or_audience_is_another_token() {
        let request = |audience: &str, pod: &str| json!({"spec": {"audiences": [audience], "boundObjectRef": {"uid": pod}}});
        let name = |request: Value| key("ns", "robot", &request).name;
        assert_eq!(name(request("a", "p")), name(request("a", "p")));
        assert_ne!(name(request("a", "p")), name(request("b", "p")));
        assert_ne!(name(request("a", "p")), name(request("a", "q")));
    }
}
