//! Refusals of policies and webhooks, and of what takes too long.

use http::StatusCode;
use serde_json::{Map, Value, json};

use super::{REASON, StatusError};
use crate::registry::Kind;

impl StatusError {
    /// What an admission webhook answers: code, reason, text and details.
    pub fn of_webhook(
        code: StatusCode,
        reason: String,
        message: String,
        mut details: Map<String, Value>,
    ) -> Self {
        details.insert(REASON.into(), reason.into());
        Self {
            code,
            reason: "",
            message,
            details,
        }
    }

    /// What an admission policy refuses: 422, or what its reason stands for.
    pub fn of_policy(kind: &Kind, name: &str, reason: &str, why: &str) -> Self {
        let (code, reason) = match reason {
            "Forbidden" => (StatusCode::FORBIDDEN, "Forbidden"),
            "Unauthorized" => (StatusCode::UNAUTHORIZED, "Unauthorized"),
            "RequestEntityTooLarge" => (StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge"),
            _ => (StatusCode::UNPROCESSABLE_ENTITY, "Invalid"),
        };
        let mut error = Self::forbidden(kind, name, why);
        error.code = code;
        error.reason = reason;
        error
            .details
            .insert("causes".into(), json!([{"message": why}]));
        error
    }

    /// 403: a mutating policy cannot be applied; the text alone is the message. `is_invalid`: its expressions are at fault.
    pub fn of_mutating_policy(kind: &Kind, name: &str, is_invalid: bool, whys: &[String]) -> Self {
        let mut error = Self::forbidden(kind, name, "");
        error.message = whys.first().cloned().unwrap_or_default();
        if is_invalid {
            error.reason = "Invalid";
        }
        let causes: Vec<_> = whys.iter().map(|why| json!({"message": why})).collect();
        error.details.insert("causes".into(), causes.into());
        error
    }

    /// The text alone.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// 504: it takes too long.
    pub fn timeout(message: impl Into<String>) -> Self {
        Self::new(
            StatusCode::GATEWAY_TIMEOUT,
            "Timeout",
            format!("Timeout: {}", message.into()),
        )
    }
}
