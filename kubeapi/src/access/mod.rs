//! Who calls, and what the caller may do: in · a request and the place that it names; out · an [`Identity`] that may, or a refusal.

use http::request::Parts;

use crate::{
    Api, Identity,
    path::{Place, Target},
    query::Query,
    status::StatusError,
};

mod aggregate;
mod caller;
mod escalation;
mod policy;
mod review;
mod roles;
mod rules;
mod signers;
mod tokens;

pub(crate) use aggregate::refresh as aggregate;
pub(crate) use escalation::check as check_escalation;
pub(crate) use policy::{Policy, ready};
pub(crate) use review::{Review, answer as review};
pub use rules::rule_allows;
pub(crate) use signers::check as check_signer;

/// The group of the nodes, who have CloudHub and no business here.
const NODES: &str = "system:nodes";

/// What a request wants, as access rules name it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) verb: String,
    pub(crate) group: String,
    /// As in `pods` or `pods/log`.
    pub(crate) resource: String,
    /// Empty at the cluster's scope.
    pub(crate) namespace: String,
    /// Empty for collections.
    pub(crate) name: String,
    /// Only for what is no object's.
    pub(crate) path: Option<String>,
}

impl Attributes {
    /// Of a request on objects.
    fn of_objects(verb: &str, target: &Target) -> Self {
        let Target { kind, namespace, name, part } = target;
        let resource =
            part.map_or_else(|| kind.plural.clone(), |part| format!("{}/{}", kind.plural, part.name()));
        // a namespace stands in itself
        let own = kind.group.is_empty() && kind.plural == "namespaces";
        Self {
            verb: verb.to_owned(),
            group: kind.group.clone(),
            resource,
            namespace: if own { name.clone() } else { namespace.clone() },
            name: name.clone(),
            path: None,
        }
    }

    fn of_path(verb: &str, path: &str) -> Self {
        Self { verb: verb.to_lowercase(), path: Some(path.to_owned()), ..Self::default() }
    }

    fn of(parts: &Parts, place: &Place) -> Self {
        match place {
            Place::Objects(target) => Self::of_objects(verb(parts, target), target),
            Place::Review(review, namespace) => Self {
                verb: "create".to_owned(),
                group: review.group().to_owned(),
                resource: review.plural().to_owned(),
                namespace: namespace.clone(),
                ..Self::default()
            },
            _ => Self::of_path(parts.method.as_str(), parts.uri.path()),
        }
    }
}

/// The caller of a request that may do what it asks for.
pub(crate) async fn admit(api: &Api, parts: &Parts, place: &Place) -> Result<Identity, StatusError> {
    let caller = caller::of(api, parts).await?;
    if caller.is_master() {
        return Ok(caller);
    }
    let wanted = Attributes::of(parts, place);
    if asks_about_itself(api, &caller, place) {
        return Ok(caller);
    }
    if decide(api, &caller, &wanted).await?.is_none() {
        return Err(StatusError::denied(&caller.user, &wanted));
    }
    if is_streaming_get(&wanted, parts.headers.contains_key(http::header::UPGRADE)) {
        // a GET that is upgraded to a WebSocket does as much as a POST
        let wanted = Attributes { verb: "create".to_owned(), ..wanted };
        if decide(api, &caller, &wanted).await?.is_none() {
            return Err(StatusError::denied(&caller.user, &wanted));
        }
    }
    Ok(caller)
}

/// Whether this is what a WebSocket's request for a stream into a pod is; through `nodes/proxy` only what is upgraded.
fn is_streaming_get(wanted: &Attributes, is_upgrade: bool) -> bool {
    let is_stream = match wanted.resource.as_str() {
        "pods/exec" | "pods/attach" | "pods/portforward" => true,
        "nodes/proxy" => is_upgrade,
        _ => false,
    };
    is_stream && wanted.group.is_empty() && wanted.verb == "get"
}

/// Who am I, and what may I do: where roles are not in force nobody else could be allowed to ask, and the answer is that
/// they may do nothing.
fn asks_about_itself(api: &Api, caller: &Identity, place: &Place) -> bool {
    let own = matches!(place, Place::Review(Review::Subject | Review::OwnAccess | Review::OwnRules, _));
    own && !api.enforces_rbac() && !is_node(caller)
}

/// Why `caller` may do this; `None` if not.
async fn decide(api: &Api, caller: &Identity, wanted: &Attributes) -> Result<Option<String>, StatusError> {
    if caller.is_master() {
        return Ok(Some(String::new()));
    }
    if !api.enforces_rbac() || is_node(caller) {
        return Ok(None);
    }
    granted(api, caller, wanted).await
}

/// Why somebody may do this, for those who ask about it; `None` if they may not.
pub(crate) async fn allowed(
    api: &Api,
    caller: &Identity,
    wanted: &Attributes,
) -> Result<Option<String>, StatusError> {
    decide(api, caller, wanted).await
}

/// Whether the caller is a node, which gets in through CloudHub only.
fn is_node(caller: &Identity) -> bool {
    caller.groups.iter().any(|group| group == NODES)
}

/// The stored binding that allows it.
async fn granted(api: &Api, caller: &Identity, wanted: &Attributes) -> Result<Option<String>, StatusError> {
    let grants = roles::grants(api, caller, &wanted.namespace).await?;
    let grant = grants.into_iter().find(|grant| grant.rules.iter().any(|rule| rules::allows(rule, wanted)));
    Ok(grant.map(|grant| grant.reason))
}

/// The verb of a request, as access rules name it.
pub(crate) fn verb(parts: &Parts, target: &Target) -> &'static str {
    let is_named = !target.name.is_empty();
    let watches = || Query::parse(parts.uri.query().unwrap_or_default()).flag("watch");
    match parts.method.as_str() {
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" if is_named => "delete",
        "DELETE" => "deletecollection",
        // the real server has no verb for it, so that no rule but `*` lets it through
        "OPTIONS" => "options",
        _ if is_named => "get",
        _ if watches() => "watch",
        _ => "list",
    }
}
