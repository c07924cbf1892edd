//! Pulls the images of a job, one after the other.

use std::{collections::BTreeMap, time::Duration};

use edged::ImagePuller;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde::Deserialize;
use tokio::time::sleep;
use wire::node_job::ImageOutcome;

use super::ClientOfSecrets;

/// The pause before an image is pulled again.
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// The most images of one job.
const MAX_IMAGES: usize = 256;
/// The most retries of an image.
const MAX_RETRIES: u32 = 100;

/// The spec of a pull.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Spec {
    pub(super) image_pre_pull_template: Template,
}

/// What to pull.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Template {
    images: Vec<String>,
    /// `namespace/name`; empty for none.
    image_secrets: String,
    retry_times: u32,
    pub(super) check_items: Vec<String>,
}

/// The data of a Secret.
type Data = BTreeMap<String, Vec<u8>>;

/// Pulls all images; returns the outcome of each, and why the pull failed as a whole.
pub(super) async fn pull(
    template: &Template,
    images: &ImagePuller,
    client: &ClientOfSecrets,
) -> (Vec<ImageOutcome>, Result<(), String>) {
    if template.images.len() > MAX_IMAGES {
        let why = format!(
            "the job has {} images; the limit is {MAX_IMAGES}",
            template.images.len()
        );
        return (Vec::new(), Err(why));
    }
    let secret = match secret(&template.image_secrets, client).await {
        Ok(secret) => secret,
        Err(why) => return (Vec::new(), Err(why)),
    };
    let mut outcomes = Vec::new();
    for image in &template.images {
        let pulled = retry(template.retry_times, || images.pull(image, secret.as_ref())).await;
        outcomes.push(ImageOutcome {
            image: image.clone(),
            status: if pulled.is_ok() { "True" } else { "False" }.to_owned(),
            reason: pulled.err().unwrap_or_default(),
        });
    }
    let failed: Vec<&str> = outcomes
        .iter()
        .filter(|outcome| outcome.status == "False")
        .map(|outcome| outcome.image.as_str())
        .collect();
    let whole = match failed.as_slice() {
        [] => Ok(()),
        [image] => Err(format!(
            "{image} could not be pulled; its reason is in imageStatus"
        )),
        several => Err(format!(
            "{} images could not be pulled; their reasons are in imageStatus",
            several.len()
        )),
    };
    (outcomes, whole)
}

/// Tries until it succeeds, once and `times` times more.
async fn retry<F>(times: u32, attempt: impl Fn() -> F) -> Result<(), String>
where
    F: Future<Output = Result<(), String>>,
{
    let mut left = times.min(MAX_RETRIES);
    loop {
        match attempt().await {
            Err(_) if left > 0 => left -= 1,
            ended => return ended,
        }
        sleep(RETRY_PAUSE).await;
    }
}

/// Reads the Secret with credentials; `None` if the job names none.
async fn secret(named: &str, client: &ClientOfSecrets) -> Result<Option<Data>, String> {
    if named.is_empty() {
        return Ok(None);
    }
    let Some((namespace, name)) = named.split_once('/') else {
        return Err(format!("imageSecrets {named:?} is not NAMESPACE/NAME"));
    };
    let secrets = Api::<Secret>::namespaced(client.0.clone(), namespace);
    let secret = secrets.get(name).await.map_err(|error| match error {
        kube::Error::Api(status) => {
            format!("the Secret {named} cannot be read: {}", status.message)
        }
        other => format!("the Secret {named} cannot be read: {other}"),
    })?;
    let data = secret.data.unwrap_or_default();
    let data: Data = data
        .into_iter()
        .map(|(key, value)| (key, value.0))
        .collect();
    if !data.contains_key(".dockerconfigjson") && !data.contains_key(".dockercfg") {
        return Err(format!(
            "the Secret {named} has no key .dockerconfigjson; create it with kubectl create secret docker-registry"
        ));
    }
    Ok(Some(data))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_pull_is_tried_again_as_often_as_the_job_says() {
        for (times, fails, succeeds, tries) in [
            (0, 0, true, 1),
            (0, 1, false, 1),
            (2, 2, true, 3),
            (2, 9, false, 3),
        ] {
            let tried = AtomicU32::new(0);
            let ended = retry(times, || {
                let number = tried.fetch_add(1, Ordering::Relaxed);
                async move {
                    if number < fails {
                        Err("no route".to_owned())
                    } else {
                        Ok(())
                    }
                }
            })
            .await;
            assert_eq!((ended.is_ok(), tried.into_inner()), (succeeds, tries));
        }
    }

    #[test]
    fn a_template_may_lack_everything() {
        let spec: Spec = serde_json::from_str("{}").unwrap();
        assert!(spec.image_pre_pull_template.images.is_empty());
        let text = r#"{"imagePrePullTemplate":{"images":["a/b:1"],"imageSecrets":"default/reg","retryTimes":1,"nodeNames":["e"]}}"#;
        let spec: Spec = serde_json::from_str(text).unwrap();
        assert_eq!(spec.image_pre_pull_template.image_secrets, "default/reg");
    }
}
