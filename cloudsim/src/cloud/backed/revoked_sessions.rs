//! Ends sessions whose certificate was revoked by any replica: because the Node was deleted, the name was reset, or another machine has
//! joined with it.
//!
//! In: events of the records of [`NodeCertificates`]. Out: ended sessions of this replica.

use std::pin::pin;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    runtime::{WatchStreamExt, watcher},
};
use kubeapi::LenientObject;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    pki::{NAMESPACE, NodeCertificates, RECORDS_LABEL},
    sessions::Sessions,
};

/// Runs until `stop`.
pub(super) async fn run(
    client: Client,
    certificates: NodeCertificates,
    sessions: Sessions,
    stop: CancellationToken,
) {
    // cancel-safe: what was not seen is in the next list
    stop.run_until_cancelled(watch(client, certificates, sessions))
        .await;
}

async fn watch(client: Client, certificates: NodeCertificates, sessions: Sessions) {
    let records = Api::<LenientObject<ConfigMap>>::namespaced(client, NAMESPACE);
    let config =
        watcher::Config::default().labels(&format!("{RECORDS_LABEL}={}", NodeCertificates::KIND));
    let mut events = pin!(
        watcher::watcher(records, config)
            .default_backoff()
            .applied_objects()
    );
    while let Some(event) = events.next().await {
        let record = match event {
            Ok(record) => record,
            Err(error) => {
                warn!(
                    error = &error as &dyn std::error::Error,
                    "failed to watch node certificate records; retrying"
                );
                continue;
            }
        };
        let Some(map) = record.decoded_or_logged() else {
            continue;
        };
        let Some(node) = map.data.as_ref().and_then(|data| data.get("name")) else {
            continue;
        };
        let Some(shown) = sessions.certificate(node) else {
            continue;
        };
        match certificates.counts(node, &shown).await {
            Ok(true) => {}
            Ok(false) => {
                info!(node, "certificate revoked; closing the node's session");
                sessions.end(node);
            }
            Err(error) => {
                warn!(
                    node,
                    error = &error as &dyn std::error::Error,
                    "cannot check the node's certificate; session continues"
                );
            }
        }
    }
}
