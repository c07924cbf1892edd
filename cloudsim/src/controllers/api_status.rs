//! API errors for nodes, in the form of KubeEdge's protocol: a `metav1.Status` without kind and apiVersion; and for users.

use serde_json::{Value, json};

/// Converts the error of a failed call.
pub(super) fn of(error: &kube::Error) -> Value {
    match error {
        kube::Error::Api(status) => {
            let mut status = json!(status);
            if let Some(status) = status.as_object_mut() {
                status.retain(|key, value| {
                    !matches!(key.as_str(), "kind" | "apiVersion") && !value.is_null()
                });
                status.entry("metadata").or_insert_with(|| json!({}));
            }
            status
        }
        other => failure(
            500,
            "InternalError",
            &format!("cannot reach the API: {other}"),
        ),
    }
}

/// Returns the error of a failed call for an event or a condition: of a refusal the message, as controllers of Kubernetes show it.
pub(super) fn text(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// Builds a Status.
pub(super) fn failure(code: u16, reason: &str, message: &str) -> Value {
    json!({"metadata": {}, "status": "Failure", "message": message, "reason": reason, "code": code})
}
