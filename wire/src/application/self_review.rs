//! Self reviews: requests in which callers ask who they are and what they may do.
//!
//! Source: Kubernetes' `authentication.k8s.io/v1` and `authorization.k8s.io/v1`.

use serde_json::{Value, json};

use super::Target;

/// A kind of self review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelfReview {
    /// `SelfSubjectReview`: who am I?
    Subject,
    /// `SelfSubjectAccessReview`: may I do this?
    Access,
    /// `SelfSubjectRulesReview`: what may I do?
    Rules,
}

impl SelfReview {
    /// Returns the review that is requested by creating an object in this collection, in any version.
    pub fn of(target: &Target) -> Option<Self> {
        match (target.group.as_str(), target.plural.as_str()) {
            ("authentication.k8s.io", "selfsubjectreviews") => Some(Self::Subject),
            ("authorization.k8s.io", "selfsubjectaccessreviews") => Some(Self::Access),
            ("authorization.k8s.io", "selfsubjectrulesreviews") => Some(Self::Rules),
            _ => None,
        }
    }

    /// Returns the object that answers the review. `spec` is copied from the request, except for [`Self::Subject`], which has none.
    pub fn into_answer(self, version: &str, spec: &Value, status: &Value) -> Value {
        let (group, kind) = match self {
            Self::Subject => ("authentication.k8s.io", "SelfSubjectReview"),
            Self::Access => ("authorization.k8s.io", "SelfSubjectAccessReview"),
            Self::Rules => ("authorization.k8s.io", "SelfSubjectRulesReview"),
        };
        let version = format!("{group}/{version}");
        let mut answer =
            json!({"kind": kind, "apiVersion": version, "metadata": {}, "status": status});
        if self != Self::Subject {
            answer["spec"] = spec.clone();
        }
        answer
    }
}
