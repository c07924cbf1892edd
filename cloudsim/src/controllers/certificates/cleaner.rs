//! Deletes old certificate requests, as kube-controller-manager's `csrcleaner` does.

use std::time::{Duration, SystemTime};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Preconditions},
};
use kubeapi::{LenientObject, keep_decoded};
use rustls_pki_types::{CertificateDer, pem::PemObject};
use tokio_util::sync::CancellationToken;
use tracing::debug;
use wire::enroll::validity_of;

use super::conditions::conditions;

/// How long an issued request is kept.
const ISSUED: SignedDuration = SignedDuration::from_hours(1);
/// How long a denied or failed request is kept.
const REFUSED: SignedDuration = SignedDuration::from_hours(1);
/// How long a request waits for a decision or signature.
const PENDING: SignedDuration = SignedDuration::from_hours(24);
/// How often requests are checked; one may be kept this much longer.
const CLEAN_INTERVAL: Duration = Duration::from_secs(300);

/// Runs until `stop`.
pub async fn run(client: Client, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(CLEAN_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // cancel-safe: a tick that is not taken comes again
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        let cleaning = clean(&client, clock::now());
        if let Some(Err(error)) = stop.run_until_cancelled(cleaning).await {
            debug!(
                error = &error as &dyn std::error::Error,
                "failed to delete old certificate requests"
            );
        }
    }
}

/// Deletes requests that are too old at `now`.
pub(super) async fn clean(client: &Client, now: Timestamp) -> Result<(), kube::Error> {
    let api = Api::<LenientObject<CertificateSigningRequest>>::all(client.clone());
    let requests = keep_decoded(api.list(&ListParams::default()).await?);
    for request in requests.iter().filter(|request| is_over(request, now)) {
        let preconditions = Preconditions {
            uid: request.uid(),
            resource_version: request.resource_version(),
        };
        let params = DeleteParams {
            preconditions: Some(preconditions),
            ..DeleteParams::default()
        };
        match api.delete(&request.name_any(), &params).await {
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            result => drop(result?),
        }
    }
    Ok(())
}

/// Reports whether the request is too old.
fn is_over(request: &CertificateSigningRequest, now: Timestamp) -> bool {
    let age = |time: Option<Timestamp>| {
        time.map_or(SignedDuration::ZERO, |time| now.duration_since(time))
    };
    let since = |type_: &str| {
        let condition = conditions(request)
            .iter()
            .find(|condition| condition.type_ == type_)?;
        let time = condition
            .last_update_time
            .as_ref()
            .or(condition.last_transition_time.as_ref());
        Some(age(time.map(|time| time.0)))
    };
    let certificate = request
        .status
        .as_ref()
        .and_then(|status| status.certificate.as_ref());
    if certificate.is_some_and(|certificate| has_ended(&certificate.0, now)) {
        return true;
    }
    let refused = since("Denied").or_else(|| since("Failed"));
    match (refused, since("Approved"), certificate) {
        (Some(refused), ..) => refused >= REFUSED,
        (None, Some(approved), Some(_)) => approved >= ISSUED,
        (None, ..) => age(request.creation_timestamp().map(|time| time.0)) >= PENDING,
    }
}

/// Reports whether the certificate (PEM) has expired.
fn has_ended(pem: &[u8], now: Timestamp) -> bool {
    let Ok(der) = CertificateDer::from_pem_slice(pem) else {
        return false;
    };
    validity_of(&der).is_ok_and(|(_, end)| end <= SystemTime::from(now))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn requests_stay_as_long_as_they_do_in_a_cluster() {
        let condition = |type_: &str, time: &str| json!({"type": type_, "status": "True", "lastUpdateTime": time});
        let (made, later) = ("2026-01-01T00:00:00Z", "2026-01-01T10:00:00Z");
        let certificate = "AAAA";
        let rows: [(Value, &str, bool); 10] = [
            (json!({}), "2026-01-01T23:59:59Z", false),
            (json!({}), "2026-01-02T00:00:00Z", true),
            (
                json!({"conditions": [condition("Approved", later)]}),
                "2026-01-01T23:59:59Z",
                false,
            ),
            (
                json!({"conditions": [condition("Approved", later)]}),
                "2026-01-02T00:00:00Z",
                true,
            ),
            (
                json!({"conditions": [condition("Approved", later)], "certificate": certificate}),
                "2026-01-01T10:59:59Z",
                false,
            ),
            (
                json!({"conditions": [condition("Approved", later)], "certificate": certificate}),
                "2026-01-01T11:00:00Z",
                true,
            ),
            (
                json!({"conditions": [condition("Denied", later)]}),
                "2026-01-01T10:59:59Z",
                false,
            ),
            (
                json!({"conditions": [condition("Denied", later)]}),
                "2026-01-01T11:00:00Z",
                true,
            ),
            (
                json!({"conditions": [condition("Approved", made), condition("Failed", later)]}),
                "2026-01-01T10:59:59Z",
                false,
            ),
            (
                json!({"conditions": [condition("Approved", made), condition("Failed", later)]}),
                "2026-01-01T11:00:00Z",
                true,
            ),
        ];
        for (status, now, expected) in rows {
            let request = serde_json::from_value(json!({
                "metadata": {"name": "r", "creationTimestamp": made}, "status": status,
                "spec": {"request": "AAAA", "signerName": "s"},
            }))
            .unwrap();
            assert_eq!(
                is_over(&request, now.parse().unwrap()),
                expected,
                "{status} {now}"
            );
        }
    }
}
