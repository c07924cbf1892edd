//! The form that all reviews by webhooks have, such as `AdmissionReview` and `ConversionReview`. Pure.

use bytes::Bytes;
use kubeapi::object::text_or_empty;
use serde_json::{Value, json};

/// A kind of review.
pub(crate) struct ReviewKind {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    /// The message about a review without a response.
    pub(crate) no_response: &'static str,
}

impl ReviewKind {
    /// Returns the body of a question.
    pub(crate) fn question(&self, request: impl Into<Value>) -> Bytes {
        let request: Value = request.into();
        let (kind, api_version) = (self.kind, self.api_version);
        Bytes::from(
            json!({"kind": kind, "apiVersion": api_version, "request": request}).to_string(),
        )
    }

    /// Returns the response to the question `uid` in the body of an answer.
    ///
    /// # Errors
    /// Why it is none.
    pub(crate) fn response(&self, body: &[u8], uid: &str) -> Result<Value, String> {
        let mut review: Value = serde_json::from_slice(body)
            .map_err(|error| format!("couldn't get version/kind; json parse error: {error}"))?;
        let found = ["/apiVersion", "/kind"].map(|field| text_or_empty(&review, field));
        let [api_version, kind] = found;
        if found != [self.api_version, self.kind] {
            return Err(format!(
                "expected webhook response of {}, Kind={}, got {api_version}, Kind={kind}",
                self.api_version, self.kind
            ));
        }
        let response = review.get_mut("response").map(Value::take);
        let response = response.filter(Value::is_object).ok_or(self.no_response)?;
        let found = text_or_empty(&response, "/uid");
        if found != uid {
            return Err(format!("expected response.uid={uid:?}, got {found:?}"));
        }
        Ok(response)
    }
}
