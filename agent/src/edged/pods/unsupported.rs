//! What the specification asks for and this node does not do, see [`crate::edged::fields`].

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};

use super::context::Context;
use crate::edged::{
    convert,
    fields::{self, Refused, Scope},
};

/// Why the pod gets no sandbox.
pub(super) async fn in_pod(context: &Context, pod: &Pod) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    // Containers and volumes have rules of their own, and are named in their messages.
    let own = PodSpec { containers: Vec::new(), init_containers: None, volumes: None, ..spec.clone() };
    if let Some(why) = first(context, fields::refused(Scope::Pod, &own)).await {
        return Some(why);
    }
    convert::check_hostname(pod, &context.node.dns.domain).err()
}

/// Why the container is not made.
pub(super) async fn in_container(context: &Context, container: &Container) -> Option<String> {
    first(context, fields::refused(Scope::Container, container)).await
}

/// The first that the runtime cannot do either.
async fn first(context: &Context, all: Vec<Refused>) -> Option<String> {
    for Refused { message, unless } in all {
        let can = match unless {
            Some(ability) => context.runtime.can(ability).await,
            None => false,
        };
        if !can {
            return Some(message);
        }
    }
    None
}
