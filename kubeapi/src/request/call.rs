//! A request on a collection, an object or a subresource, as the verbs and admission see it.

use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use tokio::time::Instant;

use crate::{
    identity::Identity,
    object::go_duration,
    request::{
        accept::Shape, path::Target, query::Query, versions::ConvertedVersions, warnings::Warnings,
    },
    status::StatusError,
};

/// How long webhooks of one request may take together: the API server's `--request-timeout`.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Marks a request in its extensions that skips policies and webhooks. Only this crate can make one.
#[derive(Clone, Copy, Debug)]
pub struct SkipAdmission;

/// Marks a request in its extensions whose lists have to be complete. Only this crate can make one.
#[derive(Clone, Copy, Debug)]
pub struct CompleteLists;

/// A request on a collection, an object or a subresource.
#[derive(Debug)]
pub struct Call {
    /// The collection, object or subresource.
    pub target: Target,
    /// The parameters.
    pub query: Query,
    /// The representation that the caller takes.
    pub shape: Shape,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, decompressed.
    pub body: Bytes,
    /// The caller.
    pub caller: Option<Identity>,
    /// Whether policies and webhooks review its writes.
    pub is_reviewed: bool,
    /// Whether a list fails if an object of it cannot be read; it is otherwise skipped with a warning.
    pub needs_complete_lists: bool,
    /// Warnings for the caller, sent with any response.
    pub warnings: Warnings,
    /// When webhooks must have answered.
    pub deadline: Instant,
    /// Its object in other versions.
    pub versions: ConvertedVersions,
}

/// Returns the deadline of a request that begins now: the parameter `timeout`, which can only shorten the server's own.
pub fn deadline(query: &Query) -> Result<Instant, StatusError> {
    let own = Instant::now() + REQUEST_TIMEOUT;
    let Some(text) = query.get("timeout") else {
        return Ok(own);
    };
    let invalid = || {
        StatusError::bad_request(format!(
            "invalid timeout specified in the request URL: {text:?}"
        ))
    };
    let timeout = go_duration::parse(text).ok_or_else(invalid)?;
    match Duration::try_from(timeout) {
        // 0 and less are no wish
        Ok(timeout) if !timeout.is_zero() => {
            Ok(own.min(Instant::now() + timeout.min(REQUEST_TIMEOUT)))
        }
        Ok(_) | Err(_) => Ok(own),
    }
}

impl Call {
    /// Copies the request without its body.
    pub fn bodyless(&self) -> Self {
        Self {
            target: self.target.clone(),
            query: self.query.clone(),
            shape: self.shape,
            headers: self.headers.clone(),
            body: Bytes::new(),
            caller: self.caller.clone(),
            is_reviewed: self.is_reviewed,
            needs_complete_lists: self.needs_complete_lists,
            warnings: self.warnings.clone(),
            deadline: self.deadline,
            versions: ConvertedVersions::default(),
        }
    }

    /// Who writes, for `metadata.managedFields`: the `fieldManager` parameter or else the program in the user agent.
    pub fn manager(&self) -> &str {
        let agent = self
            .headers
            .get(http::header::USER_AGENT)
            .and_then(|value| value.to_str().ok());
        let program = agent
            .and_then(|agent| agent.split('/').next())
            .filter(|program| !program.is_empty());
        self.query
            .get("fieldManager")
            .or(program)
            .unwrap_or("unknown")
    }
}
