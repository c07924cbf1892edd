//! Uses recordings of KubeEdge's protocol: compares two of them by meaning, and plays one side against a real program.
//!
//! [`Script`] is a recording in memory. [`compare()`] finds the differences of two. [`Plan`] decides how one side is played, [`Player`]
//! plays it without IO, and [`drive()`] connects a player with a [`Link`] to a real cloud ([`EdgeLink`]) or edge ([`CloudLink`]).

mod align;
mod cloud;
mod compare;
mod content;
mod drive;
mod edge;
mod plan;
mod player;
mod report;
mod script;
mod text;
mod translate;

pub use self::{
    cloud::{CloudLink, CloudServers},
    compare::{Change, Comparison, Difference, Sort, compare, compare_side},
    drive::{Event, Link, drive},
    edge::EdgeLink,
    plan::{Plan, PlanError, Step},
    player::{Next, Outcome, PlayOptions, Player},
    script::{
        LoadError, MAX_BYTES, MAX_CONNECTIONS, MAX_MESSAGE_BYTES, MAX_MESSAGES, Script, Selection,
        Sent,
    },
};

#[cfg(test)]
mod player_tests;
#[cfg(test)]
mod tests;
