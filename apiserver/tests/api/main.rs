//! The API as its clients see it, in process: request by request, and through `kube`'s own watcher and controller.
#![allow(clippy::unwrap_used, clippy::panic, clippy::too_many_lines)]

mod access;
mod admission;
mod aggregation;
mod bodies;
mod bound_tokens;
mod client;
mod create;
mod damage;
mod definitions;
mod delete;
mod describe;
mod escalation;
mod events;
mod exchanges;
mod extensions;
mod impersonation;
mod large;
mod list;
mod object_size;
mod parts;
mod patch;
mod pods;
mod rbac;
mod relay;
#[path = "../common/requests.rs"]
mod requests;
mod resize;
mod services;
mod storage;
mod subresources;
mod update;
mod watch;
mod workloads;
mod world;
mod yaml;
