//! Syncs pods: brings them to their desired state.
//!
//! ```text
//! pods ───────────────┐
//! ConfigMaps, Secrets ┼─▶ controller ─▶ sync_pod: observe ─▶ plan ─▶ act ─▶ observe … ─▶ report
//! runtime, own tasks ─┘
//! ```
//!
//! | file | what |
//! |---|---|
//! | `trigger_stream`, `retry` | why and when a pod is synced |
//! | `controller`, `context`, `cache` | the controller, what a sync needs, and the state between two syncs |
//! | `sync`, `terminate` | a sync of a pod that shall run, and of one that is being deleted |
//! | `admission` | whether a new pod may run |
//! | `observe`, `lost_containers`, `termination_messages` | the observed state of a pod |
//! | `volume_manager` | its volumes: claims, tokens, ConfigMaps and Secrets |
//! | `act`, `sandbox`, `start`, `stop`, `hooks`, `images` | the actions of a plan |
//! | `resize` | the resources of its running containers |
//! | `report`, `record_event` | its status and events |

mod act;
mod admission;
mod cache;
mod context;
mod controller;
mod error;
mod fetch;
mod hooks;
mod identity;
mod image_name;
mod images;
pub(super) mod lost_containers;
mod observe;
mod progress;
mod record_event;
pub(crate) mod registry;
mod report;
mod resize;
pub(super) mod retry;
mod sandbox;
mod sandbox_limit;
mod start;
mod stop;
mod sync;
mod terminate;
mod termination_messages;
mod trigger_stream;
mod unsupported;
mod volume_manager;

pub(super) use self::{
    admission::{Admitter, AdmitterDeps},
    cache::{PodCache, Termination},
    context::{Context, NodeContext},
    controller::{Inputs, run},
    images::ImagePuller,
    sandbox_limit::SandboxLimit,
    trigger_stream::Sources,
};
