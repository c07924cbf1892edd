//! Replication controllers.

use k8s_openapi::api::{
    core::v1::{Event, Pod, ReplicationController},
    policy::v1::PodDisruptionBudget,
};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::{controller_of, template, world::World};

fn controller(name: &str, spec: Value) -> Value {
    let mut controller = json!({
        "apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "template": template(name, "one")},
    });
    for (key, value) in spec.as_object().unwrap() {
        controller["spec"][key] = value.clone();
    }
    controller
}

fn has_available(wanted: i32) -> impl Fn(&ReplicationController) -> bool {
    move |controller| {
        let status = controller.status.clone().unwrap_or_default();
        status.observed_generation == controller.metadata.generation
            && (
                status.replicas,
                status.ready_replicas,
                status.available_replicas,
            ) == (wanted, Some(wanted), Some(wanted))
            && status.fully_labeled_replicas == Some(wanted)
    }
}

#[tokio::test]
async fn a_replication_controller_adopts_releases_and_is_scaled() {
    let world = World::new().await;
    let mut pod = template("web", "one");
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!("lonely");
    world.create(pod).await;
    world
        .create(controller("web", json!({"replicas": 2})))
        .await;
    world.until("web", has_available(2)).await;
    let pods = world.pods("web", 2).await;
    assert!(pods.contains_key("lonely"));
    for pod in pods.values() {
        let owner = controller_of(pod).unwrap();
        assert_eq!(
            (&*owner.api_version, &*owner.kind),
            ("v1", "ReplicationController")
        );
    }
    world
        .patch::<Pod>("lonely", json!({"metadata": {"labels": {"app": "free"}}}))
        .await;
    world
        .until("lonely", |pod: &Pod| controller_of(pod).is_none())
        .await;
    world.pods("web", 2).await;

    let scale = Patch::Merge(json!({"spec": {"replicas": 4}}));
    let api = world.api::<ReplicationController>();
    let scaled = api
        .patch_scale("web", &PatchParams::default(), &scale)
        .await
        .unwrap();
    assert_eq!(scaled.spec.unwrap().replicas, Some(4));
    world.until("web", has_available(4)).await;
    let scale = api.get_scale("web").await.unwrap().status.unwrap();
    assert_eq!(
        (scale.replicas, scale.selector.as_deref()),
        (4, Some("app=web"))
    );

    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    world.create(budget).await;
    world
        .until("web", |budget: &PodDisruptionBudget| {
            budget
                .status
                .as_ref()
                .is_some_and(|status| (status.expected_pods, status.desired_healthy) == (4, 3))
        })
        .await;

    api.delete("web", &DeleteParams::background())
        .await
        .unwrap();
    world
        .until_all::<Pod>(|pods| pods.keys().eq(["lonely"]))
        .await;
}

#[tokio::test]
async fn a_replication_controller_says_why_it_makes_no_pods() {
    let world = World::new().await;
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": {"pods": "2"}}});
    world.create(quota).await;
    world
        .create(controller("web", json!({"replicas": 3})))
        .await;
    let failed = world
        .until("web", |controller: &ReplicationController| {
            controller
                .status
                .as_ref()
                .is_some_and(|status| status.conditions.is_some())
        })
        .await;
    let condition = failed.status.unwrap().conditions.unwrap().remove(0);
    assert_eq!(
        (
            &*condition.type_,
            &*condition.status,
            condition.reason.as_deref()
        ),
        ("ReplicaFailure", "True", Some("FailedCreate"))
    );
    let message = condition.message.unwrap();
    assert!(
        message.starts_with("pods \"web-")
            && message.contains(" is forbidden: exceeded quota: few"),
        "{message}"
    );
    world
        .until_all::<Event>(|events| {
            events.values().any(|event| {
                let message = event.message.as_deref().unwrap_or_default();
                event.reason.as_deref() == Some("FailedCreate")
                    && message.starts_with("Error creating: pods \"web-")
                    && event
                        .source
                        .as_ref()
                        .and_then(|source| source.component.as_deref())
                        == Some("replication-controller")
            })
        })
        .await;
    world
        .patch::<ReplicationController>("web", json!({"spec": {"replicas": 2}}))
        .await;
    let back = world.until("web", has_available(2)).await;
    assert_eq!(back.status.unwrap().conditions, None);
}
