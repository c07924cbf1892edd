//! A cloud in whose data directory stand a policy and webhooks that refuse everything: it starts, and they can be deleted.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{fmt::Debug, path::Path};

use cloudsim::{Cloud, Options};
use k8s_openapi::{
    api::{
        admissionregistration::v1::{
            MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
            ValidatingWebhookConfiguration,
        },
        core::v1::{ConfigMap, Secret, Service},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client, Config, Resource,
    api::{DeleteParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

fn options(directory: &Path) -> Options {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Options { data_dir: Some(directory.to_owned()), rbac: true, ..Options::default().any_ports() }
}

/// A client of the person to whom the cloud gives its kubeconfig, over TLS.
async fn admin(cloud: &Cloud) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(cloud.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

async fn create<K>(client: &Client, object: Value)
where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
{
    let object: K = serde_json::from_value(object).unwrap();
    Api::all(client.clone()).create(&PostParams::default(), &object).await.unwrap();
}

async fn delete<K>(client: &Client)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    Api::<K>::all(client.clone()).delete("never", &DeleteParams::default()).await.unwrap();
}

/// What comes of writing a ConfigMap.
async fn write(client: &Client) -> Result<ConfigMap, kube::Error> {
    let metadata = ObjectMeta { name: Some("any".into()), ..ObjectMeta::default() };
    let map = ConfigMap { metadata, ..ConfigMap::default() };
    Api::default_namespaced(client.clone()).create(&PostParams::default(), &map).await
}

#[track_caller]
fn assert_refused(found: Result<ConfigMap, kube::Error>, why: &str) {
    let error = found.expect_err("it is refused").to_string();
    assert!(error.contains(why), "{error}");
}

/// Everything that there is.
fn everything() -> Value {
    json!({"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"]})
}

fn webhooks() -> Value {
    // nobody listens there
    let webhook = json!({
        "name": "never.example.com", "clientConfig": {"url": "https://127.0.0.1:1/"}, "rules": [everything()],
        "failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 1,
    });
    json!({"metadata": {"name": "never"}, "webhooks": [webhook]})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cloud_starts_where_a_policy_and_webhooks_refuse_everything() {
    let directory = tempfile::tempdir().unwrap();
    let cloud = Cloud::start(options(directory.path())).await.unwrap();
    let client = admin(&cloud).await;
    let policy = json!({"metadata": {"name": "never"}, "spec": {
        "matchConstraints": {"resourceRules": [everything()]},
        "validations": [{"expression": "false", "message": "never"}],
    }});
    let binding = json!({"metadata": {"name": "never"}, "spec": {
        "policyName": "never", "validationActions": ["Deny"],
    }});
    create::<ValidatingAdmissionPolicy>(&client, policy).await;
    create::<ValidatingAdmissionPolicyBinding>(&client, binding).await;
    assert_refused(write(&client).await, "ValidatingAdmissionPolicy 'never' with binding 'never' denied");
    create::<ValidatingWebhookConfiguration>(&client, webhooks()).await;
    create::<MutatingWebhookConfiguration>(&client, webhooks()).await;
    assert_refused(write(&client).await, "failed calling webhook");
    // not even what the cloud writes as itself gets in, unless it needs it to start
    assert_refused(write(&cloud.client()).await, "failed calling webhook");
    cloud.stop().await.unwrap();

    // with another name and other ports, so that the servers' certificate and the service are written anew
    let mut renamed = options(directory.path());
    renamed.names.push("other.example".to_owned());
    let cloud = Cloud::start(renamed).await.unwrap();
    let client = admin(&cloud).await;
    let secret = Api::<Secret>::namespaced(client.clone(), "kubeedge").get("tokensecret").await.unwrap();
    assert_eq!(secret.data.unwrap()["tokendata"].0, cloud.token().as_bytes());
    let service = Api::<Service>::namespaced(client.clone(), "default").get("kubernetes").await.unwrap();
    let port = service.spec.unwrap().ports.unwrap()[0].target_port.clone().unwrap();
    assert_eq!(json!(port), json!(cloud.addresses().api.expect("an API of its own").port()));

    // they are still in force, and go one after the other
    assert_refused(write(&client).await, "failed calling webhook");
    delete::<MutatingWebhookConfiguration>(&client).await;
    assert_refused(write(&client).await, "denied request: never");
    delete::<ValidatingAdmissionPolicyBinding>(&client).await;
    delete::<ValidatingAdmissionPolicy>(&client).await;
    assert_refused(write(&client).await, "failed calling webhook");
    delete::<ValidatingWebhookConfiguration>(&client).await;
    write(&client).await.unwrap();
    cloud.stop().await.unwrap();
}
