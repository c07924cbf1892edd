//! Webhooks and another API server over TLS, with the built cloud and kubectl.

use std::sync::{Arc, Mutex};

use anyhow::{Context, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use e2e::{Cloud, ensure_says, until};
use serde_json::{Value, json};

use crate::https::{Asked, HttpsServer};

/// A definition whose versions differ in a field, and the service of its webhook.
const DEFINITION: &str = r#"
apiVersion: v1
kind: Service
metadata: {name: hook, namespace: default}
spec: {type: ExternalName, externalName: localhost}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: routes.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {plural: routes, singular: route, kind: Route}
  conversion:
    strategy: Webhook
    webhook: {conversionReviewVersions: [v1], clientConfig: CLIENT}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {hostPort: {type: string}}}}}
  - name: v2
    served: true
    storage: false
    schema:
      openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {host: {type: string}, port: {type: string}}}}}
"#;

/// Converts routes between `hostPort` and `host` and `port`.
fn convert(asked: &Asked) -> Value {
    let request = &asked.body["request"];
    let wanted = request["desiredAPIVersion"].as_str().unwrap_or_default();
    let convert = |object: &Value| {
        let mut object = object.clone();
        let text = |field: &str| {
            object["spec"][field]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        let spec = if wanted.ends_with("/v2") {
            let whole = text("hostPort");
            let (host, port) = whole.split_once(':').unwrap_or_default();
            json!({"host": host, "port": port})
        } else {
            json!({"hostPort": format!("{}:{}", text("host"), text("port"))})
        };
        object["spec"] = spec;
        object["apiVersion"] = wanted.into();
        object
    };
    let objects = request["objects"].as_array().into_iter().flatten();
    let converted: Vec<_> = objects.map(convert).collect();
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "response": {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": converted}})
}

#[test]
fn a_conversion_webhook_converts_what_kubectl_reads_and_writes() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let cloud = Cloud::start(directory.path())?;
    let kubectl = &cloud.kubectl;
    let names = ["localhost", "hook.default.svc"];
    let hook = HttpsServer::start(&names, None, |asked| (200, convert(&asked)))?;
    let url = json!({"url": format!("https://localhost:{}/convert", hook.port), "caBundle": hook.ca_bundle});
    let service = json!({"service": {"namespace": "default", "name": "hook", "port": hook.port}, "caBundle": hook.ca_bundle});
    for (name, client) in [("one", url), ("two", service)] {
        kubectl.apply(&DEFINITION.replace("CLIENT", &client.to_string()))?;
        kubectl.run(&[
            "wait",
            "--for=condition=Established",
            "crd/routes.example.org",
        ])?;
        kubectl.apply(&format!(
            r#"{{"apiVersion": "example.org/v1", "kind": "Route", "metadata": {{"name": "{name}", "namespace": "default"}}, "spec": {{"hostPort": "a:1"}}}}"#
        ))?;
        let read = |version: &str| {
            let found = kubectl.json(&["get", &format!("routes.{version}.example.org"), name])?;
            anyhow::Ok(found["spec"].clone())
        };
        ensure!(read("v2")? == json!({"host": "a", "port": "1"}));
        let patch = r#"{"spec": {"port": "2"}}"#;
        let target = "routes.v2.example.org";
        kubectl.run(&["patch", target, name, "--type=merge", "--patch", patch])?;
        ensure!(read("v1")? == json!({"hostPort": "a:2"}));
        let both = kubectl.json(&["get", "routes.v2.example.org"])?;
        let hosts = both["items"].as_array().context("no items")?;
        ensure!(
            hosts.iter().all(|one| one["spec"]["host"] == "a"),
            "{both:#}"
        );
    }
    let port = hook.port;
    drop(hook);
    let failed = kubectl
        .output(&["get", "routes.v2.example.org", "one"])?
        .failure()?;
    let expected = "conversion webhook for example.org/v1, Kind=Route failed: Post \"https://hook.default.svc:";
    ensure_says(
        &failed,
        &[expected, &port.to_string(), "connection refused"],
    )?;
    // what is stored in this version needs no webhook
    kubectl.run(&["delete", "routes.v1.example.org", "--all"])?;
    Ok(())
}

/// A policy that sets two annotations, and the webhook that sees its work.
const POLICY: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: stage}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}
  matchConditions:
  - {name: named, expression: "object.metadata.name.startsWith('policy-')"}
  reinvocationPolicy: IfNeeded
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: 'Object{metadata: Object.metadata{annotations: {"stage": "policy"}}}'
  - patchType: JSONPatch
    jsonPatch:
      expression: >-
        [JSONPatch{op: "add", path: "/metadata/annotations/" + jsonpatch.escapeKey("example.org/size"), value: string(size(object.data))}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: stage}
spec: {policyName: stage}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: stage}
webhooks:
- name: stage.example.org
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: CLIENT
  rules:
  - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}
  matchConditions:
  - {name: named, expression: "object.metadata.name.startsWith('policy-')"}
"#;

