//! The verbs, each as the API server defines it (Kubernetes API concepts; API conventions).

mod binding;
mod create;
mod delete;
mod deletion;
mod eviction;
mod get;
mod list;
mod merge;
mod options;
mod patch;
mod priority;
mod remote;
mod scale;
mod token;
mod update;
mod version;
mod watch;
mod write;

pub(crate) use binding::bind;
pub(crate) use create::create;
pub(crate) use delete::{delete, delete_collection};
pub(crate) use deletion::{Deletion, deleted};
pub(crate) use eviction::evict;
pub(crate) use get::get;
pub(crate) use list::list;
pub(crate) use options::check_options;
pub(crate) use patch::patch;
pub(crate) use remote::remote;
pub(crate) use scale::scale;
pub(crate) use token::token;
pub(crate) use update::update;
pub(crate) use watch::watch;
pub(crate) use write::Next;
