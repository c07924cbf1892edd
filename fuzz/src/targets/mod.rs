//! The targets: one for every decoder.

mod api;
mod broker;
mod enrol;
mod messages;
mod node;

/// A decoder under test.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name on the command line.
    pub name: &'static str,
    /// Feeds it; panics where it does.
    pub run: fn(&[u8]),
    /// What good inputs look like.
    pub corpus: fn() -> Vec<Vec<u8>>,
}

const fn target(name: &'static str, run: fn(&[u8]), corpus: fn() -> Vec<Vec<u8>>) -> Target {
    Target { name, run, corpus }
}

/// Every decoder.
pub const TARGETS: [Target; 23] = [
    target("json", messages::json, messages::recorded),
    target("frame", messages::frame, messages::frames),
    target("compression", messages::compressed, messages::conversations),
    target("application", messages::application, messages::applications),
    target("path", messages::path, messages::paths),
    target("cri", messages::cri, messages::cri_messages),
    target("join-token", enrol::token, enrol::tokens),
    target("jwt", enrol::jwt, enrol::jwts),
    target("certificate", enrol::certificate, enrol::certificates),
    target("request", enrol::request, enrol::requests),
    target("key", enrol::key, enrol::keys),
    target("edgecore-yaml", node::edgecore_yaml, node::edgecore_yamls),
    target("edgecore-db", node::edgecore_db, node::edgecore_dbs),
    target("store-db", node::store_db, node::store_dbs),
    target("static-pod", node::static_pod, node::static_pods),
    target("api-json", api::json, api::objects),
    target("api-yaml", api::yaml, api::yamls),
    target("api-protobuf", api::protobuf, api::protobufs),
    target("api-patch", api::patch, api::patches),
    target("api-apply", api::apply, api::applied),
    target("api-query", api::query, api::queries),
    target("api-definition", api::definition, api::definitions),
    target("mqtt", broker::packets, broker::conversations),
];
