//! The pods that the API has, for everything that removes what belongs to other pods.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, api::ListParams, runtime::reflector::Store};

/// Returns the uids of the pods that the API has and `counts` accepts. `pods` follows the API with a delay: if it lacks one of `here`, of
/// which something exists, the API is asked.
///
/// # Errors
/// Returns an error if the API cannot list its pods: then nothing must be removed.
pub(crate) async fn known_pods(
    (client, pods): (&Client, &Store<Pod>),
    here: &BTreeSet<String>,
    counts: fn(&Pod) -> bool,
) -> Result<BTreeSet<String>, kube::Error> {
    let mut known: BTreeSet<String> = pods
        .state()
        .iter()
        .filter(|pod| counts(pod))
        .filter_map(|pod| pod.metadata.uid.clone())
        .collect();
    if !here.is_subset(&known) {
        let stored = Api::<Pod>::all(client.clone())
            .list(&ListParams::default())
            .await?;
        let stored = stored.into_iter().filter(counts);
        known.extend(stored.filter_map(|pod| pod.metadata.uid));
    }
    Ok(known)
}
