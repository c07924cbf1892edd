//! A small Kubernetes-style API (list, get, watch, create, update, patch, delete, subresources, discovery, OpenAPI) over an
//! object store, called in process through an ordinary `kube::Client` or served over TLS.
//!
//! An [`Api`] is a store, a [`Registry`] of kinds and a [`Strategy`]. The strategy [`Cache`] stores objects as they came; the crate
//! `apiserver` has that of a whole API server. [`Api::client`] is for programs in the same process; [`serve::Server`] puts
//! [`Api::service`] on a socket.

pub mod accept;
pub mod access;
mod api;
mod autoscalers;
pub mod body;
pub mod builtin_schema;
pub mod call;
pub mod cause;
mod client;
mod computed;
pub mod conversion;
pub mod defaults;
pub mod definition_status;
pub mod deletion;
mod discovery;
mod document;
pub mod duplicates;
mod events;
pub mod exposition;
pub mod go_duration;
mod gzip;
mod health;
pub mod hosts;
pub mod identity;
mod legacy_watch;
mod manifest;
mod metrics;
pub mod names;
mod node_streams;
pub mod object;
pub mod object_size;
mod object_watch;
mod openapi;
pub mod patch;
pub mod path;
pub mod pod_tls;
mod proto;
pub mod quantity;
pub mod query;
pub mod registry;
pub mod request_type;
pub mod resources;
pub mod review_kind;
pub mod scale;
pub mod selector;
pub mod serve;
pub mod status;
mod streams;
pub mod structural_schema;
pub mod subresource;
pub mod table;
pub mod timestamp;
mod tower_service;
pub mod validate;
pub mod value_path;
pub mod verbs;
pub mod warnings;
mod yaml;

pub use access::rules::rule_allows;
pub use api::{
    Api, Builder, strategy,
    strategy::{Cache, Strategy},
};
pub use body::{Body, BoxError, ReadBodyError, gather, object_of};
pub use client::{client_of, is_damaged};
pub use computed::ComputedObjects;
pub use health::StoreCheckCache;
pub use identity::Identity;
pub use manifest::complete_pod;
pub use metrics::MetricsSource;
pub use node_streams::{NodeAnswer, NodeError, NodeIo, NodeRequest, NodeStreams};
pub use object_watch::{watch_objects, watch_objects_with_backoff};
pub use registry::{ComputedKind, Convert, Kind, Registry};
pub use tower_service::ApiService;
pub use validate::endpoint_address;
