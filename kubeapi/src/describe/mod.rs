//! What the API says about itself: discovery, OpenAPI documents, health, metrics.

pub(crate) mod discovery;
pub(crate) mod document;
pub mod exposition;
pub(crate) mod health;
pub(crate) mod metrics;
pub(crate) mod openapi;
pub(crate) mod remote_discovery;
