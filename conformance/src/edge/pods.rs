//! Pods on an edge.

use std::{sync::Arc, time::Duration};

use peer::{Failure, ensure, transport::Transport};
use serde_json::{Value, json};
use wire::{Change, Message, Operation};

use super::state::Cloud;

/// How long a pod may take to start or stop.
pub(super) const POD_DEADLINE: Duration = Duration::from_secs(90);
/// How long a second start of a container is waited for.
const QUIET: Duration = Duration::from_secs(10);

/// Returns the path of a pod.
pub(super) fn path(name: &str) -> String {
    format!("default/pod/{name}")
}

/// Returns a pod of the edge.
pub(super) fn pod(cloud: &Cloud, name: &str) -> Result<Value, Failure> {
    Ok(json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": name, "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "nodeName": cloud.node()?,
            "restartPolicy": "Always", "terminationGracePeriodSeconds": 1, "dnsPolicy": "Default", "schedulerName": "default-scheduler",
            "serviceAccountName": "default", "automountServiceAccountToken": false, "enableServiceLinks": false,
            "securityContext": {},
            "containers": [{"name": "main", "image": cloud.image, "imagePullPolicy": "IfNotPresent",
                "command": ["sh", "-c", "echo conformance; exec sleep 3600"],
                "resources": {}, "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}],
        },
        "status": {"phase": "Pending", "qosClass": "BestEffort"},
    }))
}

/// Waits until a stored pod has this phase.
async fn wait_phase(cloud: &Cloud, name: &str, phase: &str) -> Result<(), Failure> {
    let path = path(name);
    let what = format!("the pod {name} that is {phase}");
    cloud
        .until(&what, POD_DEADLINE, |state| {
            let status = &state.objects.get(&path)?["status"];
            (status["phase"] == phase).then_some(())
        })
        .await
}

/// Returns the id of a pod's container, as it was last reported.
pub(super) fn container_id(cloud: &Cloud, name: &str) -> Value {
    let state = cloud.state.lock();
    let pod = state.objects.get(&path(name));
    pod.and_then(|pod| pod.pointer("/status/containerStatuses/0/containerID"))
        .cloned()
        .unwrap_or_default()
}

/// Delivers a pod and waits until it runs. Returns the object.
pub(super) async fn start(cloud: &Cloud, name: &str) -> Result<Value, Failure> {
    let object = cloud
        .deliver(Change::Insert, &path(name), pod(cloud, name)?)
        .await?;
    wait_phase(cloud, name, "Running").await?;
    Ok(object)
}

fn is_status_of<'a>(name: &'a str) -> impl Fn(&Message) -> bool + 'a {
    move |message| message.route.resource.as_str() == format!("default/podpatch/{name}")
}

pub(super) async fn runs(cloud: Arc<Cloud>) -> Result<(), Failure> {
    let mark = cloud.mark();
    let object = start(&cloud, "runs").await?;
    let seen = cloud
        .expect(
            "a status of the pod",
            (mark, POD_DEADLINE),
            is_status_of("runs"),
        )
        .await?;
    let patch = seen.message.content_json()?;
    ensure!(
        patch["metadata"]["uid"] == object["metadata"]["uid"],
        "the status patch has the UID {}",
        patch["metadata"]["uid"]
    );
    ensure!(
        // the frames of QUIC do not distinguish
        seen.message.content.is_string() || cloud.transport == Transport::Quic,
        "the status patch is not JSON in a string"
    );
    Ok(())
}

pub(super) async fn sent_again(cloud: Arc<Cloud>) -> Result<(), Failure> {
    let object = start(&cloud, "again").await?;
    let before = container_id(&cloud, "again");
    let message = Cloud::message_of(Change::Insert, &path("again"), object);
    cloud.send_reliably(&message).await?;
    tokio::time::sleep(QUIET).await;
    let after = container_id(&cloud, "again");
    ensure!(
        before == after,
        "the container {before} was replaced with {after}"
    );
    Ok(())
}

