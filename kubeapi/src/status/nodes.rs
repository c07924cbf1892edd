//! Refusals of what is streamed from nodes.

use http::StatusCode;

use super::StatusError;

impl StatusError {
    /// 429: as many streams as there may be.
    pub fn too_many_streams(why: &str) -> Self {
        let message = format!("{why}, which is the limit; close one of them, or try again later");
        let mut error = Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message);
        error.details.insert("retryAfterSeconds".into(), 1.into());
        error
    }

    /// The reason why a node was not reached, or its response.
    pub fn of_node(code: StatusCode, message: impl Into<String>) -> Self {
        let reason = match code {
            StatusCode::BAD_REQUEST => "BadRequest",
            StatusCode::UNAUTHORIZED => "Unauthorized",
            StatusCode::FORBIDDEN => "Forbidden",
            StatusCode::NOT_FOUND => "NotFound",
            StatusCode::METHOD_NOT_ALLOWED => "MethodNotAllowed",
            StatusCode::TOO_MANY_REQUESTS => "TooManyRequests",
            StatusCode::INTERNAL_SERVER_ERROR => "InternalError",
            StatusCode::SERVICE_UNAVAILABLE => "ServiceUnavailable",
            StatusCode::GATEWAY_TIMEOUT => "Timeout",
            _ => "",
        };
        Self::new(code, reason, message)
    }

    /// 503: the proxied server cannot be reached.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::of_node(StatusCode::SERVICE_UNAVAILABLE, message)
    }
}
