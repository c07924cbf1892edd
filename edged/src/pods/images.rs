//! Provides the images of containers: present ones are used, others are pulled in the background.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::Client;
use tokio::sync::{Semaphore, mpsc};
use wire::cri;

use super::{
    cache::{PodCache, Pull, exponential_delay},
    fetch,
    identity::Identity,
    image_name,
    progress::StartError,
    registry,
};
use crate::{
    background::Background,
    events::{EventType, Recorder, reason},
    references,
    runtime::Runtime,
    status::Waiting,
    timestamps,
    trigger::Trigger,
};

/// First delay before a failed pull is tried again, doubled with each failure …
const FIRST_PULL_DELAY: Duration = Duration::from_secs(10);
/// … up to this maximum; the kubelet's numbers.
const MAX_PULL_DELAY: Duration = Duration::from_secs(300);
/// How long the status reports a failed pull before it reports back-off.
const FAILURE_REPORT_PERIOD: Duration = Duration::from_secs(1);
/// How long a start waits for a pull; one that ends within this time needs no second sync of the pod.
const PULL_WAIT: Duration = Duration::from_millis(100);

/// Pulls the images of pods. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ImagePuller {
    /// The API, for image pull Secrets.
    pub(crate) client: Client,
    /// The container runtime's image service.
    pub(crate) runtime: Runtime,
    /// Remembers pulls.
    pub(crate) pod_cache: PodCache,
    /// Records pulls.
    pub(crate) events: Recorder,
    /// Triggers the pod of a pull that has ended.
    pub(crate) triggers: mpsc::Sender<Trigger>,
    /// Runs the pulls.
    pub(crate) background: Background,
    /// Limits concurrent pulls; `None` for no limit.
    pub(crate) permits: Option<Arc<Semaphore>>,
}

impl ImagePuller {
    /// Returns the container's image, or why it is not present yet.
    pub(super) async fn ensure(
        &self,
        pod: &Arc<Pod>,
        identity: &Identity<'_>,
        container: &Container,
        sandbox: &cri::PodSandboxConfig,
    ) -> Result<cri::Image, StartError> {
        let name = container.image.clone().unwrap_or_default();
        let record = |event_type, reason, text| {
            self.events
                .container(pod, &container.name, event_type, reason, text)
        };
        image_name::check(&name).map_err(|why| {
            record(EventType::Warning, reason::INSPECT_FAILED, why.clone());
            StartError::Failed(Waiting::new("InvalidImageName", why))
        })?;
        let policy = policy(container);
        let failed = |error: &dyn std::fmt::Display| {
            StartError::Failed(Waiting::new("ImageInspectError", error.to_string()))
        };
        if policy != PullPolicy::Always
            && let Some(image) = self
                .runtime
                .image(spec(pod, &name))
                .await
                .map_err(|error| {
                    let text = format!("Failed to inspect image {name:?}: {error}");
                    record(EventType::Warning, reason::INSPECT_FAILED, text);
                    failed(&error)
                })?
        {
            // An image that was pulled for this container has the events of its pull instead.
            if !self
                .pod_cache
                .with(identity.uid, |state| state.pulls.contains_key(&name))
            {
                let text = format!("Container image {name:?} already present on machine");
                record(EventType::Normal, reason::PULLED, text);
            }
            return Ok(image);
        }
        if policy == PullPolicy::Never {
            let message =
                format!("Container image {name:?} is not present with pull policy of Never");
            record(
                EventType::Warning,
                reason::ERR_IMAGE_NEVER_PULL,
                message.clone(),
            );
            return Err(StartError::Failed(Waiting::new(
                "ErrImageNeverPull",
                message,
            )));
        }
        let mut step = self.pod_cache.with(identity.uid, |state| {
            PullStep::of(state.pulls.get_mut(&name), clock::now(), &name)
        });
        if let PullStep::Start { failures } = step {
            self.pull(pod, identity, container, sandbox, failures).await;
            step = self.pod_cache.with(identity.uid, |state| {
                PullStep::of(state.pulls.get_mut(&name), clock::now(), &name)
            });
        }
        match step {
            PullStep::Use => {
                self.pod_cache
                    .with(identity.uid, |state| state.pulls.remove(&name));
                let image = self
                    .runtime
                    .image(spec(pod, &name))
                    .await
                    .map_err(|error| failed(&error))?;
                image.ok_or_else(|| failed(&format!("image {name:?} was pulled and is not there")))
            }
            PullStep::RetryAt(waiting, at) => {
                if waiting.reason == "ImagePullBackOff" {
                    record(
                        EventType::Normal,
                        reason::BACK_OFF,
                        format!("Back-off pulling image {name:?}"),
                    );
                }
                Err(StartError::RetryAt(waiting, at))
            }
            PullStep::Start { .. } | PullStep::Pending => Err(StartError::Pending),
        }
    }

