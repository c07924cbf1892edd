//! What a request asks for, in the words of access rules, and the rules themselves.

use http::request::Parts;

use crate::{
    Identity,
    request::{
        path::{RequestPath, Target},
        query::Query,
    },
    selector,
    status::StatusError,
};

pub mod attributes;
pub mod impersonation;
mod remote;
pub mod rules;

use attributes::Attributes;
use impersonation::Impersonated;

/// Returns the caller in the extensions of a request, if it belongs to `system:masters`.
///
/// # Errors
/// 401 for a request without a caller, 403 for any other caller.
pub fn authorize_master(parts: &Parts, place: &RequestPath) -> Result<Identity, StatusError> {
    let caller = parts
        .extensions
        .get::<Identity>()
        .ok_or_else(StatusError::unauthorized)?;
    let mut caller = caller.clone().authenticated();
    if impersonation::is_requested(&parts.headers) {
        let impersonated = Impersonated::from_headers(&parts.headers)?;
        if let Some(right) = impersonated
            .required_rights()
            .first()
            .filter(|_| !caller.is_master())
        {
            return Err(StatusError::denied(&caller.user, right));
        }
        caller = impersonated.into_identity();
    }
    if caller.is_master() {
        Ok(caller)
    } else {
        Err(StatusError::denied(
            &caller.user,
            &request_attributes(parts, place),
        ))
    }
}

/// Returns the attributes of a request for the authorizer.
pub fn request_attributes(parts: &Parts, place: &RequestPath) -> Attributes {
    match place {
        RequestPath::Objects(target) => {
            let mut wanted = Attributes::of_objects(verb(parts, target), target);
            if matches!(wanted.verb.as_str(), "list" | "watch") && wanted.name.is_empty() {
                wanted.name = selected_name(&query(parts));
            }
            wanted
        }
        RequestPath::Review(review, namespace) => Attributes {
            verb: "create".to_owned(),
            group: review.group().to_owned(),
            resource: review.plural().to_owned(),
            namespace: namespace.clone(),
            ..Attributes::default()
        },
        RequestPath::Remote(remote) => {
            let wanted = remote::remote_attributes(remote, parts.method.as_str(), &query(parts));
            wanted.unwrap_or_else(|| Attributes::of_path(parts.method.as_str(), parts.uri.path()))
        }
        _ => Attributes::of_path(parts.method.as_str(), parts.uri.path()),
    }
}

fn query(parts: &Parts) -> Query {
    Query::parse(parts.uri.query().unwrap_or_default())
}

/// Returns the only name that the objects of a list or watch can have, empty if there are several: rules with `resourceNames` allow such
/// a request.
fn selected_name(query: &Query) -> String {
    let fields = query.get("fieldSelector");
    fields.and_then(selector::selected_name).unwrap_or_default()
}

/// Returns the verb of a request, as access rules name it.
pub fn verb(parts: &Parts, target: &Target) -> &'static str {
    let is_named = !target.name.is_empty();
    let watches = || query(parts).flag("watch");
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
