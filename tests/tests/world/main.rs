//! Scenarios of the simulated world; each test has a cloud and nodes of its own.

// a helper fails its test by panicking, with a message that says what was expected
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
// a scenario is one future that stands once
#![allow(clippy::large_futures)]

mod acknowledge;
mod admission;
mod bad_clients;
mod bad_enrolment;
mod bad_frames;
mod bad_names;
mod bad_reach;
mod bad_starts;
mod beginnings;
mod binding;
mod claims;
mod compression;
mod config;
mod config_changes;
mod crowds;
mod damage;
mod damaged_endpoints;
mod damaged_kinds;
mod device_controller;
mod disconnects;
mod exits;
mod faults;
mod images;
mod jobs;
mod kills;
mod lifecycle;
mod links;
mod mappers;
mod memory;
mod metaserver;
mod metaserver_accounts;
mod metaserver_kubectl;
mod metaserver_refused;
mod metrics;
mod mqtt;
mod names;
mod node_jobs;
mod nodes;
mod offline;
mod oversized;
mod pods;
mod pressure;
mod probes;
mod quic;
mod raw;
mod relay;
mod renewal;
mod resize;
mod restarts;
mod scenarios;
mod server;
mod stand_ins;
mod static_pods;
mod streams;
mod takeover;
mod upkeep;