    /// Starts a pull and waits for a moment. If it ends later, it triggers the pod.
    async fn pull(
        &self,
        pod: &Arc<Pod>,
        identity: &Identity<'_>,
        container: &Container,
        sandbox: &cri::PodSandboxConfig,
        failures: u32,
    ) {
        let (image, name) = (
            container.image.clone().unwrap_or_default(),
            container.name.clone(),
        );
        self.pod_cache.with(identity.uid, |state| {
            state.pulls.insert(image.clone(), Pull::Running)
        });
        let (puller, uid) = (self.clone(), identity.uid.to_owned());
        let (pod, namespace, sandbox) =
            (pod.clone(), identity.namespace.to_owned(), sandbox.clone());
        let (ended, quick) = tokio::sync::oneshot::channel::<()>();
        self.background.spawn(async move {
            let secrets = fetch::objects(&puller.client, None, &namespace, references::of_image_pulls(&pod)).await;
            let auths = registry::credentials(&secrets, &pod, &image);
            // Waits for a permit; a closed semaphore would mean no limit.
            let _permit = match &puller.permits {
                Some(pulls) => pulls.clone().acquire_owned().await.ok(),
                None => None};
            let record = |event_type, reason, text| puller.events.container(&pod, &name, event_type, reason, text);
            record(EventType::Normal, reason::PULLING, format!("Pulling image {image:?}"));
            let since = clock::Instant::now();
            let pulled = puller.runtime.pull_with_any(&image, auths, Some(&sandbox)).await;
            let took = format!("{}ms", since.elapsed().as_millis());
            match &pulled {
                Ok(()) => {
                    let found = puller.runtime.image(spec(&pod, &image)).await.ok().flatten();
                    let size = found.map_or(0, |image| image.size);
                    let text = format!(
                        "Successfully pulled image {image:?} in {took} ({took} including waiting). Image size: {size} bytes."
                    );
                    record(EventType::Normal, reason::PULLED, text);
                }
                Err(error) => {
                    let text = format!("Failed to pull image {image:?}: {error}");
                    record(EventType::Warning, reason::FAILED, text);
                }
            }
            let state = match pulled {
                Ok(()) => Pull::Done,
                Err(error) => {
                    let failures = failures.saturating_add(1);
                    let retry_at = timestamps::after(clock::now(), exponential_delay(FIRST_PULL_DELAY, failures, MAX_PULL_DELAY));
                    Pull::Failed { message: error, failures, retry_at, reported: false }
                }
            };
            puller.pod_cache.with(&uid, |pod| pod.pulls.insert(image, state));
            if ended.send(()).is_err() {
                let _ = puller.triggers.send(Trigger::of(&pod)).await;
            }
        });
        let _ = tokio::time::timeout(PULL_WAIT, quick).await;
    }
}

/// When an image is pulled although it is present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PullPolicy {
    Always,
    IfNotPresent,
    Never,
}

/// Returns the specification of an image of the pod, with its annotations as from kubelet.
fn spec(pod: &Pod, image: &str) -> cri::ImageSpec {
    let annotations = pod.metadata.annotations.clone().unwrap_or_default();
    cri::ImageSpec {
        image: image.to_owned(),
        annotations,
        ..Default::default()
    }
}

