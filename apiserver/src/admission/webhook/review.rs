//! `AdmissionReview`: the question to a webhook and its answer. Pure.

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::StatusCode;
use serde_json::{Map, Value};

use crate::{
    admission::attributes::Attributes,
    review::{ReviewKind, ReviewVersion},
};
use kubeapi::{
    object::{items, text, text_or_empty},
    registry::Kind,
    status::StatusError,
};

const REVIEW: ReviewKind = ReviewKind {
    group: "admission.k8s.io",
    kind: "AdmissionReview",
    no_response: "webhook response was absent",
};

/// The question.
pub(super) fn question(
    version: ReviewVersion,
    attributes: &Attributes,
    asked: &Kind,
    uid: &str,
) -> Bytes {
    let mut request = attributes.request(asked);
    request.shift_insert(0, "uid".into(), uid.into());
    for part in ["subResource", "requestSubResource", "name", "namespace"] {
        if request.get(part).and_then(Value::as_str) == Some("") {
            request.shift_remove(part);
        }
    }
    request.insert("object".into(), (*attributes.object).clone());
    request.insert("oldObject".into(), (*attributes.old).clone());
    REVIEW.question(version, request)
}

/// The response of a webhook.
#[derive(Debug)]
pub(super) struct AdmissionResponse {
    pub(super) allowed: bool,
    pub(super) warnings: Vec<String>,
    pub(super) patch: Option<Value>,
    status: Value,
}

/// Parses the response to the request `uid`.
///
/// # Errors
/// Why it is none.
pub(super) fn read(
    version: ReviewVersion,
    body: &[u8],
    uid: &str,
    mutates: bool,
) -> Result<AdmissionResponse, String> {
    let response = &REVIEW.response(version, body, uid)?;
    let (written, patch_type) = match (version, text_or_empty(response, "/patch")) {
        (ReviewVersion::V1, written) => (written, text(response, "/patchType")),
        // only one type is possible
        (ReviewVersion::V1Beta1, written) if mutates && !written.is_empty() => {
            (written, Some("JSONPatch"))
        }
        (ReviewVersion::V1Beta1, _) => ("", None),
    };
    let patch = match (mutates, written, patch_type) {
        (_, "", None) => None,
        (false, ..) => return Err("validating webhook may not return response.patch".to_owned()),
        (true, "", Some(_)) => {
            return Err("webhook returned response.patchType but not response.patch".to_owned());
        }
        (true, _, None) => {
            return Err("webhook returned response.patch but not response.patchType".to_owned());
        }
        (true, written, Some("JSONPatch")) => {
            let patch = STANDARD
                .decode(written)
                .map_err(|error| error.to_string())?;
            Some(serde_json::from_slice(&patch).map_err(|error| error.to_string())?)
        }
        (true, _, Some(other)) => {
            return Err(format!(
                "webhook returned invalid response.patchType of {other:?}"
            ));
        }
    };
    let warnings = items(response, "/warnings")
        .iter()
        .filter_map(Value::as_str)
        .map(str::to_owned);
    Ok(AdmissionResponse {
        allowed: response
            .get("allowed")
            .and_then(Value::as_bool)
            .unwrap_or(false),
        warnings: warnings.collect(),
        patch,
        status: response.get("status").cloned().unwrap_or_default(),
    })
}

impl AdmissionResponse {
    /// The refusal of the webhook `name`.
    pub(super) fn refusal(&self, name: &str) -> StatusError {
        let denied = format!("admission webhook {name:?} denied the request");
        let (message, reason) = (
            text_or_empty(&self.status, "/message"),
            text_or_empty(&self.status, "/reason"),
        );
        let message = match (message, reason) {
            ("", "") => format!("{denied} without explanation"),
            ("", reason) => format!("{denied}: {reason}"),
            (message, _) => format!("{denied}: {message}"),
        };
        let code = self
            .status
            .get("code")
            .and_then(Value::as_u64)
            .and_then(|code| u16::try_from(code).ok());
        let code = code
            .filter(|code| *code >= 400)
            .and_then(|code| StatusCode::from_u16(code).ok());
        let details = self
            .status
            .get("details")
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_else(Map::new);
        StatusError::of_webhook(
            code.unwrap_or(StatusCode::BAD_REQUEST),
            reason.to_owned(),
            message,
            details,
        )
    }
}
