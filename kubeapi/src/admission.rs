//! Rules that need other objects than the one that is written, given to the API by whoever builds it.

use std::fmt;

use async_trait::async_trait;
use serde_json::Value;

use crate::{
    Api,
    path::Target,
    status::{Cause, StatusError},
    store::{Store, StoreError},
    verbs::stored_form,
};

/// A write that is about to take place.
#[derive(Debug)]
pub struct Review<'a> {
    /// The API group.
    pub group: &'a str,
    /// The kind, whose objects are reviewed in the version in which they are stored.
    pub kind: &'a str,
    /// Empty for kinds without.
    pub namespace: &'a str,
    /// What stands; `None` for something new.
    pub old: Option<&'a Value>,
    /// What is to stand.
    pub new: &'a Value,
    /// The other objects.
    pub store: &'a dyn Store,
}

/// A field that is wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Objection {
    /// Where it stands: `spec.properties[0].name`.
    pub field: String,
    /// What stands there.
    pub value: Value,
    /// What is wrong with it.
    pub why: String,
}

/// Says what stands against a write.
#[async_trait]
pub trait Admission: Send + Sync + fmt::Debug + 'static {
    /// Nothing, or each field that is wrong.
    async fn review(&self, review: Review<'_>) -> Result<Vec<Objection>, StoreError>;
}

/// 422 where something stands against it. Statuses and other parts are not asked about.
pub(crate) async fn check(
    api: &Api,
    target: &Target,
    old: Option<&Value>,
    new: &Value,
) -> Result<(), StatusError> {
    let Some(admission) = api.admission().filter(|_| api.is_full() && target.part.is_none()) else {
        return Ok(());
    };
    let kind = &target.kind;
    // whoever reviews knows one version, that in which objects are stored
    let (old, new) = (old.map(|old| stored_form(kind, old)), stored_form(kind, new));
    let review = Review {
        group: &kind.group,
        kind: &kind.kind,
        namespace: &target.namespace,
        old: old.as_deref(),
        new: &new,
        store: &**api.store(),
    };
    let objections = admission.review(review).await?;
    let causes: Vec<_> =
        objections.into_iter().map(|it| Cause::invalid(it.field, &it.value, &it.why)).collect();
    if causes.is_empty() {
        return Ok(());
    }
    Err(StatusError::invalid(&kind.group, &kind.kind, &target.name, causes))
}
