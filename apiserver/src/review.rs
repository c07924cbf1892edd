//! The form that all reviews by webhooks have, such as `AdmissionReview` and `ConversionReview`. Pure.

use bytes::Bytes;
use kubeapi::object::text_or_empty;
use serde_json::{Value, json};

/// The versions of reviews. `v1beta1` is written as `v1` is, and its answers are checked less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReviewVersion {
    V1,
    V1Beta1,
}

impl ReviewVersion {
    /// Returns the first known version of a webhook's list.
    pub(crate) fn first_known<'a>(versions: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        versions.into_iter().find_map(|version| match version {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1Beta1),
            _ => None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1Beta1 => "v1beta1",
        }
    }
}

/// A kind of review.
pub(crate) struct ReviewKind {
    pub(crate) group: &'static str,
    pub(crate) kind: &'static str,
    /// The message about a review without a response.
    pub(crate) no_response: &'static str,
}

impl ReviewKind {
    fn api_version(&self, version: ReviewVersion) -> String {
        format!("{}/{}", self.group, version.name())
    }

    /// Returns the body of a question.
    pub(crate) fn question(&self, version: ReviewVersion, request: impl Into<Value>) -> Bytes {
        let request: Value = request.into();
        let (kind, api_version) = (self.kind, self.api_version(version));
        Bytes::from(
            json!({"kind": kind, "apiVersion": api_version, "request": request}).to_string(),
        )
    }

    /// Returns the response to the question `uid` in the body of an answer.
    ///
    /// # Errors
    /// Why it is none.
    pub(crate) fn response(
        &self,
        version: ReviewVersion,
        body: &[u8],
        uid: &str,
    ) -> Result<Value, String> {
        let mut review: Value = serde_json::from_slice(body)
            .map_err(|error| format!("couldn't get version/kind; json parse error: {error}"))?;
        let found = ["/apiVersion", "/kind"].map(|field| text_or_empty(&review, field));
        let ([api_version, kind], expected) = (found, self.api_version(version));
        if version == ReviewVersion::V1 && found != [expected.as_str(), self.kind] {
            return Err(format!(
                "expected webhook response of {expected}, Kind={}, got {api_version}, Kind={kind}",
                self.kind
            ));
        }
        let response = review.get_mut("response").map(Value::take);
        let response = response.filter(Value::is_object).ok_or(self.no_response)?;
        let found = text_or_empty(&response, "/uid");
        if version == ReviewVersion::V1 && found != uid {
            return Err(format!("expected response.uid={uid:?}, got {found:?}"));
        }
        Ok(response)
    }
}
