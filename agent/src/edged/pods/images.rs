//! Images: used when they are here, pulled in the background when they are not.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::runtime::reflector::ObjectRef;
use wire::cri;

use super::{
    Context, Identity, Trigger,
    cache::{Pull, doubled},
    fetch, image_name, registry,
    start::Obstacle,
};
use crate::edged::{
    events::{Severity, reason},
    moment, references,
    status::Waiting,
};

/// A pull that failed is tried again after this, doubled with each failure …
const FIRST_WAIT: Duration = Duration::from_secs(10);
/// … up to this; the kubelet's numbers.
const MAX_WAIT: Duration = Duration::from_secs(300);
/// How long a failure is reported as such before it is reported as a wait.
const TELL: Duration = Duration::from_secs(1);
/// A pull that is as quick as this needs no second look at the pod.
const QUICK_PULL: Duration = Duration::from_millis(100);

/// The container's image, here; else why it is not.
pub(super) async fn ensure(
    context: &Arc<Context>,
    pod: &Arc<Pod>,
    identity: &Identity<'_>,
    container: &Container,
    sandbox: &cri::PodSandboxConfig,
) -> Result<cri::Image, Obstacle> {
    let name = container.image.clone().unwrap_or_default();
    let tell =
        |severity, reason, text| context.events.container(pod, &container.name, severity, reason, text);
    image_name::check(&name).map_err(|why| {
        tell(Severity::Warning, reason::INSPECT_FAILED, why.clone());
        Obstacle::Failed(Waiting::new("InvalidImageName", why))
    })?;
    let policy = policy(container);
    let failed = |error: &dyn std::fmt::Display| {
        Obstacle::Failed(Waiting::new("ImageInspectError", error.to_string()))
    };
    if policy != Policy::Always
        && let Some(image) = context.runtime.image(&name).await.map_err(|error| {
            let text = format!("Failed to inspect image {name:?}: {error}");
            tell(Severity::Warning, reason::INSPECT_FAILED, text);
            failed(&error)
        })?
    {
        // Nothing is present that was not looked for: one that was pulled for this container is told by its pull.
        if !context.pod_cache.with(identity.uid, |state| state.pulls.contains_key(&name)) {
            let text = format!("Container image {name:?} already present on machine");
            tell(Severity::Normal, reason::PULLED, text);
        }
        return Ok(image);
    }
    if policy == Policy::Never {
        let message = format!("Container image {name:?} is not present with pull policy of Never");
        tell(Severity::Warning, reason::ERR_IMAGE_NEVER_PULL, message.clone());
        return Err(Obstacle::Failed(Waiting::new("ErrImageNeverPull", message)));
    }
    let mut next = context
        .pod_cache
        .with(identity.uid, |state| next(state.pulls.get_mut(&name), Timestamp::now(), &name));
    if let Next::Pull { failures } = next {
        pull(context, pod, identity, container, sandbox, failures).await;
        next = context
            .pod_cache
            .with(identity.uid, |state| self::next(state.pulls.get_mut(&name), Timestamp::now(), &name));
    }
    match next {
        Next::Use => {
            context.pod_cache.with(identity.uid, |state| state.pulls.remove(&name));
            let image = context.runtime.image(&name).await.map_err(|error| failed(&error))?;
            image.ok_or_else(|| failed(&format!("image {name:?} was pulled and is not there")))
        }
        Next::Wait(waiting, at) => {
            if waiting.reason == "ImagePullBackOff" {
                tell(Severity::Normal, reason::BACK_OFF, format!("Back-off pulling image {name:?}"));
            }
            Err(Obstacle::Until(waiting, at))
        }
        Next::Pull { .. } | Next::Pending => Err(Obstacle::Pending),
    }
}

/// When an image is pulled although it is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    Always,
    IfNotPresent,
    Never,
}

fn policy(container: &Container) -> Policy {
    match container.image_pull_policy.as_deref() {
        Some("Always") => Policy::Always,
        Some("Never") => Policy::Never,
        Some("IfNotPresent") => Policy::IfNotPresent,
        _ if is_latest(container.image.as_deref().unwrap_or_default()) => Policy::Always,
        _ => Policy::IfNotPresent,
    }
}

