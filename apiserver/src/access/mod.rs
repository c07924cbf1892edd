//! Authentication and authorization: finds the [`Identity`] of a request's caller and checks that it may do what the request asks for.

use http::request::Parts;

use crate::Server;
use kubeapi::{
    Identity,
    access::{attributes::Attributes, request_attributes},
    request::{path::RequestPath, review_kind::ReviewKind},
    status::StatusError,
};

mod aggregate;
mod caller;
pub(crate) mod decision;
mod escalation;
mod impersonation;
mod policy;
mod review;
mod roles;
mod signers;
mod tokens;

pub(crate) use aggregate::refresh as aggregate;
pub(crate) use escalation::check as check_escalation;
pub(crate) use policy::ready;
pub(crate) use review::answer as review;
pub(crate) use signers::check as check_signer;

use decision::{decide, is_node};

/// Returns the caller of a request, or an error where the caller may not do what it asks for.
pub(crate) async fn admit(
    api: &Server,
    parts: &Parts,
    place: &RequestPath,
) -> Result<Identity, StatusError> {
    let caller = caller::of(api, parts).await?;
    if caller.is_master() {
        return Ok(caller);
    }
    let wanted = request_attributes(parts, place);
    if asks_about_itself(api, &caller, place) {
        return Ok(caller);
    }
    if decide(api, &caller, &wanted).await?.is_none() {
        return Err(StatusError::denied(&caller.user, &wanted));
    }
    if is_streaming_get(&wanted, parts.headers.contains_key(http::header::UPGRADE)) {
        // a GET that is upgraded to a WebSocket does as much as a POST
        let wanted = Attributes {
            verb: "create".to_owned(),
            ..wanted
        };
        if decide(api, &caller, &wanted).await?.is_none() {
            return Err(StatusError::denied(&caller.user, &wanted));
        }
    }
    Ok(caller)
}

/// Reports whether this is a WebSocket request for a stream into a pod; through `nodes/proxy` only an upgrade counts.
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
fn asks_about_itself(api: &Server, caller: &Identity, place: &RequestPath) -> bool {
    let own = matches!(
        place,
        RequestPath::Review(
            ReviewKind::Subject | ReviewKind::OwnAccess | ReviewKind::OwnRules,
            _
        )
    );
    own && !api.enforces_rbac() && !is_node(caller)
}
