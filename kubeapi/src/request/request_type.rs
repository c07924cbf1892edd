//! The types of bodies that no collection stores: reviews, options, and what subresources take.

use std::{collections::HashSet, sync::OnceLock};

use crate::{
    registry::{Registry, TypeName},
    request::review_kind::ReviewKind,
    schema::builtin_schema::Schema,
};

/// A type of bodies that no collection stores.
pub struct RequestType {
    name: TypeName<'static>,
    versions: Versions,
    /// The name of its schema.
    schema_name: &'static str,
    /// The schema, compiled at the first use.
    schema: OnceLock<Schema>,
}

/// The `apiVersion`s that a body may name.
enum Versions {
    /// The type's own.
    Own,
    /// The type's own and an older one, whose fields are the same.
    Also(&'static str),
    /// Any: the type is part of all groups.
    Any,
}

macro_rules! request_types {
    ($($(#[$doc:meta])* $name:ident = $group:literal $kind:literal $schema:literal $versions:expr;)*) => {
        $($(#[$doc])*
        pub static $name: RequestType = RequestType {
            name: TypeName { group: $group, version: "v1", kind: $kind },
            versions: $versions,
            schema_name: $schema,
            schema: OnceLock::new(),
        };)*

        /// All of them.
        pub static ALL: &[&RequestType] = &[$(&$name),*];
    };
}

request_types! {
    /// The body of `pods/binding`.
    BINDING = "" "Binding" "io.k8s.api.core.v1.Binding" Versions::Own;
    /// The body of a deletion.
    DELETE_OPTIONS = "" "DeleteOptions" "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions" Versions::Any;
    /// The body of `pods/eviction`.
    EVICTION = "policy" "Eviction" "io.k8s.api.policy.v1.Eviction" Versions::Also("policy/v1beta1");
    /// The body of `scale`.
    SCALE = "autoscaling" "Scale" "io.k8s.api.autoscaling.v1.Scale" Versions::Own;
    /// The body of `serviceaccounts/token`.
    TOKEN_REQUEST = "authentication.k8s.io" "TokenRequest" "io.k8s.api.authentication.v1.TokenRequest" Versions::Own;
    /// The review `SelfSubjectReview`.
    SELF_SUBJECT_REVIEW =
        "authentication.k8s.io" "SelfSubjectReview" "io.k8s.api.authentication.v1.SelfSubjectReview" Versions::Own;
    /// The review `TokenReview`.
    TOKEN_REVIEW = "authentication.k8s.io" "TokenReview" "io.k8s.api.authentication.v1.TokenReview" Versions::Own;
    /// The review `LocalSubjectAccessReview`.
    LOCAL_SUBJECT_ACCESS_REVIEW =
        "authorization.k8s.io" "LocalSubjectAccessReview" "io.k8s.api.authorization.v1.LocalSubjectAccessReview" Versions::Own;
    /// The review `SelfSubjectAccessReview`.
    SELF_SUBJECT_ACCESS_REVIEW =
        "authorization.k8s.io" "SelfSubjectAccessReview" "io.k8s.api.authorization.v1.SelfSubjectAccessReview" Versions::Own;
    /// The review `SelfSubjectRulesReview`.
    SELF_SUBJECT_RULES_REVIEW =
        "authorization.k8s.io" "SelfSubjectRulesReview" "io.k8s.api.authorization.v1.SelfSubjectRulesReview" Versions::Own;
    /// The review `SubjectAccessReview`.
    SUBJECT_ACCESS_REVIEW =
        "authorization.k8s.io" "SubjectAccessReview" "io.k8s.api.authorization.v1.SubjectAccessReview" Versions::Own;
}

impl RequestType {
    /// Returns the type of a review.
    pub fn of_review(review: ReviewKind) -> &'static Self {
        match review {
            ReviewKind::Subject => &SELF_SUBJECT_REVIEW,
            ReviewKind::Token => &TOKEN_REVIEW,
            ReviewKind::LocalAccess => &LOCAL_SUBJECT_ACCESS_REVIEW,
            ReviewKind::OwnAccess => &SELF_SUBJECT_ACCESS_REVIEW,
            ReviewKind::OwnRules => &SELF_SUBJECT_RULES_REVIEW,
            ReviewKind::Access => &SUBJECT_ACCESS_REVIEW,
        }
    }

    /// Returns its group, version and kind.
    pub fn name(&self) -> TypeName<'static> {
        self.name
    }

    /// Returns its schema.
    pub fn schema(&self) -> &Schema {
        self.schema
            .get_or_init(|| Schema::published(self.schema_name))
    }

    /// Returns the name of its schema.
    #[cfg(test)]
    pub fn schema_name(&self) -> &'static str {
        self.schema_name
    }

    /// Reports whether a body with this `apiVersion` is accepted.
    pub fn takes(&self, api_version: &str) -> bool {
        match self.versions {
            Versions::Own => api_version == self.name.api_version(),
            Versions::Also(other) => api_version == other || api_version == self.name.api_version(),
            Versions::Any => true,
        }
    }
}

/// Reports whether Kubernetes has a type of this `apiVersion` and kind, stored or not.
pub fn is_registered(api_version: &str, kind: &str) -> bool {
    static NAMES: OnceLock<HashSet<(String, String)>> = OnceLock::new();
    let names = NAMES.get_or_init(|| {
        let registry = Registry::builtin();
        let stored = registry.kinds().iter().map(|kind| kind.type_name());
        let others = ALL.iter().map(|other| other.name());
        stored
            .chain(others)
            .map(|name| (name.api_version(), name.kind.to_owned()))
            .collect()
    });
    names.contains(&(api_version.to_owned(), kind.to_owned()))
}