/// Without tag and digest, `latest` is meant.
fn is_latest(image: &str) -> bool {
    let last = image.rsplit('/').next().unwrap_or_default();
    !image.contains('@') && last.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

/// What to do about an image that is not here.
enum Next {
    Pull { failures: u32 },
    Pending,
    Use,
    Wait(Waiting, Timestamp),
}

fn next(pull: Option<&mut Pull>, now: Timestamp, image: &str) -> Next {
    match pull {
        None => Next::Pull { failures: 0 },
        Some(Pull::Running) => Next::Pending,
        Some(Pull::Done) => Next::Use,
        Some(Pull::Failed { failures, retry_at, .. }) if moment::is_over(*retry_at, now, MAX_WAIT) => {
            Next::Pull { failures: *failures }
        }
        Some(Pull::Failed { message, told: told @ false, .. }) => {
            *told = true;
            Next::Wait(Waiting::new("ErrImagePull", message.clone()), moment::after(now, TELL))
        }
        Some(Pull::Failed { message, retry_at, .. }) => {
            let message = format!("Back-off pulling image {image:?}: ErrImagePull: {message}");
            Next::Wait(Waiting::new("ImagePullBackOff", message), *retry_at)
        }
    }
}

/// Starts the pull, and waits a moment for it. When it ends later, it triggers the pod.
async fn pull(
    context: &Arc<Context>,
    pod: &Arc<Pod>,
    identity: &Identity<'_>,
    container: &Container,
    sandbox: &cri::PodSandboxConfig,
    failures: u32,
) {
    let (image, name) = (container.image.clone().unwrap_or_default(), container.name.clone());
    context.pod_cache.with(identity.uid, |state| state.pulls.insert(image.clone(), Pull::Running));
    let (task, uid) = (context.clone(), identity.uid.to_owned());
    let (pod, namespace, sandbox) = (pod.clone(), identity.namespace.to_owned(), sandbox.clone());
    let (told, quick) = tokio::sync::oneshot::channel::<()>();
    let shutdown = context.shutdown.clone();
    context.background.spawn(shutdown.run_until_cancelled_owned(async move {
        let secrets = fetch::objects((&task.client, None), &namespace, references::of_pulls(&pod)).await;
        let auths = registry::credentials(&secrets, &pod, &image);
        // In turn, if so many are pulled already; a closed semaphore would be one that lets everybody through.
        let _permit = match &task.pulls {
            Some(pulls) => pulls.clone().acquire_owned().await.ok(),
            None => None,
        };
        let tell = |severity, reason, text| task.events.container(&pod, &name, severity, reason, text);
        tell(Severity::Normal, reason::PULLING, format!("Pulling image {image:?}"));
        let since = std::time::Instant::now();
        let pulled = with_any(&task, &image, auths, &sandbox).await;
        let took = format!("{}ms", since.elapsed().as_millis());
        match &pulled {
            Ok(()) => {
                let found = task.runtime.image(&image).await.ok().flatten();
                let size = found.map_or(0, |image| image.size);
                let text = format!(
                    "Successfully pulled image {image:?} in {took} ({took} including waiting). Image size: {size} bytes."
                );
                tell(Severity::Normal, reason::PULLED, text);
            }
            Err(error) => {
                let text = format!("Failed to pull image {image:?}: {error}");
                tell(Severity::Warning, reason::FAILED, text);
            }
        }
        let state = match pulled {
            Ok(()) => Pull::Done,
            Err(error) => {
                let failures = failures.saturating_add(1);
                let retry_at = moment::after(Timestamp::now(), doubled(FIRST_WAIT, failures, MAX_WAIT));
                Pull::Failed { message: error, failures, retry_at, told: false }
            }
        };
        task.pod_cache.with(&uid, |pod| pod.pulls.insert(image, state));
        if told.send(()).is_err() {
            let _ = task.triggers.send(Trigger::Pod(ObjectRef::from_obj(pod.as_ref()))).await;
        }
    }));
    let _ = tokio::time::timeout(QUICK_PULL, quick).await;
}

/// Pulls with the first credentials that do, or without any; else says what came of each.
async fn with_any(
    context: &Context,
    image: &str,
    auths: Vec<cri::AuthConfig>,
    sandbox: &cri::PodSandboxConfig,
) -> Result<(), String> {
    let auths = if auths.is_empty() { vec![None] } else { auths.into_iter().map(Some).collect() };
    let mut failures = BTreeSet::new();
    for auth in auths {
        match context.runtime.pull(image, auth, Some(sandbox.clone())).await {
            Ok(()) => return Ok(()),
            Err(error) => failures.insert(error.message().to_owned()),
        };
    }
    Err(failures.into_iter().collect::<Vec<_>>().join(", "))
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
    fn a_failed_pull_is_told_then_waited_for_then_tried_again() {
        let now = Timestamp::UNIX_EPOCH;
        let retry_at = moment::after(now, FIRST_WAIT);
        let mut pull = Pull::Failed { message: "no route".into(), failures: 1, retry_at, told: false };
        let told = |next| match next {
            Next::Wait(waiting, at) => (waiting.reason, waiting.message, at.as_second()),
            _ => panic!("it must wait"),
        };
        assert_eq!(told(next(Some(&mut pull), now, "a")), ("ErrImagePull".into(), "no route".into(), 1));
        let message = "Back-off pulling image \"a\": ErrImagePull: no route".to_owned();
        assert_eq!(told(next(Some(&mut pull), now, "a")), ("ImagePullBackOff".into(), message, 10));
        assert!(matches!(next(Some(&mut pull), retry_at, "a"), Next::Pull { failures: 1 }));
        let year_before = Timestamp::from_second(-31_536_000).unwrap();
        assert!(
            matches!(next(Some(&mut pull), year_before, "a"), Next::Pull { .. }),
            "the clock was set back"
        );
        assert!(matches!(next(Some(&mut Pull::Running), now, "a"), Next::Pending));
    }
}
