//! What requests and answers say, and how it is written: paths, parameters, media types, bodies.

pub mod accept;
pub mod body;
pub mod call;
pub mod connection_headers;
mod convert_versions;
pub mod duplicates;
mod escapes;
pub(crate) mod gzip;
pub(crate) mod legacy_watch;
pub mod path;
pub(crate) mod pretty;
pub(crate) mod proto;
pub mod query;
pub mod remote;
pub mod request_type;
pub mod review_kind;
pub(crate) mod rewrite;
pub mod subresource;
pub mod versions;
pub mod warnings;
pub(crate) mod yaml;
