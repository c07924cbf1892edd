//! The questions that callers put about themselves: who am I, may I do this, what may I do.
//!
//! Source: Kubernetes' `authentication.k8s.io/v1` and `authorization.k8s.io/v1`.

use serde_json::{Value, json};

use super::Target;

/// A kind of question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelfReview {
    /// Who am I?
    Subject,
    /// May I do this?
    Access,
    /// What may I do?
    Rules,
}

impl SelfReview {
    /// The question that is asked by creating an object in this collection, in any version.
    pub fn of(target: &Target) -> Option<Self> {
        match (target.group.as_str(), target.plural.as_str()) {
            ("authentication.k8s.io", "selfsubjectreviews") => Some(Self::Subject),
            ("authorization.k8s.io", "selfsubjectaccessreviews") => Some(Self::Access),
            ("authorization.k8s.io", "selfsubjectrulesreviews") => Some(Self::Rules),
            _ => None,
        }
    }

    /// The object that answers it: `spec` is the question's, which that of who one is does not have.
    pub fn answered(self, version: &str, spec: &Value, status: &Value) -> Value {
        let (group, kind) = match self {
            Self::Subject => ("authentication.k8s.io", "SelfSubjectReview"),
            Self::Access => ("authorization.k8s.io", "SelfSubjectAccessReview"),
            Self::Rules => ("authorization.k8s.io", "SelfSubjectRulesReview"),
        };
        let version = format!("{group}/{version}");
        let mut answer = json!({"kind": kind, "apiVersion": version, "metadata": {}, "status": status});
        if self != Self::Subject {
            answer["spec"] = spec.clone();
        }
        answer
    }
}
