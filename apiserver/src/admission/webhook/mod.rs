//! Calls validating and mutating admission webhooks.

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use serde_json::Value;
use tokio::time::Instant;

use super::{
    attributes::Attributes, authorizer::authorizer, conditions, configuration::Webhook,
    matching::matches, variables::ExpressionInput,
};
use crate::{Server, blocking, review::ReviewVersion};
use kubeapi::{
    object::{items, text_or_empty},
    patch,
    request::call::Call,
    status::StatusError,
};

pub(crate) mod endpoint;
mod review;
pub(crate) mod transport;
mod verifier;

use review::AdmissionResponse;
use transport::WebhookCall;

/// The default timeout of a webhook in seconds.
const TIMEOUT: u64 = 10;

/// Why a webhook did not allow a request.
enum WebhookError {
    /// The webhook denied it, or cannot handle such a request.
    Denied(StatusError),
    /// The call failed.
    Failed(String),
}

/// Returns the request in the version that this webhook wants; `None` where it does not match.
async fn matching_attributes(
    api: &Server,
    webhook: &Webhook,
    asked: &Attributes,
    namespace: &Arc<Value>,
) -> Result<Option<Attributes>, StatusError> {
    let registry = api.registry();
    let place = (
        &registry,
        Some(&**namespace).filter(|namespace| namespace.is_object()),
    );
    let version = match matches(&webhook.spec, "rules", asked, place) {
        Ok(Some(version)) if webhook.spec.get("rules").is_some() => version,
        Ok(_) => return Ok(None),
        Err(why) => return Err(StatusError::internal(why)),
    };
    let seen = asked.in_version(api, &version).await?;
    if webhook.conditions.is_empty() && webhook.fault.is_none() {
        return Ok(Some(seen));
    }
    let held = match &webhook.fault {
        Some(why) => Err(why.clone()),
        None => {
            let input =
                ExpressionInput::new(authorizer(api, &seen.caller), &seen, &asked.kind, namespace);
            let conditions = Arc::clone(&webhook.conditions);
            blocking::run(move || conditions::hold(&conditions, &input)).await?
        }
    };
    match held {
        Ok(true) => Ok(Some(seen)),
        Ok(false) => Ok(None),
        Err(_) if webhook.fails_open() => Ok(None),
        Err(why) => Err(StatusError::forbidden(&asked.kind, &asked.name, &why)),
    }
}

impl Webhook {
    async fn call_webhook(
        &self,
        api: &Server,
        call: &Call,
        seen: &Attributes,
        asked: &Attributes,
        mutates: bool,
    ) -> Result<AdmissionResponse, WebhookError> {
        if asked.dry_run
            && !matches!(
                text_or_empty(&self.spec, "/sideEffects"),
                "None" | "NoneOnDryRun"
            )
        {
            let why = format!("admission webhook {:?} does not support dry run", self.name);
            return Err(WebhookError::Denied(StatusError::bad_request(why)));
        }
        let late = || {
            WebhookError::Denied(StatusError::timeout(
                "request did not complete within requested timeout",
            ))
        };
        let left = call.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(late());
        }
        let seconds = self
            .spec
            .get("timeoutSeconds")
            .and_then(Value::as_u64)
            .unwrap_or(TIMEOUT)
            .clamp(1, 30);
        let nothing = Value::Null;
        let client = self.spec.get("clientConfig").unwrap_or(&nothing);
        let endpoint = endpoint::find(api, client, seconds)
            .await
            .map_err(|why| WebhookError::Failed(format!("failed to call webhook: {why}")))?;
        let uid = clock::uuid().to_string();
        let versions = items(&self.spec, "/admissionReviewVersions");
        let version = ReviewVersion::first_known(versions.iter().filter_map(Value::as_str))
            .unwrap_or(ReviewVersion::V1);
        let body = review::question(version, seen, &asked.kind, &uid);
        let endpoint::Endpoint {
            url,
            addresses,
            ca_bundle,
        } = endpoint;
        let timeout = Duration::from_secs(seconds).min(left);
        let answer = api
            .webhooks()
            .call(WebhookCall {
                url,
                addresses,
                ca_bundle,
                body,
                timeout,
            })
            .await
            .map_err(|why| match Instant::now() >= call.deadline {
                true => late(),
                false => WebhookError::Failed(format!("failed to call webhook: {why}")),
            })?;
        let answer = review::read(version, &answer, &uid, mutates).map_err(|why| {
            WebhookError::Failed(format!("received invalid webhook response: {why}"))
        })?;
        answer
            .warnings
            .iter()
            .for_each(|warning| call.warnings.add(warning.clone()));
        if answer.allowed {
            Ok(answer)
        } else {
            Err(WebhookError::Denied(answer.refusal(&self.name)))
        }
    }

    /// What comes of a refusal: nothing, where the webhook could not be asked and that does not matter.
    fn handle_refusal(&self, refused: WebhookError) -> Result<(), StatusError> {
        match refused {
            WebhookError::Denied(error) => Err(error),
            WebhookError::Failed(why) if self.fails_open() => {
                tracing::warn!(
                    webhook = self.name,
                    error = why,
                    "failed to call webhook; skipped (failurePolicy: Ignore)"
                );
                Ok(())
            }
            WebhookError::Failed(why) => Err(StatusError::internal(format!(
                "failed calling webhook {:?}: {why}",
                self.name
            ))),
        }
    }
}

