//! The kinds of questions about access: they are asked as objects are created, and never stored.

/// A kind of question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReviewKind {
    /// Whose is this token?
    Token,
    /// Who am I?
    Subject,
    /// May they, in this namespace?
    LocalAccess,
    /// May I?
    OwnAccess,
    /// What may I?
    OwnRules,
    /// May they?
    Access,
}

impl ReviewKind {
    /// All of them, as discovery lists them.
    pub(crate) const ALL: [Self; 6] =
        [Self::Subject, Self::Token, Self::LocalAccess, Self::OwnAccess, Self::OwnRules, Self::Access];

    /// The groups that they stand in, in version `v1`.
    pub(crate) const GROUPS: [&str; 2] = ["authentication.k8s.io", "authorization.k8s.io"];

    /// The questions of a group in a version.
    pub(crate) fn of(group: &str, version: &str) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |review| review.group() == group && version == "v1")
    }

    /// Its API group.
    pub(crate) fn group(self) -> &'static str {
        let [authentication, authorization] = Self::GROUPS;
        if matches!(self, Self::Token | Self::Subject) { authentication } else { authorization }
    }

    /// Its kind.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Token => "TokenReview",
            Self::Subject => "SelfSubjectReview",
            Self::LocalAccess => "LocalSubjectAccessReview",
            Self::OwnAccess => "SelfSubjectAccessReview",
            Self::OwnRules => "SelfSubjectRulesReview",
            Self::Access => "SubjectAccessReview",
        }
    }

    /// Its name in paths.
    pub(crate) fn plural(self) -> &'static str {
        match self {
            Self::Token => "tokenreviews",
            Self::Subject => "selfsubjectreviews",
            Self::LocalAccess => "localsubjectaccessreviews",
            Self::OwnAccess => "selfsubjectaccessreviews",
            Self::OwnRules => "selfsubjectrulesreviews",
            Self::Access => "subjectaccessreviews",
        }
    }

    /// Whether it is asked in a namespace.
    pub(crate) fn namespaced(self) -> bool {
        self == Self::LocalAccess
    }
}
