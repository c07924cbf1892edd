//! The operator, unchanged, on a cloud in process.
#![cfg(test)]

use std::fmt::Debug;

use cloudsim::{Cloud, Options};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service, events::v1::Event};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams},
    runtime::wait::{Condition, await_condition, conditions},
};
use operator::{FINALIZER, Website, WebsiteSpec};
use serde::de::DeserializeOwned;
use serde_json::json;
use testkit::within;

async fn until<K>(api: &Api<K>, name: &str, wanted: impl Condition<K>) -> Option<K>
where
    K: Clone + Debug + Send + DeserializeOwned + kube::Resource + 'static,
{
    within(name, await_condition(api.clone(), name, wanted))
        .await
        .unwrap()
}

fn is_in(phase: &'static str) -> impl Fn(Option<&Website>) -> bool {
    move |site| {
        site.and_then(|site| site.status.as_ref())
            .is_some_and(|status| status.phase == phase)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_website_comes_grows_and_goes() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cloud = Cloud::start(Options::default().any_ports()).await.unwrap();
    let client = cloud.client();
    operator::install(&client).await.unwrap();
    let running = tokio::spawn(operator::run(client.clone()));
    let sites = Api::<Website>::default_namespaced(client.clone());
    let deployments = Api::<Deployment>::default_namespaced(client.clone());

    let mut site = Website::new(
        "home",
        WebsiteSpec {
            image: "nginx:1".into(),
            replicas: 2,
        },
    );
    site.metadata = ObjectMeta {
        name: Some("home".into()),
        ..ObjectMeta::default()
    };
    sites.create(&PostParams::default(), &site).await.unwrap();
    let seen = until(&sites, "home", is_in("Starting")).await.unwrap();
    assert_eq!(seen.finalizers(), [FINALIZER]);
    let made = deployments.get("home").await.unwrap();
    assert_eq!(made.owner_references()[0].uid, seen.uid().unwrap());
    assert_eq!(made.spec.unwrap().replicas, Some(2));
    let service = Api::<Service>::default_namespaced(client.clone())
        .get("home")
        .await
        .unwrap();
    assert_eq!(service.spec.unwrap().selector.unwrap()["website"], "home");

    // the site is scaled through its own subresource, and the deployment follows
    let scale = Patch::Merge(json!({"spec": {"replicas": 0}}));
    sites
        .patch_scale("home", &PatchParams::default(), &scale)
        .await
        .unwrap();
    let scaled = |found: Option<&Deployment>| {
        found
            .and_then(|found| found.spec.as_ref())
            .is_some_and(|spec| spec.replicas == Some(0))
    };
    until(&deployments, "home", scaled).await;
    until(&sites, "home", is_in("Online")).await;

    sites
        .delete("home", &DeleteParams::default())
        .await
        .unwrap();
    until(&sites, "home", conditions::is_deleted(&seen.uid().unwrap())).await;
    until(&deployments, "home", |found: Option<&Deployment>| {
        found.is_none()
    })
    .await;
    let events = Api::<Event>::default_namespaced(client)
        .list(&ListParams::default())
        .await
        .unwrap();
    let about = |event: &Event| {
        event
            .regarding
            .as_ref()
            .is_some_and(|object| object.kind.as_deref() == Some("Website"))
    };
    let mut reasons: Vec<_> = events
        .into_iter()
        .filter(about)
        .filter_map(|event| event.reason)
        .collect();
    reasons.sort_unstable();
    assert_eq!(reasons, ["Online", "Starting", "TakenDown"]);
    running.abort();
    cloud.stop().await.expect("no part of it panicked");
}
