//! The node's lease, the heartbeat of the node.

use std::time::Duration;

use componentbase::{Backoff, Heartbeat, Reconnections};
use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Client, api::PostParams};
use tokio::sync::{Notify, watch};

use crate::api_message;

/// First delay after a failure, doubled up to [`MAX_WAIT`]. The kubelet's maximum is seven seconds; this one is shorter so that
/// the node is not taken for dead because of it.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const MAX_WAIT: Duration = Duration::from_secs(1);

/// Renews a lease.
pub(super) struct Renewal<'a> {
    pub(super) client: &'a Client,
    pub(super) node: &'a str,
    pub(super) duration: Duration,
    /// Changes each time the node status was reported.
    pub(super) reported: watch::Receiver<()>,
}

impl Renewal<'_> {
    /// Renews the lease four times within its duration, and as soon as the cloud is connected again. Never returns. Notifies
    /// `back_online` when the lease could be renewed after failures during which the cloud was connected; after a reconnection
    /// the node is reported anyway.
    pub(super) async fn run(
        self,
        mut online: Reconnections,
        back_online: &Notify,
        heart: Heartbeat,
    ) {
        let Self {
            client,
            node,
            duration,
            mut reported,
        } = self;
        let api = super::leases(client);
        let mut backoff = Backoff::new(FIRST_WAIT, MAX_WAIT);
        let (mut last, mut failing, mut renewed_once): (Option<Lease>, bool, bool) =
            (None, false, false);
        let mut is_missing = false;
        loop {
            reported.mark_unchanged();
            let result = match &last {
                Some(lease) => {
                    let lease = renew(lease, node, duration, clock::now());
                    api.replace(node, &PostParams::default(), &lease).await
                }
                None => match api.get_opt(node).await {
                    Ok(Some(lease)) => {
                        let lease = renew(&lease, node, duration, clock::now());
                        api.replace(node, &PostParams::default(), &lease).await
                    }
                    Ok(None) => {
                        let lease = renew(&Lease::default(), node, duration, clock::now());
                        api.create(&PostParams::default(), &lease).await
                    }
                    Err(error) => Err(error),
                },
            };
            let wait = match result {
                Ok(lease) => {
                    last = Some(lease);
                    renewed_once = true;
                    failing = false;
                    if std::mem::take(&mut is_missing) {
                        back_online.notify_one();
                    }
                    backoff.reset();
                    duration / 4
                }
                Err(error) => {
                    // The lease may be gone, or there may be a newer version of somebody else or of this agent, whose response
                    // was lost: the next attempt reads it. An unreachable API means none of that.
                    let is_stale = last.is_some() && is_code(&error, 409);
                    last = last.filter(|_| is_code(&error, 503));
                    is_missing = true;
                    // Before the first connection there is nothing to renew, and the connection's failure is logged elsewhere.
                    if !is_stale && !std::mem::replace(&mut failing, true) && renewed_once {
                        tracing::warn!(
                            node,
                            error = api_message(&error),
                            "failed to renew node lease; retrying"
                        );
                    }
                    if is_stale {
                        Duration::ZERO
                    } else {
                        backoff.next(clock::rng().random_range(0.5..1.0))
                    }
                }
            };
            let _rest = heart.idle();
            clock::select! {
                // cancel-safe: none of them holds data.
                () = tokio::time::sleep(wait) => {}
                () = online.next() => {
                    backoff.reset();
                    is_missing = false;
                }
                // The node was reported just now: renew the lease without waiting for the back-off, because the cloud takes a
                // node without a lease for dead.
                Ok(()) = reported.changed(), if failing => {}
            }
        }
    }
}

fn is_code(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}

/// Returns the lease to store next. MetaServer adds the owner reference.
pub(super) fn renew(last: &Lease, node: &str, duration: Duration, now: Timestamp) -> Lease {
    let metadata = ObjectMeta {
        name: Some(node.to_owned()),
        namespace: Some("kube-node-lease".into()),
        // the API maintains them by itself, and they would be a third of an idle node's traffic
        managed_fields: None,
        ..last.metadata.clone()
    };
    let spec = LeaseSpec {
        holder_identity: Some(node.to_owned()),
        lease_duration_seconds: i32::try_from(duration.as_secs()).ok(),
        renew_time: Some(MicroTime(now)),
        ..last.spec.clone().unwrap_or_default()
    };
    Lease {
        metadata,
        spec: Some(spec),
    }
}
