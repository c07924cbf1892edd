//! Refusals: `metav1.Status` with the reasons, codes and texts of the real API server, which clients match on.

use http::StatusCode;
use serde_json::{Map, Value, json};

mod admission;
mod nodes;

use crate::{
    access::attributes::Attributes,
    cause::Cause,
    object::object_size::{MAX_OBJECT_BYTES, ObjectTooLarge},
    patch::error::PatchError,
    registry::Kind,
};
use objectstore::{Key, Resource, StoreError};

/// A detail in the metadata of the answer: the start of the next page of a list.
const CONTINUE: &str = "continue";

/// The reason of Kubernetes for stored objects that cannot be read.
pub const STORAGE_READ: &str = "StorageReadError";

/// The most damaged objects that an answer names.
const MAX_NAMED: usize = 20;

/// A detail that stands in the answer itself: a reason that is nobody's here.
const REASON: &str = "reason";

/// A request refused.
#[derive(Clone, Debug)]
pub struct StatusError {
    /// The code of HTTP.
    pub code: StatusCode,
    reason: &'static str,
    message: String,
    details: Map<String, Value>,
}

impl StatusError {
    fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: Map::new(),
        }
    }

    /// The details that name an object: `kind` is the resource, as the real server has it.
    fn about(mut self, kind: &Kind, name: &str) -> Self {
        if !name.is_empty() {
            self.details.insert("name".into(), name.into());
        }
        if !kind.group.is_empty() {
            self.details
                .insert("group".into(), kind.group.as_str().into());
        }
        self.details
            .insert("kind".into(), kind.plural.as_str().into());
        self
    }

    /// 404: no such object.
    pub fn not_found(kind: &Kind, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", kind.group_resource());
        Self::new(StatusCode::NOT_FOUND, "NotFound", message).about(kind, name)
    }

    /// 404: the namespace that an object should stand in.
    pub fn no_namespace(name: &str) -> Self {
        let mut error = Self::new(
            StatusCode::NOT_FOUND,
            "NotFound",
            format!("namespaces \"{name}\" not found"),
        );
        error.details.insert("name".into(), name.into());
        error.details.insert("kind".into(), "namespaces".into());
        error
    }

    /// 404: no such path.
    pub fn no_resource() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "NotFound",
            "the server could not find the requested resource",
        )
    }

    /// 409: the name is taken.
    pub fn already_exists(kind: &Kind, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", kind.group_resource());
        Self::new(StatusCode::CONFLICT, "AlreadyExists", message).about(kind, name)
    }

    /// 409: written by somebody else meanwhile.
    pub fn modified(kind: &Kind, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(kind, name, why)
    }

    /// 409: a precondition does not hold.
    pub fn conflict(kind: &Kind, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} \"{name}\": {why}",
            kind.group_resource()
        );
        Self::new(StatusCode::CONFLICT, "Conflict", message).about(kind, name)
    }

    /// 409: a precondition of a deletion does not hold; it names the kind in place of the collection.
    pub fn precondition(kind: &Kind, name: &str, why: &str) -> Self {
        let kind_name = Resource::new(&kind.group, &kind.kind);
        let message = format!("Operation cannot be fulfilled on {kind_name} \"{name}\": {why}");
        let mut error = Self::new(StatusCode::CONFLICT, "Conflict", message).about(kind, name);
        error
            .details
            .insert("kind".into(), kind.kind.as_str().into());
        error
    }

    /// 409: the same for a part of an object, `pods/binding`.
    pub fn part_conflict(kind: &Kind, part: &str, name: &str, why: &str) -> Self {
        let resource = format!("{}/{part}", kind.group_resource());
        let message = format!("Operation cannot be fulfilled on {resource} \"{name}\": {why}");
        let mut error = Self::new(StatusCode::CONFLICT, "Conflict", message).about(kind, name);
        error.details.insert("kind".into(), resource.into());
        error
    }

    /// 409: fields that other managers own, from server-side apply: (field, message) each.
    pub fn apply_conflict(message: impl Into<String>, causes: Vec<(String, String)>) -> Self {
        let mut error = Self::new(StatusCode::CONFLICT, "Conflict", message);
        let causes = causes.into_iter().map(
            |(field, message)| json!({"reason": "FieldManagerConflict", "message": message, "field": field}),
        );
        error.details.insert("causes".into(), causes.collect());
        error
    }

    /// 422: understood, but against the kind's rules.
    pub fn invalid(group: &str, kind: &str, name: &str, causes: Vec<Cause>) -> Self {
        let texts: Vec<_> = causes.iter().map(Cause::to_string).collect();
        let texts = if texts.len() == 1 {
            texts.concat()
        } else {
            format!("[{}]", texts.join(", "))
        };
        let qualified = if group.is_empty() {
            kind.to_owned()
        } else {
            format!("{kind}.{group}")
        };
        let message = format!("{qualified} \"{name}\" is invalid: {texts}");
        let mut error = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message);
        if !name.is_empty() {
            error.details.insert("name".into(), name.into());
        }
        if !group.is_empty() {
            error.details.insert("group".into(), group.into());
        }
        if !kind.is_empty() {
            error.details.insert("kind".into(), kind.into());
        }
        let causes = causes.into_iter().map(
            |Cause {
                 reason,
                 field,
                 message,
             }| json!({"reason": reason, "message": message, "field": field}),
        );
        error.details.insert("causes".into(), causes.collect());
        error
    }

    /// 422 without causes: a patch that cannot be applied.
    pub fn unprocessable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message)
    }

    /// 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// 400: an object of another namespace than that of the path.
    pub fn other_namespace() -> Self {
        let message =
            "the namespace of the provided object does not match the namespace sent on the request";
        Self::bad_request(message)
    }

    /// 410: list again.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message)
    }

    /// 410: the revision of a list is no longer known; `token` continues with the current objects.
    pub fn page_expired(token: String) -> Self {
        let message = "The provided continue parameter is too old to display a consistent list result. You can start a new list \
                       without the continue parameter, or use the continue token in this response to retrieve the remainder \
                       of the results. Continuing with the provided token results in an inconsistent list - objects that \
                       were created, modified, or deleted between the time the first chunk was returned and now may show \
                       up in the list.";
        let mut error = Self::expired(message);
        error.details.insert(CONTINUE.into(), token.into());
        error
    }

    /// 504: a revision that this server has not reached.
    pub fn too_large_revision(asked: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        let mut error = Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message);
        error.details.insert(
            "causes".into(),
            json!([{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]),
        );
        error.details.insert("retryAfterSeconds".into(), 1.into());
        error
    }

    /// 403: an object cannot be created in a terminating namespace.
    pub fn namespace_terminating(kind: &Kind, name: &str, namespace: &str) -> Self {
        let message = format!(
            "{} \"{name}\" is forbidden: unable to create new content in namespace {namespace} because it is being terminated",
            kind.group_resource()
        );
        let mut error = Self::new(StatusCode::FORBIDDEN, "Forbidden", message).about(kind, name);
        let cause = format!("namespace {namespace} is being terminated");
        let causes = json!([{"reason": "NamespaceTerminating", "message": cause, "field": "metadata.namespace"}]);
        error.details.insert("causes".into(), causes);
        error
    }

    /// 501: this API lacks a part that the request needs.
    pub fn not_implemented(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_IMPLEMENTED, "NotImplemented", message)
    }

    /// 405.
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
    }

    /// 405: a request that is not possible while the kind's definition is being deleted.
    pub fn definition_terminating(verb: &str) -> Self {
        let message = format!("{verb} not allowed while custom resource definition is terminating");
        Self {
            message,
            ..Self::method_not_allowed()
        }
    }

    /// 429: a disruption budget does not allow the eviction of a pod now, because of `cause`. The client may retry after this
    /// number of seconds.
    pub fn budget_used_up(cause: &str, retry_after: Option<u64>) -> Self {
        let message = "Cannot evict pod as it would violate the pod's disruption budget.";
        let mut error = Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message);
        error.details.insert(
            "causes".into(),
            json!([{"reason": "DisruptionBudget", "message": cause}]),
        );
        if let Some(seconds) = retry_after {
            error
                .details
                .insert("retryAfterSeconds".into(), seconds.into());
        }
        error
    }

    /// 504: a disruption budget that others wrote each time it was to be counted in.
    pub fn budget_conflict(budget: &str) -> Self {
        let message = format!("couldn't update PodDisruptionBudget {budget:?} due to conflicts");
        let mut error = Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", &message);
        error.details.insert("retryAfterSeconds".into(), 10.into());
        error
    }

    /// 403: a disruption budget whose status cannot be counted in.
    pub fn budget_broken(budget: &str, why: &str) -> Self {
        let message = format!("poddisruptionbudgets.policy {budget:?} is forbidden: {why}");
        let mut error = Self::new(StatusCode::FORBIDDEN, "Forbidden", &message);
        error.details.insert("name".into(), budget.into());
        error.details.insert("group".into(), "policy".into());
        error
            .details
            .insert("kind".into(), "poddisruptionbudgets".into());
        error
    }

    /// 406.
    pub fn not_acceptable() -> Self {
        let message = "only the following media types are accepted: application/json";
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    /// 415.
    pub fn unsupported_media_type(accepted: &str) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {accepted}"
        );
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "UnsupportedMediaType",
            message,
        )
    }

    /// 415 for a patch of another type; kinds from definitions have an answer of their own.
    pub fn unsupported_patch(is_defined: bool) -> Self {
        if is_defined {
            return Self::unsupported_media_type(
                "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            );
        }
        let message = "415: Unsupported Media Type";
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "UnsupportedMediaType",
            message,
        )
    }

    /// 408: the request did not come to its end.
    pub fn late(message: impl Into<String>) -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "Timeout", message)
    }

    /// 413.
    pub fn too_large(limit: usize) -> Self {
        let message = format!("Request entity too large: limit is {limit}");
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLarge",
            message,
        )
    }

    /// 413: an object that etcd would not store. `bytes`: its size, if it is known.
    pub fn object_too_large(bytes: Option<usize>) -> Self {
        let size = bytes.map_or_else(
            || format!("more than {MAX_OBJECT_BYTES}"),
            |bytes| bytes.to_string(),
        );
        let why = format!(
            "the encoded object, with its defaults, has {size} bytes; the limit is {MAX_OBJECT_BYTES} bytes"
        );
        let message = format!("Request entity too large: {why}");
        let mut error = Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLarge",
            message,
        );
        error.details.insert(
            "causes".into(),
            json!([{"reason": "FieldValueTooLong", "message": why}]),
        );
        error
    }

    /// 401.
    pub fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    /// 403: a request that is allowed only with other values.
    pub fn forbidden(kind: &Kind, name: &str, why: &str) -> Self {
        let message = format!("{} {name:?} is forbidden: {why}", kind.group_resource());
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message).about(kind, name)
    }

    /// 404: the role that a binding names.
    pub fn no_role(plural: &str, name: &str) -> Self {
        let group = "rbac.authorization.k8s.io";
        let mut error = Self::new(
            StatusCode::NOT_FOUND,
            "NotFound",
            format!("{plural}.{group} {name:?} not found"),
        );
        for (key, value) in [("name", name), ("group", group), ("kind", plural)] {
            error.details.insert(key.into(), value.into());
        }
        error
    }

    /// 403: `user` has no permission for the request.
    pub fn denied(user: &str, wanted: &Attributes) -> Self {
        let Attributes {
            verb,
            group,
            resource,
            namespace,
            name,
            path,
        } = wanted;
        if let Some(path) = path {
            let message = format!("forbidden: User {user:?} cannot {verb} path {path:?}");
            return Self::new(StatusCode::FORBIDDEN, "Forbidden", message);
        }
        let named = if name.is_empty() {
            String::new()
        } else {
            format!(" {name:?}")
        };
        let plural = resource.split('/').next().unwrap_or_default();
        let place = match namespace.as_str() {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace {namespace:?}"),
        };
        let message = format!(
            "{}{named} is forbidden: User {user:?} cannot {verb} resource {resource:?} in API group {group:?} {place}",
            Resource::new(group, plural)
        );
        let mut error = Self::new(StatusCode::FORBIDDEN, "Forbidden", message);
        for (key, value) in [("name", name.as_str()), ("group", group), ("kind", plural)] {
            if !value.is_empty() {
                error.details.insert(key.into(), value.into());
            }
        }
        error
    }

    /// 500, as kube-apiserver returns for errors without a code.
    pub fn unexpected(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
    }

    /// 500: a stored object cannot be read.
    pub fn storage_read(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, STORAGE_READ, message)
    }

    /// 500: a list would lack these objects, which cannot be read.
    pub fn incomplete(damaged: &[Key]) -> Self {
        let names: Vec<_> = damaged.iter().take(MAX_NAMED).map(Key::to_string).collect();
        let (count, names) = (damaged.len(), names.join(", "));
        Self::storage_read(format!(
            "{count} stored objects are damaged; delete them, or write them again: {names}"
        ))
    }

    /// Reports whether a stored object could not be read.
    pub fn is_storage_read(&self) -> bool {
        self.reason == STORAGE_READ
    }

    /// 500.
    pub fn internal(message: impl Into<String>) -> Self {
        let message = format!("Internal error occurred: {}", message.into());
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
    }

    /// Whether the name was taken.
    pub fn is_already_exists(&self) -> bool {
        self.reason == "AlreadyExists"
    }

    /// Whether somebody else was faster.
    pub fn is_conflict(&self) -> bool {
        self.code == StatusCode::CONFLICT
    }

    /// The `Status` object.
    pub fn body(&self) -> Value {
        let mut details = self.details.clone();
        let metadata = match details.shift_remove(CONTINUE) {
            Some(token) => json!({"continue": token}),
            None => json!({}),
        };
        let reason = details
            .shift_remove(REASON)
            .unwrap_or_else(|| self.reason.into());
        let mut body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": metadata, "status": "Failure",
            "message": self.message, "reason": reason,
        });
        if let Value::Object(map) = &mut body {
            let is_generic = matches!(
                (self.reason, self.message.as_ref()),
                ("MethodNotAllowed", _)
                    | (
                        "NotFound",
                        "the server could not find the requested resource"
                    )
                    | (
                        "Invalid",
                        "the server rejected our request due to an error in our request"
                    )
            );
            if !details.is_empty() || is_generic {
                map.insert("details".into(), Value::Object(details));
            }
            map.insert("code".into(), self.code.as_u16().into());
            if reason == "" {
                map.shift_remove("reason");
            }
        }
        body
    }
}

