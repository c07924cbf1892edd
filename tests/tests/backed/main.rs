//! Scenarios of the simulated world whose cloud stands before a cluster: those of `tests/world` that make sense there, as they are, and
//! those that only such a cloud has. `tests::Setup` knows by the name of this program which cloud its worlds have.

// a helper fails its test by panicking, with a message that says what was expected
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
// a scenario is one future that stands once
#![allow(clippy::large_futures)]
// what only scenarios need that are not here
#![allow(dead_code)]

mod addresses;
mod bad_clusters;
mod calls;
mod controller_manager;
mod forwarding;
mod keys;
mod leftovers;
mod metrics_api;
mod outages;
mod page;
mod relays;
mod replicas;
mod rights;
mod rotation;

#[path = "../world/acknowledge.rs"]
mod acknowledge;
#[path = "../world/beginnings.rs"]
mod beginnings;
#[path = "../world/device_controller.rs"]
mod device_controller;
#[path = "../world/disconnects.rs"]
mod disconnects;
#[path = "../world/kills.rs"]
mod kills;
#[path = "../world/lifecycle.rs"]
mod lifecycle;
#[path = "../world/links.rs"]
mod links;
#[path = "../world/mappers.rs"]
mod mappers;
#[path = "../world/metaserver_accounts.rs"]
mod metaserver_accounts;
#[path = "../world/names.rs"]
mod names;
#[path = "../world/nodes.rs"]
mod nodes;
#[path = "../world/offline.rs"]
mod offline;
#[path = "../world/pods.rs"]
mod pods;
#[path = "../world/raw.rs"]
mod raw;
#[path = "../world/relay/nodes.rs"]
mod relay_nodes;
#[path = "../world/restarts.rs"]
mod restarts;
#[path = "../world/static_pods.rs"]
mod static_pods;
#[path = "../world/takeover.rs"]
mod takeover;

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let (mut told, mut cause) = (error.to_string(), error.source());
    while let Some(error) = cause {
        told = format!("{told}: {error}");
        cause = error.source();
    }
    told
}