/// Returns a pod with volumes of a ConfigMap, a Secret and a token.
fn pod_with_configuration(cloud: &Cloud, name: &str) -> Result<Value, Failure> {
    let mut pod = pod(cloud, name)?;
    pod["spec"]["volumes"] = json!([
        {"name": "map", "configMap": {"name": name, "defaultMode": 420}},
        {"name": "secret", "secret": {"secretName": name, "defaultMode": 420}},
        {"name": "token", "projected": {"defaultMode": 420, "sources":
            [{"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}}]}},
    ]);
    let mounts = ["map", "secret", "token"]
        .map(|volume| json!({"name": volume, "mountPath": format!("/{volume}"), "readOnly": true}));
    pod["spec"]["containers"][0]["volumeMounts"] = json!(mounts);
    Ok(pod)
}

fn store_configuration(cloud: &Cloud, name: &str) {
    let metadata = json!({"name": name, "namespace": "default"});
    let map = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": {"key": "old"}});
    cloud.store(&format!("default/configmap/{name}"), map);
    let secret = json!({"kind": "Secret", "apiVersion": "v1", "metadata": metadata, "type": "Opaque", "data": {"key": "b2xk"}});
    cloud.store(&format!("default/secret/{name}"), secret);
}

pub(super) async fn configuration(cloud: Arc<Cloud>) -> Result<(), Failure> {
    let name = "configured";
    store_configuration(&cloud, name);
    let mark = cloud.mark();
    cloud
        .deliver(
            Change::Insert,
            &path(name),
            pod_with_configuration(&cloud, name)?,
        )
        .await?;
    for resource in [
        "default/configmap/configured",
        "default/secret/configured",
        "default/serviceaccounttoken/default",
    ] {
        let what = format!("the query for {resource}");
        cloud
            .expect(&what, (mark, POD_DEADLINE), |one| {
                one.route.operation == Operation::Query && one.route.resource.as_str() == resource
            })
            .await?;
    }
    wait_phase(&cloud, name, "Running").await
}

pub(super) async fn changed_configuration(cloud: Arc<Cloud>) -> Result<(), Failure> {
    let path = "default/configmap/configured";
    let known = cloud.state.lock().objects.get(path).cloned();
    let Some(mut map) = known else {
        return Err(Failure::Skipped("pod.configuration was not run".to_owned()));
    };
    map["data"]["key"] = json!("new");
    cloud.deliver(Change::Update, path, map).await?;
    Ok(())
}

pub(super) async fn failed_query(cloud: Arc<Cloud>) -> Result<(), Failure> {
    let name = "late-map";
    let mark = cloud.mark();
    cloud
        .deliver(
            Change::Insert,
            &path(name),
            pod_with_configuration(&cloud, name)?,
        )
        .await?;
    cloud
        .expect("the query for the ConfigMap", (mark, POD_DEADLINE), |one| {
            one.route.resource.as_str() == "default/configmap/late-map"
        })
        .await?;
    // the edge has its refusal, and must ask again
    tokio::time::sleep(Duration::from_secs(2)).await;
    store_configuration(&cloud, name);
    wait_phase(&cloud, name, "Running").await
}

pub(super) async fn graceful_deletion(cloud: Arc<Cloud>) -> Result<(), Failure> {
    let mut object = start(&cloud, "graceful").await?;
    let uid = object["metadata"]["uid"].clone();
    object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:01Z");
    object["metadata"]["deletionGracePeriodSeconds"] = json!(1);
    let mark = cloud.mark();
    let path = path("graceful");
    cloud.deliver(Change::Update, &path, object).await?;
    let seen = cloud
        .expect("the deletion by the edge", (mark, POD_DEADLINE), |one| {
            one.route.operation == Operation::Delete && one.route.resource.as_str() == path
        })
        .await?;
    let options = seen.message.content_json()?;
    ensure!(
        options["gracePeriodSeconds"] == 0 && options["preconditions"]["uid"] == uid,
        "the deletion has the options {options}"
    );
    Ok(())
}

/// Returns the deletion that a resync sends: name, namespace and UID.
pub(super) fn stub(name: &str, uid: &Value) -> Message {
    let object = json!({"metadata": {"name": name, "namespace": "default", "uid": uid}});
    let mut message = Cloud::message_of(Change::Delete, &path(name), object);
    message.header.resource_version.clear();
    message
}

pub(super) async fn deletion_by_stub(cloud: Arc<Cloud>) -> Result<(), Failure> {
    let object = start(&cloud, "stub").await?;
    let message = stub("stub", &object["metadata"]["uid"]);
    cloud.send_reliably(&message).await
}

pub(super) async fn other_uid(cloud: Arc<Cloud>) -> Result<(), Failure> {
    start(&cloud, "kept").await?;
    let mark = cloud.mark();
    cloud
        .send(&stub(
            "kept",
            &json!("00000000-0000-4000-8000-000000000000"),
        ))
        .await?;
    cloud
        .expect_none(
            "status of the pod, which was stopped",
            (mark, QUIET),
            |one| is_status_of("kept")(one) && one.content.to_string().contains("terminated"),
        )
        .await
}