impl From<StoreError> for StatusError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Expired { asked, oldest } => {
                Self::expired(format!("too old resource version: {asked} ({oldest})"))
            }
            // the store has said so once
            error @ StoreError::Damaged { .. } => Self::storage_read(error.to_string()),
            error => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "store operation failed"
                );
                Self::internal(error.to_string())
            }
        }
    }
}

impl From<ObjectTooLarge> for StatusError {
    fn from(error: ObjectTooLarge) -> Self {
        Self::object_too_large(error.bytes)
    }
}

impl From<PatchError> for StatusError {
    fn from(error: PatchError) -> Self {
        let message = error.to_string();
        match error {
            PatchError::BadRequest(message) => Self::bad_request(message),
            PatchError::Missing => Self::new(StatusCode::NOT_FOUND, "NotFound", message),
            PatchError::Conflict { message, conflicts } => {
                let causes = conflicts
                    .into_iter()
                    .map(|conflict| (conflict.field, conflict.message))
                    .collect();
                Self::apply_conflict(message, causes)
            }
            PatchError::TooLarge { .. } => Self::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "RequestEntityTooLarge",
                message,
            ),
            PatchError::UnsupportedMediaType { accepted } => Self::unsupported_media_type(accepted),
            PatchError::Unconverted => Self::internal(message),
            PatchError::Inconvertible(_) => Self::unexpected(message),
            PatchError::Unprocessable(why) => {
                // the real server keeps this to itself
                tracing::debug!(error = %why, "failed to apply a patch");
                Self::unprocessable(message)
            }
        }
    }
}
