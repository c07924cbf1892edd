//! Lists objects of a running cloud one by one: one that cannot be decoded is a warning, and hides no other.

use std::fmt::Debug;

use anyhow::Context;
use kube::{Api, Client, Resource, api::ListParams};
use kubeapi::LenientObject;
use serde::de::DeserializeOwned;

/// Returns all objects of a kind that can be decoded, and adds a warning for each other one.
///
/// # Errors
/// The API refuses the list, or does not answer.
pub(super) async fn list<K>(client: &Client, warnings: &mut Vec<String>) -> anyhow::Result<Vec<K>>
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug,
{
    let api = Api::<LenientObject<K>>::all(client.clone());
    let listed = api.list(&ListParams::default()).await;
    let listed = listed.with_context(|| format!("cannot list {}", K::plural(&())))?;
    let decoded = listed.into_iter().map(LenientObject::into_decoded);
    let warned = decoded.map(|object| object.inspect_err(|error| warnings.push(error.to_string())));
    Ok(warned.filter_map(Result::ok).collect())
}
