//! Checks for fields that the pod sets and this node does not support, see [`crate::fields`].

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};

use super::context::Context;
use crate::{
    convert,
    fields::{self, RefusedField, Scope},
};

/// Returns why the pod cannot have a sandbox.
pub(super) async fn in_pod(context: &Context, pod: &Pod) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    // Containers and volumes have rules of their own and are named in their messages.
    let own = PodSpec {
        containers: Vec::new(),
        init_containers: None,
        volumes: None,
        ..spec.clone()
    };
    if let Some(why) = first_refused(context, fields::refused_fields(Scope::Pod, &own)).await {
        return Some(why);
    }
    convert::check_hostname(pod, &context.node.dns.domain).err()
}

/// Returns why the container cannot be created.
pub(super) async fn in_container(context: &Context, container: &Container) -> Option<String> {
    first_refused(context, fields::refused_fields(Scope::Container, container)).await
}

/// Returns the message of the first refused field that no feature of the runtime permits.
async fn first_refused(context: &Context, all: Vec<RefusedField>) -> Option<String> {
    for RefusedField {
        message,
        required_feature,
    } in all
    {
        let is_supported = match required_feature {
            Some(feature) => context.runtime.supports(feature).await,
            None => false,
        };
        if !is_supported {
            return Some(message);
        }
    }
    None
}
