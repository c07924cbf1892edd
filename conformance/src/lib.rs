//! Conformance tests for the protocol of KubeEdge. [`cloud`] acts as edge nodes and tests any cloud, [`edge`] acts as a cloud and tests
//! any edge.
//!
//! A [`Case`] has an id, a profile, a source in KubeEdge and a function. The cases speak the protocol themselves: they use neither the
//! hub of `cloudsim` nor that of the agent, so that a fault of these cannot hide itself. [`Report`] has the form of Gateway API's
//! `ConformanceReport`.

mod case;
pub mod cloud;
pub mod edge;
mod report;
mod run;

pub use self::{
    case::{Case, CaseInfo, Profile},
    report::{CaseResult, Implementation, Report, Verdict},
};
pub use peer::Failure;
