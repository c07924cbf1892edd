//! The verbs, each as the API server defines it (Kubernetes API concepts; API conventions).

mod binding;
mod computed;
mod create;
mod delete;
mod eviction;
pub mod generated_name;
pub mod get;
mod list;
mod merge;
mod options;
mod patch;
mod scale;
mod snapshot;
mod update;
mod watch;
pub mod write;

pub(crate) use binding::bind;
pub(crate) use computed::answer_computed;
pub(crate) use create::create;
pub(crate) use delete::{delete, delete_collection};
pub(crate) use eviction::evict;
pub(crate) use get::get;
pub(crate) use list::list;
pub use options::check_create_options;
pub(crate) use options::check_options;
pub(crate) use patch::patch;
pub(crate) use scale::scale;
pub(crate) use update::update;
pub(crate) use watch::watch;
