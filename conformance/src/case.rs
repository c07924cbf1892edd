//! A test case, and the macro for tables of them.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde::Serialize;

use crate::Failure;

/// How much of KubeEdge a case belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// What KubeEdge does with its default configuration.
    Core,
    /// What has to be enabled in KubeEdge, or what KubeEdge promises and does not do in all versions.
    Extended,
}

/// The description of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaseInfo {
    /// `group.name`, unique.
    pub id: &'static str,
    /// The profile.
    pub profile: Profile,
    /// What is expected, one sentence.
    pub title: &'static str,
    /// The page or file of KubeEdge that says so.
    pub source: &'static str,
}

/// A case for a target of type `T`.
pub struct Case<T> {
    /// Its description.
    pub info: CaseInfo,
    /// The test.
    pub run: fn(Arc<T>) -> BoxFuture<'static, Result<(), Failure>>,
}

/// Makes a table of cases. One row: function, id, profile, title, source.
macro_rules! cases {
    ($target:ty: $($function:path, $id:literal, $profile:ident, $title:literal, $source:literal;)+) => {
        &[$($crate::Case::<$target> {
            info: $crate::CaseInfo {
                id: $id,
                profile: $crate::Profile::$profile,
                title: $title,
                source: $source,
            },
            run: |target| Box::pin($function(target)),
        },)+]
    };
}

pub(crate) use cases;
