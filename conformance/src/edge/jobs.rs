//! Node jobs on an edge.

use std::{sync::Arc, time::Duration};

use peer::{Failure, ensure, now_ms};
use serde_json::{Value, json};
use wire::{Downstream, Source};

use super::state::Cloud;

/// How long an action may take.
const ACTION_DEADLINE: Duration = Duration::from_secs(60);
/// An image that no registry has.
const IMAGE: &str = "invalid.invalid/conformance:1";

/// Sends the first action of a job that pulls an image; returns the job's path.
async fn send(cloud: &Cloud, job: &str, action: &str) -> Result<String, Failure> {
    let path = format!(
        "operations.kubeedge.io/v1alpha2/imageprepulljob/{job}/node/{}",
        cloud.node()?
    );
    let message = Downstream::Job {
        origin: Source::TaskManager,
        action: action.to_owned(),
        path: path.as_str().into(),
        spec: json!({"imagePrePullTemplate": {"images": [IMAGE], "nodeNames": [cloud.node()?]}}),
    };
    cloud.send(&message.into_message(now_ms())).await?;
    Ok(path)
}

/// Waits for the report of an action; returns it.
async fn expect(cloud: &Cloud, mark: usize, path: &str, action: &str) -> Result<Value, Failure> {
    let what = format!("the report of {action} (module taskManager)");
    let seen = cloud
        .expect(&what, (mark, ACTION_DEADLINE), |one| {
            one.route.resource.as_str() == path && one.content["action"] == action
        })
        .await?;
    Ok(seen.message.content)
}

pub(super) async fn pull(cloud: Arc<Cloud>) -> Result<(), Failure> {
    let mark = cloud.mark();
    let path = send(&cloud, "conformance-pull", "Check").await?;
    let check = expect(&cloud, mark, &path, "Check").await?;
    ensure!(check["succ"] == true, "Check failed: {}", check["reason"]);
    let pull = expect(&cloud, mark, &path, "Pull").await?;
    ensure!(pull["succ"] == false, "Pull of {IMAGE} succeeded");
    let images: Value = serde_json::from_str(pull["extend"].as_str().unwrap_or_default())?;
    ensure!(
        images[0]["image"] == IMAGE && images[0]["status"] == "False",
        "Pull does not report the image: {images}"
    );
    Ok(())
}
