//! What the API says about itself: documents that are made once for the kinds that are served, with a tag by which a client that has one
//! is told so in place of getting it again.

use std::collections::HashMap;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use parking_lot::Mutex;
use serde_json::Value;

use crate::{
    registry::Registry,
    request::body::{self, Body},
};

/// A document with its tag. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    content: Bytes,
    tag: HeaderValue,
}

impl Document {
    fn new(content: Bytes) -> Option<Self> {
        let hash = ring::digest::digest(&ring::digest::SHA256, &content);
        let tag = hash
            .as_ref()
            .iter()
            .take(16)
            .map(|byte| format!("{byte:02X}"))
            .collect::<String>();
        Some(Self {
            content,
            tag: HeaderValue::from_str(&format!("\"{tag}\"")).ok()?,
        })
    }

    /// Makes a document that is not kept.
    pub(crate) fn of(content: &Value) -> Option<Self> {
        Self::new(Bytes::from(content.to_string()))
    }

    /// The answer to a request with these headers: 304 for whoever has the document already.
    pub(crate) fn answer(self, headers: &HeaderMap) -> Response<Body> {
        let known = headers
            .get_all(header::IF_NONE_MATCH)
            .iter()
            .filter_map(|value| value.to_str().ok());
        let is_known = known
            .flat_map(|value| value.split(','))
            .any(|value| value.trim() == self.tag);
        let mut answer = if is_known {
            let mut answer = body::answer(StatusCode::NOT_MODIFIED, Bytes::new(), &[]);
            answer.headers_mut().remove(header::CONTENT_TYPE);
            answer
        } else {
            body::answer(StatusCode::OK, self.content, &[])
        };
        answer.headers_mut().insert(header::ETAG, self.tag);
        answer
            .headers_mut()
            .insert(header::VARY, HeaderValue::from_static("Accept"));
        answer
    }
}

/// Which document.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Name {
    /// OpenAPI v3 of a group and version.
    OpenApi(String, String),
    /// The one of OpenAPI v2.
    OpenApiV2,
    /// The documents of OpenAPI v3.
    OpenApiIndex,
    /// `/apis`.
    Groups,
    /// `/apis/<group>`.
    Group(String),
    /// `/api/v1`, `/apis/<group>/<version>`.
    Resources(String, String),
    /// `/api` in one answer with all below it.
    AggregatedCore,
    /// `/apis` in one answer with all below it.
    Aggregated,
}

/// The documents that have been asked for.
#[derive(Debug, Default)]
pub(crate) struct Documents(Mutex<HashMap<Name, Document>>);

impl Documents {
    /// The document, made by `make` when it is first asked for; `None` where there is none. The registry stays locked by the caller
    /// meanwhile, so that no document of older kinds is kept.
    pub(crate) fn get(&self, name: Name, make: impl FnOnce() -> Option<Value>) -> Option<Document> {
        if let Some(document) = self.0.lock().get(&name) {
            return Some(document.clone());
        }
        let document = Document::new(Bytes::from(make()?.to_string()))?;
        self.0.lock().insert(name, document.clone());
        Some(document)
    }

    /// Forgets what other kinds than the built-in ones are told of in.
    pub(crate) fn forget(&self, registry: &Registry) {
        self.0.lock().retain(|name, _| match name {
            Name::OpenApi(group, version) => registry
                .group_version(group, version)
                .next()
                .is_some_and(|kind| kind.builtin.is_some()),
            _ => false,
        });
    }
}
