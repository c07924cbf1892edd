//! Node jobs: `operations.kubeedge.io/v1alpha2`.

use std::{sync::Arc, time::Duration};

use kube::api::{DynamicObject, PostParams};
use peer::{Failure, ensure, now_ms};
use serde_json::{Value, json};
use wire::{Upstream, node_job::ActionStatus};

use super::{
    nodes::report_ready,
    target::{PlayedNode, Target},
};

/// How long a cloud may take until it sends the first action: `CloudCore` sends it after `ControllerManager` has selected the nodes.
const SEND_DEADLINE: Duration = Duration::from_secs(40);
/// The image of the job, which nobody pulls.
const IMAGE: &str = "docker.io/library/conformance:1";

/// Creates a job that pulls an image on these nodes; returns its name.
async fn create(target: &Target, case: &str, nodes: &[&str]) -> Result<String, Failure> {
    let name = target.node_name(case);
    let job = json!({"apiVersion": "operations.kubeedge.io/v1alpha2", "kind": "ImagePrePullJob", "metadata": {"name": name},
        "spec": {"imagePrePullTemplate": {"images": [IMAGE], "nodeNames": nodes, "timeoutSeconds": 300, "concurrency": 2}}});
    let job: DynamicObject = serde_json::from_value(job)?;
    match target.jobs().create(&PostParams::default(), &job).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Err(Failure::Skipped(
            "the cloud does not have operations.kubeedge.io/v1alpha2".to_owned(),
        )),
        created => {
            drop(created?);
            Ok(name)
        }
    }
}

async fn report(
    node: &mut PlayedNode,
    path: &str,
    action: &str,
    extend: String,
) -> Result<(), Failure> {
    let status = ActionStatus {
        action: action.to_owned(),
        succ: true,
        finish_time: "2026-01-01T00:00:00Z".to_owned(),
        extend,
        ..ActionStatus::default()
    };
    let report = Upstream::ActionStatus {
        path: path.into(),
        status: serde_json::to_value(status)?,
    };
    node.session.send(&report.into_message(now_ms())).await;
    Ok(())
}

/// Waits until the status of the job has this phase, and one of its nodes this one.
async fn wait(target: &Target, job: &str, phase: &str, node: (&str, &str)) -> Result<(), Failure> {
    let what = format!("phase {phase} of the job, with {} {}", node.0, node.1);
    target
        .wait(&target.jobs(), job, &what, |job| {
            job.is_some_and(|job| {
                let status = &job.data["status"];
                let nodes = status["nodeStatus"].as_array();
                let has_node = nodes.is_some_and(|nodes| {
                    nodes
                        .iter()
                        .any(|one| one["nodeName"] == node.0 && one["phase"] == node.1)
                });
                status["phase"] == phase && has_node
            })
        })
        .await
}

pub(super) async fn pull(target: Arc<Target>) -> Result<(), Failure> {
    let mut node = target.node("pull").await?;
    report_ready(&target, &mut node).await?;
    let name = node.name.clone();
    let job = create(&target, "pull", &[&name]).await?;
    let path = format!("operations.kubeedge.io/v1alpha2/imageprepulljob/{job}/node/{name}");
    let first = node
        .session
        .expect("the first action", SEND_DEADLINE, |one| {
            one.route.resource.as_str() == path
        })
        .await?;
    ensure!(
        first.route.operation.as_str() == "Check",
        "the first action is {:?}, not \"Check\"",
        first.route.operation.as_str()
    );
    let images = first.content.pointer("/imagePrePullTemplate/images");
    ensure!(
        images == Some(&json!([IMAGE])),
        "the first action does not have the job's spec: {}",
        first.content
    );
    report(&mut node, &path, "Check", String::new()).await?;
    // CloudCore applies reports that follow at once in any order
    let is_checked = |job: Option<&DynamicObject>| {
        job.is_some_and(|job| job.data["status"].to_string().contains("\"Check\""))
    };
    target
        .wait(
            &target.jobs(),
            &job,
            "the action Check of the job",
            is_checked,
        )
        .await?;
    let outcome: Value = json!([{"image": IMAGE, "status": "True", "reason": ""}]);
    report(&mut node, &path, "Pull", outcome.to_string()).await?;
    wait(&target, &job, "Completed", (&name, "Successful")).await
}

pub(super) async fn unknown_node(target: Arc<Target>) -> Result<(), Failure> {
    let missing = target.node_name("no-such-node");
    let job = create(&target, "unknown", &[&missing]).await?;
    wait(&target, &job, "Failure", (&missing, "Failure")).await
}
