//! A small Kubernetes-style API (list, get, watch, create, update, patch, delete, subresources, discovery, OpenAPI) over an
//! object store, called in process through an ordinary `kube::Client` or served over TLS.
//!
//! An [`Api`] is a store, a [`Registry`] of kinds and rules. [`Api::client`] is for programs in the same process;
//! [`serve::Server`] puts [`Api::service`] on a socket.

mod accept;
mod access;
mod admission;
mod api;
mod autoscalers;
mod body;
mod cel;
mod client;
mod computed;
mod defaults;
mod definitions;
mod discovery;
mod document;
mod duplicates;
mod events;
pub mod exposition;
mod gzip;
mod health;
pub mod hosts;
mod identity;
mod manifest;
mod metrics;
mod node_streams;
mod object;
mod openapi;
mod part;
mod patch;
mod path;
mod pattern;
pub mod pod_tls;
mod proto;
mod query;
mod quota;
mod registry;
mod schema;
mod selector;
pub mod serve;
mod service;
mod services;
mod status;
pub mod store;
mod streams;
mod structural;
mod table;
mod token;
mod validate;
mod verbs;
mod watch_path;
mod yaml;

pub use access::rule_allows;
pub use admission::{Admission, HttpsTransport, Objection, Review, WebhookCall, WebhookTransport};
pub use api::{Api, Builder, MetricsSource, Rules};
pub use body::{Body, BoxError, Unread, gather, object_of};
pub use client::client_of;
pub use computed::{ComputedKind, ComputedObjects};
pub use identity::Identity;
pub use manifest::complete_pod;
pub use node_streams::{NodeAnswer, NodeError, NodeIo, NodeRequest, NodeStreams};
pub use registry::{Convert, Kind, Registry};
pub use service::ApiService;
pub use token::{BoundKind, BoundObject, TokenError, TokenGrant, TokenIssuer, VerifiedToken};
pub use validate::endpoint_address;
