//! The agent on real containers: containerd, runc and the CNI plugins, a private instance for each test. Needs root.

mod admission;
mod case;
mod churn;
mod claims;
mod confinement;
mod cut_off;
mod environment;
mod faults;
mod groups;
mod hooks;
mod images;
mod lifecycle;
mod mounts;
mod names;
mod network;
mod pressure;
mod probes;
mod refused;
mod registry;
mod resources;
mod security;
mod server;
mod static_pods;
mod stats;
mod upkeep;
mod volumes;
