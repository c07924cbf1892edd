//! The review kinds (`SubjectAccessReview`, `TokenReview` and so on), which are created as objects and never stored.

/// A review kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewKind {
    /// `TokenReview`: whose is this token?
    Token,
    /// `SelfSubjectReview`: who am I?
    Subject,
    /// `LocalSubjectAccessReview`: may a user do this in this namespace?
    LocalAccess,
    /// `SelfSubjectAccessReview`: may I do this?
    OwnAccess,
    /// `SelfSubjectRulesReview`: what may I do?
    OwnRules,
    /// `SubjectAccessReview`: may a user do this?
    Access,
}

impl ReviewKind {
    /// All review kinds, in the order of discovery.
    pub const ALL: [Self; 6] = [
        Self::Subject,
        Self::Token,
        Self::LocalAccess,
        Self::OwnAccess,
        Self::OwnRules,
        Self::Access,
    ];

    /// The API groups of review kinds, all in version `v1`.
    pub const GROUPS: [&str; 2] = ["authentication.k8s.io", "authorization.k8s.io"];

    /// Returns the review kinds of a group and version.
    pub fn of(group: &str, version: &str) -> impl Iterator<Item = Self> {
        Self::ALL
            .into_iter()
            .filter(move |review| review.group() == group && version == "v1")
    }

    /// Returns the API group.
    pub fn group(self) -> &'static str {
        let [authentication, authorization] = Self::GROUPS;
        if matches!(self, Self::Token | Self::Subject) {
            authentication
        } else {
            authorization
        }
    }

    /// Returns the kind.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Token => "TokenReview",
            Self::Subject => "SelfSubjectReview",
            Self::LocalAccess => "LocalSubjectAccessReview",
            Self::OwnAccess => "SelfSubjectAccessReview",
            Self::OwnRules => "SelfSubjectRulesReview",
            Self::Access => "SubjectAccessReview",
        }
    }

    /// Returns the plural, the name in paths.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Token => "tokenreviews",
            Self::Subject => "selfsubjectreviews",
            Self::LocalAccess => "localsubjectaccessreviews",
            Self::OwnAccess => "selfsubjectaccessreviews",
            Self::OwnRules => "selfsubjectrulesreviews",
            Self::Access => "subjectaccessreviews",
        }
    }

    /// Reports whether the kind is namespaced.
    pub fn is_namespaced(self) -> bool {
        self == Self::LocalAccess
    }
}
