//! What a pod is called in paths and URLs.

use k8s_openapi::api::core::v1::Pod;

use super::error::Error;
use crate::component::is_component;

/// The pod's namespace, name and uid, each of which can be part of paths and URLs.
pub(super) struct Identity<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) uid: &'a str,
}

impl<'a> Identity<'a> {
    /// The identity of the pod, if it has one that a pod can have.
    pub(super) fn of(pod: &'a Pod) -> Result<Self, Error> {
        let text = |field: &'a Option<String>| {
            field.as_deref().filter(|text| is_component(text)).ok_or(Error::Identity)
        };
        let meta = &pod.metadata;
        Ok(Self { namespace: text(&meta.namespace)?, name: text(&meta.name)?, uid: text(&meta.uid)? })
    }
}
