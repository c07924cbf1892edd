//! The agent on real containers: containerd, runc and the CNI plugins, a private instance for each test. Needs root.

mod admission;
mod case;
mod environment;
mod faults;
mod lifecycle;
mod network;
mod pressure;
mod resources;
mod security;
mod static_pods;
mod stats;
mod upkeep;
mod volumes;
