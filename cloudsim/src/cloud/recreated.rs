//! Damaged objects that are recreated: removed when the cloud starts, so that nothing waits for them. All others are kept for their
//! writers to write them again.

use std::sync::Arc;

use objectstore::{Expect, Key, Resource, Store, StoreError, Write};
use serde_json::Value;
use tracing::warn;

use crate::controllers::endpoints::{is_generated_slice, selects_pods};

/// The collections whose objects are always recreated: their writers write them again and again.
const ALWAYS: [&str; 4] = [
    "events",
    "leases.coordination.k8s.io",
    "objectsyncs.reliablesyncs.kubeedge.io",
    "clusterobjectsyncs.reliablesyncs.kubeedge.io",
];
const ENDPOINTS: &str = "endpoints";
const SLICES: &str = "endpointslices.discovery.k8s.io";
/// The service of the API, whose Endpoints and slice are written at each start.
const API_SERVICE: (&str, &str) = ("default", "kubernetes");

/// Removes damaged objects that are recreated.
pub(super) async fn remove_damaged(store: &Arc<dyn Store>) -> Result<(), StoreError> {
    for key in store.damaged_objects().now().keys() {
        if !is_recreated(store, key).await? {
            continue;
        }
        store
            .commit(vec![Write {
                key: key.clone(),
                expect: Expect::Anything,
                value: None,
            }])
            .await?;
        warn!(object = %key, "damaged object removed; will be recreated");
    }
    Ok(())
}

async fn is_recreated(store: &Arc<dyn Store>, key: &Key) -> Result<bool, StoreError> {
    let is_api = (key.namespace.as_str(), key.name.as_str()) == API_SERVICE;
    match key.resource.as_str() {
        ENDPOINTS | SLICES if is_api => Ok(true),
        // a controller writes those of services with a selector; somebody wrote all others
        ENDPOINTS => Ok(service(store, key, &key.name)
            .await?
            .is_some_and(|service| selects_pods(&service))),
        SLICES => is_recreated_slice(store, key).await,
        resource => Ok(ALWAYS.contains(&resource)),
    }
}

/// Reports whether a controller recreates the slice: it has the name and, if it can be read, the label of a controller's slice, and what
/// it was made of is there. A slice of another author would be lost.
async fn is_recreated_slice(store: &Arc<dyn Store>, key: &Key) -> Result<bool, StoreError> {
    // the name that the API generates: that of the service, and five characters
    let Some((owner, _)) = key
        .name
        .rsplit_once('-')
        .filter(|(_, suffix)| suffix.len() == 5)
    else {
        return Ok(false);
    };
    let value = store.damaged_value(key).await?;
    if value.is_some_and(|value| !is_generated_slice(&value)) {
        return Ok(false);
    }
    let Some(service) = service(store, key, owner).await? else {
        return Ok(false);
    };
    if selects_pods(&service) {
        return Ok(true);
    }
    let source = Key::new(Resource::new("", ENDPOINTS), key.namespace.as_str(), owner);
    Ok(readable(store, &source).await?.is_some())
}

/// Returns the service `name` in the namespace of `key`; a damaged one is unknown.
async fn service(
    store: &Arc<dyn Store>,
    key: &Key,
    name: &str,
) -> Result<Option<Value>, StoreError> {
    readable(
        store,
        &Key::new(Resource::new("", "services"), key.namespace.as_str(), name),
    )
    .await
}

async fn readable(store: &Arc<dyn Store>, key: &Key) -> Result<Option<Value>, StoreError> {
    match store.get(key).await {
        Ok(object) => object.map(|object| object.value()).transpose(),
        Err(StoreError::Damaged { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
