//! What a request asks for, in the words of access rules, and the rules themselves.

use http::request::Parts;

use crate::{
    Identity,
    request::{
        path::{RequestPath, Target},
        query::Query,
    },
    status::StatusError,
};

pub mod attributes;
pub mod impersonation;
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
        RequestPath::Objects(target) => Attributes::of_objects(verb(parts, target), target),
        RequestPath::Review(review, namespace) => Attributes {
            verb: "create".to_owned(),
            group: review.group().to_owned(),
            resource: review.plural().to_owned(),
            namespace: namespace.clone(),
            ..Attributes::default()
        },
        _ => Attributes::of_path(parts.method.as_str(), parts.uri.path()),
    }
}

/// Returns the verb of a request, as access rules name it.
pub fn verb(parts: &Parts, target: &Target) -> &'static str {
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
