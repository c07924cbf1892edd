//! A Kubernetes API server over an object store: the API of [`kubeapi`] with all that an API server does with callers and objects.
//!
//! In: a store and settings ([`builder()`]), and requests to the [`kubeapi::Api`] that is built. Out: checked and completed objects in the
//! store, and refusals with the texts of Kubernetes. [`kubeapi`] has the verbs, and calls the [`Strategy`](kubeapi::Strategy) of this crate
//! (`strategy.rs`) at each step:
//!
//! | step | modules |
//! |---|---|
//! | caller | `access` (RBAC, impersonation, reviews), `token`, `token_request` |
//! | definitions | `definitions`, `schema_validation`, `string_formats` |
//! | new objects | `defaults`, `plugins`, `prepare`, `service_allocator`, `quota` |
//! | validation | `validate`: a table of rules for each kind |
//! | other servers | `aggregation` (APIServices) |
//! | versions | `conversion` (webhooks of definitions) |
//! | admission | `admission` (policies, webhooks, Pod Security), `checks`, `applied` |
//! | expressions | `cel`, and the functions of Go's standard library that it has (`go_*`) |

mod access;
mod admission;
mod aggregation;
mod applied;
mod blocking;
mod builder;
mod cel;
mod checks;
mod conversion;
mod defaults;
mod definitions;
mod go_ip;
mod go_regex;
mod go_time;
mod go_url;
mod plugins;
mod prepare;
mod quota;
mod review;
mod schema_validation;
mod server;
mod service_allocator;
mod strategy;
mod string_formats;
mod token;
mod token_request;
mod validate;

pub use admission::{Admission, FieldError, HttpsTransport, Review, WebhookCall, WebhookTransport};
pub use aggregation::transport::{FrontProxy, RemoteTarget, RemoteTransport};
pub use builder::{Builder, builder};
pub use token::{
    BoundKind, BoundObject, PublishedKeys, TokenError, TokenGrant, TokenIssuer, VerifiedToken,
};

pub(crate) use server::Server;
