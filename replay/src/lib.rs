//! Uses recordings of KubeEdge's protocol: compares two of them by meaning, and plays one side against a real program.
//!
//! [`Script`] is a recording in memory. [`compare()`] finds the differences of two. Both are pure and have limits.

mod align;
mod compare;
mod content;
mod plan;
mod player;
mod report;
mod script;
mod text;
mod translate;

pub use self::{
    compare::{Change, Comparison, Difference, Sort, compare, compare_side},
    plan::{Plan, PlanError, Step},
    player::{Next, Outcome, PlayOptions, Player},
    script::{LoadError, MAX_BYTES, MAX_CONNECTIONS, MAX_MESSAGES, Script, Selection, Sent},
};

#[cfg(test)]
mod player_tests;
#[cfg(test)]
mod tests;
