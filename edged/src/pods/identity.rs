//! The names of a pod in paths and URLs.

use k8s_openapi::api::core::v1::Pod;
use wire::names::is_path_component;

use super::error::Error;

/// The pod's namespace, name and uid, all of them valid as parts of paths and URLs.
pub(super) struct Identity<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) uid: &'a str,
}

impl<'a> Identity<'a> {
    /// Returns the identity of the pod, or an error if a part is invalid.
    pub(super) fn of(pod: &'a Pod) -> Result<Self, Error> {
        let text = |field: &'a Option<String>| {
            field
                .as_deref()
                .filter(|text| is_path_component(text))
                .ok_or(Error::Identity)
        };
        let meta = &pod.metadata;
        Ok(Self {
            namespace: text(&meta.namespace)?,
            name: text(&meta.name)?,
            uid: text(&meta.uid)?,
        })
    }
}
