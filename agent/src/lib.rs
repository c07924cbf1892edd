//! EdgeCore's job: pods, devices and messages of one edge node, driven from the cloud and working without it.
//!
//! One folder for each of EdgeCore's modules; [`app`] puts them together. The loop: the cloud's messages come in by
//! [`edgehub`], are stored and acknowledged by [`metamanager`], and carried out by [`edged`]; what happens goes the same way back.

pub mod app;
pub mod cli;
mod component;
pub mod config;
mod database;
pub mod devicetwin;
pub mod edged;
pub mod edgehub;
pub mod edgemesh;
mod edgestream;
mod environment;
pub mod eventbus;
mod join;
pub mod log;
pub mod metamanager;
mod name_set;
mod netlink;
mod outbox;
mod program;
mod reset;
mod rt;
pub mod servicebus;
pub mod signals;
mod systemd;

use program::one_line;
pub use program::run as main;
pub use rt::Repeated;
