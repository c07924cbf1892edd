//! The verbs, each as the API server defines it (Kubernetes API concepts; API conventions).

mod binding;
mod create;
mod delete;
mod deletion;
mod get;
mod list;
mod merge;
mod options;
mod patch;
mod token;
mod update;
mod watch;
mod write;

pub(crate) use binding::bind;
pub(crate) use create::create;
pub(crate) use delete::{delete, delete_collection};
pub(crate) use get::get;
pub(crate) use list::list;
pub(crate) use options::check_options;
pub(crate) use patch::patch;
pub(crate) use token::token;
pub(crate) use update::update;
pub(crate) use watch::watch;
