//! Namespaces that are being deleted.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::{Api, api::DeleteParams, runtime::wait::await_condition};
use serde_json::json;
use testkit::{WAIT_TIMEOUT, within};

use super::world::World;

fn condition_text(namespace: &Namespace, type_: &str) -> Option<(String, String)> {
    let mut conditions = namespace
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let found = conditions.find(|condition| condition.type_ == type_)?;
    Some((
        found.status.clone(),
        found.message.clone().unwrap_or_default(),
    ))
}

#[tokio::test]
async fn a_namespace_says_what_is_left_in_it_and_loses_its_pods_first() {
    let world = World::in_namespace("mine").await;
    let finalizers = json!(["example.com/wait"]);
    world
        .create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "finalizers": finalizers}}))
        .await;
    let spec = json!({"containers": [{"name": "a", "image": "one"}]});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "finalizers": finalizers}, "spec": spec});
    world.create(pod).await;
    let api = Api::<Namespace>::all(world.client.clone());
    api.delete("mine", &DeleteParams::default()).await.unwrap();
    let until = async |type_: &'static str, message: &'static str| {
        let holds = move |namespace: Option<&Namespace>| {
            namespace.is_some_and(|namespace| {
                condition_text(namespace, type_) == Some(("True".into(), message.into()))
            })
        };
        let waited = await_condition(api.clone(), "mine", holds);
        let waited = tokio::time::timeout(WAIT_TIMEOUT, waited).await;
        assert!(
            waited.is_ok(),
            "{message}: {:?}",
            api.get("mine").await.unwrap().status
        );
    };
    until(
        "NamespaceContentRemaining",
        "Some resources are remaining: pods. has 1 resource instances",
    )
    .await;
    let waiting = "Some content in the namespace has finalizers remaining: example.com/wait in 1 resource instances";
    until("NamespaceFinalizersRemaining", waiting).await;
    let config = world.api::<ConfigMap>().get("c").await.unwrap();
    assert_eq!(config.metadata.deletion_timestamp, None, "pods go first");
    world
        .patch::<Pod>("p", json!({"metadata": {"finalizers": null}}))
        .await;
    until(
        "NamespaceContentRemaining",
        "Some resources are remaining: configmaps. has 1 resource instances",
    )
    .await;
    let namespace = api.get("mine").await.unwrap();
    let failed = condition_text(&namespace, "NamespaceDeletionContentFailure").unwrap();
    assert_eq!(failed.0, "False");
    world
        .patch::<ConfigMap>("c", json!({"metadata": {"finalizers": null}}))
        .await;
    let gone = await_condition(api.clone(), "mine", |namespace: Option<&Namespace>| {
        namespace.is_none()
    });
    within("the end of the namespace", gone).await.unwrap();
}