fn policy(container: &Container) -> PullPolicy {
    match container.image_pull_policy.as_deref() {
        Some("Always") => PullPolicy::Always,
        Some("Never") => PullPolicy::Never,
        Some("IfNotPresent") => PullPolicy::IfNotPresent,
        _ if is_latest(container.image.as_deref().unwrap_or_default()) => PullPolicy::Always,
        _ => PullPolicy::IfNotPresent,
    }
}

/// Reports whether the tag is `latest`, which is the default without tag and digest.
fn is_latest(image: &str) -> bool {
    let last = image.rsplit('/').next().unwrap_or_default();
    !image.contains('@') && last.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

/// What to do about an image that is not present.
enum PullStep {
    /// Pull it; `failures` pulls in a row have failed before.
    Start { failures: u32 },
    /// Wait for the running pull.
    Pending,
    /// Use the pulled image.
    Use,
    /// Report this reason, and try again at this time.
    RetryAt(Waiting, Timestamp),
}

impl PullStep {
    /// Decides the next step from the state of the last pull.
    fn of(pull: Option<&mut Pull>, now: Timestamp, image: &str) -> Self {
        match pull {
            None => Self::Start { failures: 0 },
            Some(Pull::Running) => Self::Pending,
            Some(Pull::Done) => Self::Use,
            Some(Pull::Failed {
                failures, retry_at, ..
            }) if timestamps::has_elapsed(*retry_at, now, MAX_PULL_DELAY) => Self::Start {
                failures: *failures,
            },
            Some(Pull::Failed {
                message,
                reported: reported @ false,
                ..
            }) => {
                *reported = true;
                let at = timestamps::after(now, FAILURE_REPORT_PERIOD);
                Self::RetryAt(Waiting::new("ErrImagePull", message.clone()), at)
            }
            Some(Pull::Failed {
                message, retry_at, ..
            }) => {
                let message = format!("Back-off pulling image {image:?}: ErrImagePull: {message}");
                Self::RetryAt(Waiting::new("ImagePullBackOff", message), *retry_at)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latest_is_always_pulled() {
        for (image, latest) in [
            ("nginx", true),
            ("nginx:latest", true),
            ("host:5000/nginx", true),
            ("nginx:1.27", false),
            ("host:5000/a/b:1", false),
            ("nginx@sha256:00", false),
        ] {
            assert_eq!(is_latest(image), latest, "{image}");
        }
    }

    #[test]
    fn failed_pull_is_reported_then_backs_off_then_retries() {
        let now = Timestamp::UNIX_EPOCH;
        let retry_at = timestamps::after(now, FIRST_PULL_DELAY);
        let mut pull = Pull::Failed {
            message: "no route".into(),
            failures: 1,
            retry_at,
            reported: false,
        };
        let waits = |step| match step {
            PullStep::RetryAt(waiting, at) => (waiting.reason, waiting.message, at.as_second()),
            _ => panic!("it must wait"),
        };
        assert_eq!(
            waits(PullStep::of(Some(&mut pull), now, "a")),
            ("ErrImagePull".into(), "no route".into(), 1)
        );
        let message = "Back-off pulling image \"a\": ErrImagePull: no route".to_owned();
        assert_eq!(
            waits(PullStep::of(Some(&mut pull), now, "a")),
            ("ImagePullBackOff".into(), message, 10)
        );
        assert!(matches!(
            PullStep::of(Some(&mut pull), retry_at, "a"),
            PullStep::Start { failures: 1 }
        ));
        let year_before = Timestamp::from_second(-31_536_000).unwrap();
        assert!(
            matches!(
                PullStep::of(Some(&mut pull), year_before, "a"),
                PullStep::Start { .. }
            ),
            "the clock was set back"
        );
        assert!(matches!(
            PullStep::of(Some(&mut Pull::Running), now, "a"),
            PullStep::Pending
        ));
    }
}