/// Asks the validating webhooks, all at once; the first refusal is answered.
pub(super) async fn validate(
    api: &Server,
    call: &Call,
    webhooks: &[Webhook],
    asked: &Attributes,
    namespace: &Arc<Value>,
) -> Result<(), StatusError> {
    let mut concerned_ones = Vec::new();
    for webhook in webhooks {
        if let Some(seen) = matching_attributes(api, webhook, asked, namespace).await? {
            concerned_ones.push((webhook, seen));
        }
    }
    let answers = concerned_ones.iter().map(|(webhook, seen)| async move {
        match webhook.call_webhook(api, call, seen, asked, false).await {
            Ok(_) => Ok(()),
            Err(refused) => webhook.handle_refusal(refused),
        }
    });
    join_all(answers).await.into_iter().collect()
}

/// The webhooks that were asked, by index, and the objects that they returned.
pub(super) type Asked = Vec<(usize, Arc<Value>)>;

/// Asks the mutating webhooks one after the other, each about what the one before made of it.
pub(super) async fn mutate(
    api: &Server,
    call: &Call,
    webhooks: &[Webhook],
    asked: &mut Attributes,
    namespace: &Arc<Value>,
) -> Result<Asked, StatusError> {
    let mut seen_last = Vec::new();
    for (index, webhook) in webhooks.iter().enumerate() {
        if let Some(object) = call_mutating(api, call, webhook, asked, namespace).await? {
            asked.object = object;
            seen_last.push((index, Arc::clone(&asked.object)));
        }
    }
    Ok(seen_last)
}

/// Asks those that want to once more about what others changed after them.
pub(super) async fn mutate_again(
    api: &Server,
    call: &Call,
    webhooks: &[Webhook],
    (seen_last, asked): (Asked, &mut Attributes),
    namespace: &Arc<Value>,
) -> Result<(), StatusError> {
    for (index, last) in seen_last {
        let Some(webhook) = webhooks.get(index) else {
            continue;
        };
        if webhook.is_asked_again()
            && last != asked.object
            && let Some(object) = call_mutating(api, call, webhook, asked, namespace).await?
        {
            asked.object = object;
        }
    }
    Ok(())
}

/// What the webhook makes of the object; `None` where it was not asked.
async fn call_mutating(
    api: &Server,
    call: &Call,
    webhook: &Webhook,
    asked: &Attributes,
    namespace: &Arc<Value>,
) -> Result<Option<Arc<Value>>, StatusError> {
    let Some(seen) = matching_attributes(api, webhook, asked, namespace).await? else {
        return Ok(None);
    };
    let answer = match webhook.call_webhook(api, call, &seen, asked, true).await {
        Ok(answer) => answer,
        Err(refused) => {
            webhook.handle_refusal(refused)?;
            return Ok(None);
        }
    };
    let Some(operations) = answer.patch else {
        return Ok(Some(Arc::clone(&asked.object)));
    };
    let wrong = |why: String| {
        StatusError::internal(format!("failed calling webhook {:?}: {why}", webhook.name))
    };
    if asked.object.is_null() {
        let why = format!(
            "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
            webhook.name
        );
        return Err(StatusError::internal(why));
    }
    let object = patch::json(&seen.object, &operations).map_err(|error| wrong(error.reason()))?;
    let patched = Attributes {
        object: Arc::new(object),
        ..seen
    };
    let own = super::attributes::Version {
        kind: Arc::clone(&asked.kind),
    };
    Ok(Some(patched.in_version(api, &own).await?.object))
}
