//! The role that allows reading `metrics.k8s.io` to all viewers, as metrics-server does.

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};

use super::objects::GROUP;

/// Creates metrics-server's role, which is aggregated to `view`, `edit` and `admin`, unless it exists.
pub(crate) async fn ensure(client: &Client) -> Result<(), kube::Error> {
    let labels = ["view", "edit", "admin"].map(|role| {
        (
            format!("rbac.authorization.k8s.io/aggregate-to-{role}"),
            "true".to_owned(),
        )
    });
    let texts = |texts: &[&str]| {
        texts
            .iter()
            .map(|text| (*text).to_owned())
            .collect::<Vec<_>>()
    };
    let rule = PolicyRule {
        api_groups: Some(texts(&[GROUP])),
        resources: Some(texts(&["pods", "nodes"])),
        verbs: texts(&["get", "list", "watch"]),
        ..PolicyRule::default()
    };
    let role = ClusterRole {
        metadata: ObjectMeta {
            name: Some("system:aggregated-metrics-reader".into()),
            labels: Some(BTreeMap::from(labels)),
            ..ObjectMeta::default()
        },
        rules: Some(vec![rule]),
        ..ClusterRole::default()
    };
    match Api::<ClusterRole>::all(client.clone())
        .create(&PostParams::default(), &role)
        .await
    {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        made => made.map(drop),
    }
}
