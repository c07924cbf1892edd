//! A small Kubernetes-style API (list, get, watch, create, update, patch, delete, subresources, discovery, OpenAPI) over an
//! object store, called in process through an ordinary `kube::Client` or served over TLS.
//!
//! An [`Api`] is a store, a [`Registry`] of kinds and a [`Strategy`]. The strategy [`Cache`] stores objects as they came; the crate
//! `apiserver` has that of a whole API server. [`Api::client`] is for programs in the same process; [`serve::Server`] puts
//! [`Api::service`] on a socket.

pub mod access;
mod api;
pub mod cause;
mod client;
mod computed;
pub mod defaults;
pub mod describe;
pub mod hosts;
pub mod identity;
mod lenient;
mod manifest;
mod node_streams;
pub mod object;
mod object_watch;
pub mod patch;
pub mod pod_tls;
pub mod registry;
pub mod request;
pub mod schema;
pub mod selector;
pub mod serve;
pub mod status;
mod streams;
pub mod table;
mod tower_service;
pub mod validate;
pub mod verbs;

pub use access::rules::rule_allows;
pub use api::{
    Api, Builder, strategy,
    strategy::{Cache, Strategy},
};
pub use client::{client_as, client_of, is_damaged};
pub use computed::ComputedObjects;
pub use describe::discovery::KUBERNETES_VERSION;
pub use describe::health::StoreCheckCache;
pub use describe::metrics::MetricsSource;
pub use identity::Identity;
pub use lenient::{LenientObject, UndecodableObject, keep_decoded};
pub use manifest::complete_pod;
pub use node_streams::{NodeAnswer, NodeError, NodeIo, NodeRequest, NodeStreams};
pub use object_watch::{watch_objects, watch_objects_with_backoff};
pub use registry::{ComputedKind, Convert, Kind, Registry};
pub use request::body::{Body, BoxError, ReadBodyError, gather, object_of};
pub use tower_service::ApiService;
pub use validate::endpoint_address;
