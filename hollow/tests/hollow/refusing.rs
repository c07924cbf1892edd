//! Tests a cloud whose data directory contains a policy and webhooks that refuse everything: it starts, and they can be deleted.

use std::{fmt::Debug, path::Path};

use cloudsim::{Cloud, Options};
use k8s_openapi::{
    api::{
        admissionregistration::v1::{
            MutatingWebhookConfiguration, ValidatingAdmissionPolicy,
            ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration,
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
    Options {
        data_dir: Some(directory.to_owned()),
        ..Options::default().any_ports()
    }
}

/// Returns a client over TLS of the user in the cloud's kubeconfig.
async fn admin(cloud: &Cloud) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(cloud.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    Client::try_from(config).unwrap()
}

async fn create<K>(client: &Client, object: Value)
where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
{
    let object: K = serde_json::from_value(object).unwrap();
    Api::all(client.clone())
        .create(&PostParams::default(), &object)
        .await
        .unwrap();
}

async fn delete<K>(client: &Client)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    Api::<K>::all(client.clone())
        .delete("never", &DeleteParams::default())
        .await
        .unwrap();
}

/// Writes a ConfigMap and returns the result.
async fn write(client: &Client) -> Result<ConfigMap, kube::Error> {
    let metadata = ObjectMeta {
        name: Some("any".into()),
        ..ObjectMeta::default()
    };
    let map = ConfigMap {
        metadata,
        ..ConfigMap::default()
    };
    Api::default_namespaced(client.clone())
        .create(&PostParams::default(), &map)
        .await
}

#[track_caller]
fn assert_refused(found: Result<ConfigMap, kube::Error>, why: &str) {
    let error = found.expect_err("it is refused").to_string();
    assert!(error.contains(why), "{error}");
}

/// Returns a rule that matches everything.
fn everything() -> Value {
    json!({"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"]})
}

fn webhooks() -> Value {
    // Nothing listens at its address.
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
    assert_refused(
        write(&client).await,
        "ValidatingAdmissionPolicy 'never' with binding 'never' denied",
    );
    create::<ValidatingWebhookConfiguration>(&client, webhooks()).await;
    create::<MutatingWebhookConfiguration>(&client, webhooks()).await;
    assert_refused(write(&client).await, "failed calling webhook");
    // Even the cloud's own writes are refused, unless it needs them to start.
    assert_refused(write(&cloud.client()).await, "failed calling webhook");
    cloud.stop().await.unwrap();

    // With another name and other ports, the servers' certificate and the service are written again.
    let mut renamed = options(directory.path());
    renamed.names.push("other.example".to_owned());
    let cloud = Cloud::start(renamed).await.unwrap();
    let client = admin(&cloud).await;
    let secret = Api::<Secret>::namespaced(client.clone(), "kubeedge")
        .get("tokensecret")
        .await
        .unwrap();
    assert_eq!(
        secret.data.unwrap()["tokendata"].0,
        cloud.token().as_bytes()
    );
    let service = Api::<Service>::namespaced(client.clone(), "default")
        .get("kubernetes")
        .await
        .unwrap();
    let port = service.spec.unwrap().ports.unwrap()[0]
        .target_port
        .clone()
        .unwrap();
    assert_eq!(
        json!(port),
        json!(cloud.addresses().api.expect("an API of its own").port())
    );

    // They are still in force, and are deleted one after the other.
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
