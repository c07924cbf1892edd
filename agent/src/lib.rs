//! The agent of an edge node, in the place of KubeEdge's EdgeCore: pods, devices and messages, with the cloud or without.
//!
//! There is one folder for each of EdgeCore's modules; [`app`] wires them. The cloud's messages are received by [`edgehub`],
//! stored and acknowledged by [`metamanager`], and executed by the crate [`edged`]; statuses take the same way back.

pub mod app;
pub mod bundle;
mod check;
pub mod cli;
pub mod config;
mod ctl;
pub mod database;
pub mod devicetwin;
pub mod edgehub;
pub mod edgemesh;
mod edgestream;
mod environment;
pub mod eventbus;
mod file;
mod join;
pub mod log;
pub mod metamanager;
mod name_set;
mod netlink;
mod outbox;
mod output;
mod program;
mod reset;
pub mod service;
pub mod servicebus;
mod short_connections;
pub mod signals;
mod status;
mod systemd;
pub mod table;
pub mod taskmanager;
pub mod terminal;
mod tls;

use program::one_line;
pub use program::run as main;
