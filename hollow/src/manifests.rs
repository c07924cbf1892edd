//! Manifests: their documents, and the API of an object of any kind.

use kube::{
    Api, Client,
    api::DynamicObject,
    discovery::{ApiCapabilities, ApiResource, Scope},
};
use serde::de::DeserializeOwned;

/// Parses documents of YAML or JSON.
///
/// # Errors
/// What is wrong, without the text around it, which may be that of a Secret.
pub(crate) fn documents<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, String> {
    let options = serde_saphyr::options! { with_snippet: false };
    let read = serde_saphyr::from_multiple_with_options(text, options);
    read.map_err(|error| limits::excerpt(&error.without_snippet().to_string()))
}

/// Returns the API of a kind: of the cluster, or of a namespace, by default `default`.
pub(crate) fn api(
    client: Client,
    resource: &ApiResource,
    capabilities: &ApiCapabilities,
    namespace: Option<&str>,
) -> Api<DynamicObject> {
    match capabilities.scope {
        Scope::Cluster => Api::all_with(client, resource),
        Scope::Namespaced => Api::namespaced_with(client, namespace.unwrap_or("default"), resource),
    }
}
