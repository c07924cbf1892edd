//! The verbs, each as the API server defines it (Kubernetes API concepts; API conventions).

mod account;
mod binding;
mod checks;
mod computed;
mod create;
mod delete;
mod eviction;
mod generated_name;
pub(crate) mod get;
mod limits;
mod list;
mod merge;
mod options;
mod patch;
mod priority;
mod references;
mod runtime_class;
mod scale;
mod token;
mod update;
mod watch;
mod write;

pub(crate) use binding::bind;
pub(crate) use checks::compile;
pub(crate) use computed::computed;
pub(crate) use create::create;
pub(crate) use delete::{delete, delete_collection};
pub(crate) use eviction::evict;
pub(crate) use get::get;
pub(crate) use list::list;
pub(crate) use options::check_options;
pub(crate) use patch::patch;
pub(crate) use scale::scale;
pub(crate) use token::token;
pub(crate) use update::update;
pub(crate) use watch::watch;
