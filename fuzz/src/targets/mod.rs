//! The targets: one for every decoder.

mod api;
mod broker;
mod dns;
mod enrol;
mod messages;
mod node;
mod tunnel;

/// A decoder under test.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name on the command line.
    pub name: &'static str,
    /// Runs the decoder on an input; panics if it fails.
    pub run: fn(&[u8]),
    /// Returns valid inputs.
    pub corpus: fn() -> Vec<Vec<u8>>,
}

const fn decoder(name: &'static str, run: fn(&[u8]), corpus: fn() -> Vec<Vec<u8>>) -> Target {
    Target { name, run, corpus }
}

/// The error for an unknown target.
#[derive(Debug, thiserror::Error)]
#[error("there is no target {0}; there are {names}", names = TARGETS.map(|target| target.name).join(", "))]
pub struct NoSuchTarget(String);

/// Returns the target of this name.
///
/// # Errors
/// There is no such target.
pub fn target(name: &str) -> Result<Target, NoSuchTarget> {
    let found = TARGETS.into_iter().find(|target| target.name == name);
    found.ok_or_else(|| NoSuchTarget(name.to_owned()))
}

/// All targets.
pub const TARGETS: [Target; 29] = [
    decoder("json", messages::json, messages::recorded_seeds),
    decoder("frame", messages::frame, messages::frames),
    decoder(
        "compression",
        messages::check_compressed,
        messages::conversations,
    ),
    decoder("recording", messages::recording, messages::recordings),
    decoder("comparison", messages::comparison, messages::sessions),
    decoder("application", messages::application, messages::applications),
    decoder("path", messages::path, messages::paths),
    decoder("cri", messages::cri, messages::cri_messages),
    decoder("join-token", enrol::token, enrol::tokens),
    decoder("jwt", enrol::jwt, enrol::jwts),
    decoder("certificate", enrol::certificate, enrol::certificates),
    decoder("request", enrol::request, enrol::requests),
    decoder("key", enrol::key, enrol::keys),
    decoder("edgecore-yaml", node::edgecore_yaml, node::edgecore_yamls),
    decoder("edgecore-db", node::edgecore_db, node::edgecore_dbs),
    decoder("store-db", node::store_db, node::store_dbs),
    decoder("static-pod", node::static_pod, node::static_pods),
    decoder("api-json", api::json, api::objects),
    decoder("api-yaml", api::yaml, api::yamls),
    decoder("api-protobuf", api::protobuf, api::protobufs),
    decoder("api-patch", api::patch, api::patches),
    decoder("api-apply", api::apply, api::apply_seeds),
    decoder("api-query", api::query, api::queries),
    decoder("api-definition", api::definition, api::definitions),
    decoder("mqtt", broker::packets, broker::conversations),
    decoder("dns", dns::packet, dns::packets),
    decoder("tunnel", tunnel::frame, tunnel::frames),
    decoder("websocket", tunnel::websocket, tunnel::sockets),
    decoder("spdy", tunnel::spdy, tunnel::execs),
];