#[test]
fn a_mutating_policy_and_a_webhook_see_each_others_changes() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let cloud = Cloud::start(directory.path())?;
    let kubectl = &cloud.kubectl;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let hook = HttpsServer::start(&["localhost"], None, move |asked| {
        let request = &asked.body["request"];
        if let Ok(mut seen) = noted.lock() {
            seen.push(request["object"].clone());
        }
        let patch = json!([{"op": "add", "path": "/data/hook", "value": "x"}]).to_string();
        let response = json!({"uid": request["uid"], "allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(patch)});
        (
            200,
            json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}),
        )
    })?;
    let client = json!({"url": format!("https://localhost:{}/mutate", hook.port), "caBundle": hook.ca_bundle});
    kubectl.apply(&POLICY.replace("CLIENT", &client.to_string()))?;
    kubectl.run(&["create", "configmap", "policy-one", "--from-literal=k=v"])?;
    let found = kubectl.json(&["get", "configmap", "policy-one"])?;
    // the policy runs again, because the webhook has added an entry
    let annotations = |size: &str| json!({"stage": "policy", "example.org/size": size});
    ensure!(
        found["metadata"]["annotations"] == annotations("2")
            && found["data"] == json!({"k": "v", "hook": "x"}),
        "{found:#}"
    );
    let seen = seen.lock().ok().and_then(|mut seen| seen.pop());
    let seen = seen.context("the webhook was not called")?;
    ensure!(
        seen["metadata"]["annotations"] == annotations("1"),
        "{seen:#}"
    );
    kubectl.run(&["create", "configmap", "other", "--from-literal=k=v"])?;
    let other = kubectl.json(&["get", "configmap", "other"])?;
    ensure!(other["data"] == json!({"k": "v"}), "{other:#}");
    Ok(())
}

/// Another API server with one kind, that keeps nothing.
fn fish(asked: &Asked) -> (u16, Value) {
    let fish = |name: &str| {
        json!({"apiVersion": "fish.example.org/v1", "kind": "Fish",
        "metadata": {"name": name, "namespace": "default", "annotations": {"caller": asked.headers.get("x-remote-user")}}})
    };
    let (path, _query) = asked.path.split_once('?').unwrap_or((&asked.path, ""));
    let objects = "/apis/fish.example.org/v1/namespaces/default/fish";
    match (asked.method.as_str(), path) {
        ("GET", "/apis/fish.example.org/v1") => (
            200,
            json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "fish.example.org/v1", "resources": [
                {"name": "fish", "singularName": "fish", "namespaced": true, "kind": "Fish", "verbs": ["get", "list"]}]}),
        ),
        ("GET", path) if path == objects => (
            200,
            json!({"apiVersion": "fish.example.org/v1", "kind": "FishList", "metadata": {"resourceVersion": "1"}, "items": [fish("one")]}),
        ),
        ("GET", path) if path.starts_with(objects) => {
            (200, fish(path.rsplit('/').next().unwrap_or_default()))
        }
        _ => (
            404,
            json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "message": format!("no {}", asked.path)}),
        ),
    }
}

#[test]
fn another_api_server_gets_the_requests_of_its_group() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let cloud = Cloud::start(directory.path())?;
    let kubectl = &cloud.kubectl;
    let place = [
        "-n",
        "kube-system",
        "get",
        "configmap",
        "extension-apiserver-authentication",
    ];
    let trust = kubectl.json(&place)?;
    let clients = trust["data"]["requestheader-client-ca-file"].as_str();
    let clients = clients.context("no CA of the front proxy")?;
    let server = HttpsServer::start(&["fish.default.svc"], Some(clients), |asked| fish(&asked))?;
    let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "fish", "namespace": "default"},
            "spec": {"type": "ExternalName", "externalName": "localhost"}},
        {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.fish.example.org"},
            "spec": {"group": "fish.example.org", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10,
                "caBundle": server.ca_bundle, "service": {"name": "fish", "namespace": "default", "port": server.port}}}]});
    kubectl.apply(&objects.to_string())?;
    kubectl.run(&[
        "wait",
        "--for=condition=Available",
        "apiservice/v1.fish.example.org",
    ])?;
    ensure_says(&kubectl.run(&["api-resources"])?, &["fish.example.org/v1"])?;
    ensure_says(&kubectl.run(&["get", "fish"])?, &["one"])?;
    let one = kubectl.json(&[
        "get",
        "fish",
        "two",
        "--as=bob",
        "--as-group=system:masters",
    ])?;
    ensure!(one["metadata"]["annotations"]["caller"] == "bob", "{one:#}");
    let refused = kubectl.output(&["get", "fish", "--as=bob"])?.failure()?;
    ensure_says(&refused, &["User \"bob\" cannot list resource \"fish\""])?;
    drop(server);
    let gone = kubectl.output(&["get", "fish"])?.failure()?;
    ensure_says(
        &gone,
        &["error trying to reach service", "connection refused"],
    )?;
    // a change is a reason to check at once
    kubectl.run(&["label", "apiservice", "v1.fish.example.org", "a=b"])?;
    until("the APIService is not available", || {
        let all = kubectl.run(&["get", "apiservice", "v1.fish.example.org"])?;
        ensure_says(&all, &["False (FailedDiscoveryCheck)"])
    })
}
