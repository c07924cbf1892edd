//! ConfigMaps and Secrets, asked of the API.

use std::collections::BTreeSet;

use futures::future::join_all;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client};

use crate::edged::{
    api_message, names,
    references::{Fetched, Objects, Reference, config_map_data, secret_data},
};

/// Asks for all of these, at the same time.
pub(super) async fn objects(client: &Client, namespace: &str, references: BTreeSet<Reference>) -> Objects {
    let mut objects = Objects::default();
    let answers = join_all(references.iter().map(|reference| one(client, namespace, reference))).await;
    for (reference, fetched) in references.into_iter().zip(answers) {
        objects.insert(reference, fetched);
    }
    objects
}

async fn one(client: &Client, namespace: &str, reference: &Reference) -> Fetched {
    let data = match reference {
        // A name that is no name would become another path.
        Reference::ConfigMap(name) | Reference::Secret(name) if !names::is_component(name) => Ok(None),
        Reference::ConfigMap(name) => {
            let api = Api::<ConfigMap>::namespaced(client.clone(), namespace);
            api.get_opt(name).await.map(|found| found.map(config_map_data))
        }
        Reference::Secret(name) => {
            let api = Api::<Secret>::namespaced(client.clone(), namespace);
            api.get_opt(name).await.map(|found| found.map(secret_data))
        }
    };
    match data {
        Ok(Some(data)) => Fetched::Found(data),
        Ok(None) => Fetched::Missing,
        Err(error) => Fetched::Unavailable(api_message(&error)),
    }
}
