//! Clients with a bearer token: metrics-server and Prometheus read the metrics of nodes, as they read those of kubelets. Logs and commands
//! are for the API server alone.
//!
//! Source: the kubelet's authorization, `GetRequestAttributes` of `pkg/kubelet/server`.

use std::{sync::Arc, time::Duration};

use clock::HashMap;
use http::{HeaderMap, Method, StatusCode};
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use kube::Client;
use parking_lot::Mutex;
use tokio::time::Instant;
use wire::enroll::sha256_hex;

use super::deliver::Refusal;
use crate::reviews::{ReviewError, bearer_token, is_granted, owner_of};

/// How long an allowed request is allowed again without a review. Kubelets: two minutes.
const ALLOWED_TIME: Duration = Duration::from_secs(60);
/// The most permissions that are remembered; each node needs one for each client.
const MAX_ALLOWED: usize = 8192;

/// The pages for tokens, and the subresources of nodes that they need.
const PAGES: [(&str, &str); 6] = [
    ("/metrics", "metrics"),
    ("/metrics/resource", "metrics"),
    ("/metrics/cadvisor", "metrics"),
    ("/metrics/probes", "metrics"),
    ("/stats", "stats"),
    ("/stats/summary", "stats"),
];

/// By digest of the token, node and subresource, when it was allowed.
type Allowed = HashMap<(String, String, &'static str), Instant>;

/// Checks tokens; cheap to clone.
#[derive(Clone)]
pub(super) struct Scrapers {
    client: Client,
    allowed: Arc<Mutex<Allowed>>,
}

impl Scrapers {
    pub(super) fn new(client: Client) -> Self {
        let allowed = Arc::default();
        Self { client, allowed }
    }

    /// Checks whether the owner of the token may read pages of this subresource of the node.
    pub(super) async fn permit(
        &self,
        token: &str,
        subresource: &'static str,
        node: &str,
    ) -> Result<(), Refusal> {
        let key = (sha256_hex(token.as_bytes()), node.to_owned(), subresource);
        let is_known = |at: &Instant| at.elapsed() < ALLOWED_TIME;
        if self.allowed.lock().get(&key).is_some_and(is_known) {
            return Ok(());
        }
        let user = owner_of(&self.client, token).await.map_err(refusal_of)?;
        let attributes = ResourceAttributes {
            resource: Some("nodes".to_owned()),
            subresource: Some(subresource.to_owned()),
            verb: Some("get".to_owned()),
            name: Some(node.to_owned()),
            ..ResourceAttributes::default()
        };
        let granted = is_granted(&self.client, &user, attributes).await;
        if !granted.map_err(refusal_of)? {
            let user = user.username.unwrap_or_default();
            let why =
                format!("{user} may not get nodes/{subresource} of node {node}; bind a role to it");
            return Err((StatusCode::FORBIDDEN, why));
        }
        let mut allowed = self.allowed.lock();
        if allowed.len() >= MAX_ALLOWED {
            allowed.retain(|_, at| is_known(at));
        }
        if allowed.len() < MAX_ALLOWED {
            allowed.insert(key, Instant::now());
        }
        Ok(())
    }
}

/// Returns the token of a request for a page, and the subresource of nodes that the page needs.
pub(super) fn token_and_subresource<'a>(
    headers: &'a HeaderMap,
    (method, path): (&Method, &str),
) -> Result<(&'a str, &'static str), Refusal> {
    let token = bearer_token(headers).map_err(refusal_of)?;
    let found = PAGES.into_iter().find(|(page, _)| *page == path);
    match found.filter(|_| method == Method::GET) {
        Some((_, subresource)) => Ok((token, subresource)),
        None => {
            let why = "a token allows only to read metrics and statistics; use kubectl for logs and commands";
            Err((StatusCode::FORBIDDEN, why.to_owned()))
        }
    }
}

fn refusal_of(error: ReviewError) -> Refusal {
    let status = match error {
        ReviewError::NoToken | ReviewError::UnknownToken => StatusCode::UNAUTHORIZED,
        ReviewError::Api(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_for_metrics_and_statistics() {
        let mut headers = HeaderMap::new();
        let of = |headers: &HeaderMap, method: &Method, path: &str| {
            let found = token_and_subresource(headers, (method, path));
            found
                .map(|(_, subresource)| subresource)
                .map_err(|(status, _)| status.as_u16())
        };
        assert_eq!(of(&headers, &Method::GET, "/metrics"), Err(401));
        headers.insert("authorization", "Bearer a".parse().unwrap());
        for (method, path, expected) in [
            (Method::GET, "/metrics", Ok("metrics")),
            (Method::GET, "/metrics/resource", Ok("metrics")),
            (Method::GET, "/stats/summary", Ok("stats")),
            (Method::POST, "/metrics", Err(403)),
            (Method::GET, "/metricsx", Err(403)),
            (Method::GET, "/metrics/../pods", Err(403)),
            (Method::GET, "/pods", Err(403)),
            (Method::GET, "/containerLogs/a/b/c", Err(403)),
            (Method::GET, "/exec/a/b/c", Err(403)),
        ] {
            assert_eq!(of(&headers, &method, path), expected, "{method} {path}");
        }
    }
}
