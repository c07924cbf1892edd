//! Authorization checks that expressions build step by step.

use std::{fmt, sync::Arc};

/// Decides whether access is granted, and why.
pub(crate) trait Authorize: Send + Sync {
    /// Returns why access is granted, or `None` where it is not; fails where it cannot be decided.
    fn authorize(&self, question: &AuthorizationAttributes) -> Result<Option<String>, String>;
}

/// The attributes of an access check.
#[derive(Clone, Debug, Default)]
pub(crate) struct AuthorizationAttributes {
    /// The service account that is checked in place of the caller: its namespace and name.
    pub(crate) account: Option<(String, String)>,
    pub(crate) path: Option<String>,
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) verb: String,
}

impl AuthorizationAttributes {
    /// Returns the length of all texts in bytes.
    fn length(&self) -> usize {
        let account = self
            .account
            .as_ref()
            .map_or(0, |(namespace, name)| namespace.len() + name.len());
        let texts = [
            &self.group,
            &self.resource,
            &self.subresource,
            &self.namespace,
            &self.name,
            &self.verb,
        ];
        account
            + self.path.as_ref().map_or(0, String::len)
            + texts.iter().map(|text| text.len()).sum::<usize>()
    }
}

/// The stage of a check under construction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Authorizer,
    Path,
    Group,
    Resource,
}

/// An authorization check, or its decision.
#[derive(Clone)]
pub(crate) enum Check {
    Asking(Arc<dyn Authorize>, Stage, Box<AuthorizationAttributes>),
    Answered(Result<Option<String>, String>),
}

impl Check {
    pub(crate) fn authorizer(who: Arc<dyn Authorize>) -> Self {
        Self::Asking(who, Stage::Authorizer, Box::default())
    }

    /// Makes a check of the resource of a request.
    pub(crate) fn resource(who: Arc<dyn Authorize>, question: AuthorizationAttributes) -> Self {
        Self::Asking(who, Stage::Resource, Box::new(question))
    }

    /// Returns the length of its texts in bytes, which each step copies.
    pub(super) fn length(&self) -> usize {
        match self {
            Self::Asking(_, _, question) => question.length(),
            Self::Answered(Ok(reason)) => reason.as_ref().map_or(0, String::len),
            Self::Answered(Err(why)) => why.len(),
        }
    }

    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Asking(_, Stage::Authorizer, _) => "kubernetes.authorization.Authorizer",
            Self::Asking(_, Stage::Path, _) => "kubernetes.authorization.PathCheck",
            Self::Asking(_, Stage::Group, _) => "kubernetes.authorization.GroupCheck",
            Self::Asking(_, Stage::Resource, _) => "kubernetes.authorization.ResourceCheck",
            Self::Answered(_) => "kubernetes.authorization.Decision",
        }
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.type_name())
    }
}
