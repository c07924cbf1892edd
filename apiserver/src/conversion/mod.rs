//! Converts objects of defined kinds between versions by the webhook of their definition (`spec.conversion.webhook`).
//!
//! In: objects and the wanted version. Out: as many objects, of which the webhook may have changed all but most metadata. The errors are
//! those of kube-apiserver. Objects of a list are sent together.

use std::time::Duration;

use kubeapi::{
    object::{conversion::ConversionRequest, text_or_empty},
    status::StatusError,
};
use serde_json::Value;

use crate::{
    Server,
    admission::{WebhookCall, webhook::endpoint},
    review::ReviewVersion,
};

mod review;

/// How long a webhook may take for one review.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The most objects in one review.
const MAX_OBJECTS: usize = 500;

/// The size of the objects in one review, in bytes. A single object may be larger.
const MAX_BYTES: usize = 2 * 1024 * 1024;

/// Converts `objects`, none of which is in the wanted version.
///
/// # Errors
/// 500 with the reason of the webhook, or why it did not convert them.
pub(crate) async fn convert(
    api: &Server,
    request: ConversionRequest<'_>,
    objects: Vec<Value>,
) -> Result<Vec<Value>, StatusError> {
    let mut converted = Vec::with_capacity(objects.len());
    let mut rest = objects.as_slice();
    while !rest.is_empty() {
        let (batch, after) = rest.split_at(batch_size(rest));
        converted.extend(convert_batch(api, request, batch).await?);
        rest = after;
    }
    Ok(converted)
}

/// Returns the number of objects at the start of `objects` that are sent together.
fn batch_size(objects: &[Value]) -> usize {
    let mut bytes = 0;
    let fitting = objects.iter().take(MAX_OBJECTS).take_while(|object| {
        bytes += object.to_string().len();
        bytes <= MAX_BYTES
    });
    fitting.count().max(1)
}

async fn convert_batch(
    api: &Server,
    request: ConversionRequest<'_>,
    objects: &[Value],
) -> Result<Vec<Value>, StatusError> {
    let wanted = request.api_version;
    let first = objects
        .first()
        .map_or("", |object| text_or_empty(object, "/apiVersion"));
    let kind = &request.kind.kind;
    let about = format!("conversion webhook for {first}, Kind={kind}");
    let failed = |why: String| StatusError::unexpected(format!("{about} failed: {why}"));
    let answer = call_webhook(api, request, objects).await.map_err(failed)?;
    if answer.len() != objects.len() {
        return Err(StatusError::unexpected(format!(
            "{about} returned {} objects, expected {}",
            answer.len(),
            objects.len()
        )));
    }
    let mut converted = Vec::with_capacity(objects.len());
    for (index, (original, object)) in objects.iter().zip(answer).enumerate() {
        let index = (objects.len() > 1).then_some(index);
        let object = review::accept(original, object, wanted).map_err(|fault| {
            StatusError::unexpected(format!("{about} returned {}", fault.describe(index)))
        })?;
        converted.push(object);
    }
    Ok(converted)
}

/// Returns the objects in the answer of the webhook.
async fn call_webhook(
    api: &Server,
    request: ConversionRequest<'_>,
    objects: &[Value],
) -> Result<Vec<Value>, String> {
    let conversion = request.defined.spec().conversion.as_ref();
    let webhook = conversion
        .and_then(|conversion| conversion.webhook.as_ref())
        .ok_or("the definition names no webhook")?;
    let versions = webhook
        .conversion_review_versions
        .iter()
        .map(String::as_str);
    let version =
        ReviewVersion::first_known(versions).ok_or("no supported conversion review versions")?;
    let client = serde_json::to_value(&webhook.client_config).map_err(|error| error.to_string())?;
    let endpoint = endpoint::find(api, &client, TIMEOUT.as_secs()).await?;
    let uid = clock::uuid().to_string();
    let call = WebhookCall {
        url: endpoint.url,
        addresses: endpoint.addresses,
        ca_bundle: endpoint.ca_bundle,
        body: review::question(version, &uid, request.api_version, objects),
        timeout: TIMEOUT,
    };
    let answer = api.webhooks().call(call).await?;
    review::read(version, &answer, &uid)
}
