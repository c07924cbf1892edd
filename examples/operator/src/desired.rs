//! What belongs to a website.

use kube::{Resource, ResourceExt, api::ObjectMeta};
use serde_json::{Value, json};

use crate::Website;

/// Name, labels and owner: what is owned goes with its website.
fn metadata(website: &Website) -> ObjectMeta {
    ObjectMeta {
        name: website.metadata.name.clone(),
        labels: Some([("website".to_owned(), website.name_any())].into()),
        owner_references: website.controller_owner_ref(&()).map(|owner| vec![owner]),
        ..ObjectMeta::default()
    }
}

/// The fields of its deployment that the operator decides.
pub(crate) fn deployment(website: &Website) -> Value {
    let labels = json!({"website": website.name_any()});
    let container =
        json!({"name": "web", "image": website.spec.image, "ports": [{"containerPort": 80}]});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata(website),
        "spec": {
            "replicas": website.spec.replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    })
}

/// The fields of its service.
pub(crate) fn service(website: &Website) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": metadata(website),
        "spec": {"selector": {"website": website.name_any()}, "ports": [{"port": 80}]},
    })
}
