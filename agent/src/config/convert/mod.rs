//! Converts the written form to the typed one. Every value is checked even after an error, so that all are reported together.

use std::{collections::BTreeMap, path::Path};

use super::{
    file::{File, Status},
    header::{API_VERSION, KIND},
    report::Report,
    typed::{Config, DatabaseKeys, StatusSocket},
};

mod cgroups;
mod edge_hub;
mod edge_mesh;
mod edged;
mod eviction;
mod housekeeping;
mod service_bus;
mod services;
mod shutdown;
mod values;

pub use self::eviction::disabled_thresholds as disabled_eviction;
use self::values::Values;
pub(super) use self::values::parse_host_port;

/// The name of the socket of the agent's state.
const STATUS_SOCKET: &str = "edge-agent.sock";
/// The feature gate that makes MetaServer authenticate callers.
const REQUIRE_AUTHORIZATION: &str = "requireAuthorization";
/// EdgeCore's other gates, also off by default.
const UNUSED_GATES: [&str; 2] = ["disableCSIVolumePlugin", "moduleRestart"];

/// Returns the typed configuration, to be used only if `report` has no error.
pub(super) fn convert(file: File, report: &mut Report) -> Config {
    let mut values = Values::new(report);
    let modules = file.modules;
    identify(&file.api_version, &file.kind, &mut values);
    for (enabled, path) in [
        (modules.edge_hub.enable, "modules.edgeHub.enable"),
        (modules.meta_manager.enable, "modules.metaManager.enable"),
    ] {
        if !enabled {
            values.error(
                path,
                "is false, but nothing works without this module; remove the line",
            );
        }
    }
    edged::check_unused(&modules.edged, &mut values);
    let requires_authorization = feature_gates(&file.feature_gates, &mut values);
    let database = values.path("database.dataSource", file.database.data_source);
    Config {
        status: status_socket(file.status, &database, &mut values),
        node: edged::node(&modules.edged, &mut values),
        edged: edged::pods(&modules.edged, &mut values),
        edge_hub: edge_hub::convert(modules.edge_hub, &mut values),
        database,
        database_keys: database_keys(file.database.key_file, file.database.keyring, &mut values),
        meta_manager: services::meta_manager(
            modules.meta_manager,
            requires_authorization,
            &mut values,
        ),
        event_bus: services::event_bus(modules.event_bus, &mut values),
        device_twin: services::device_twin(modules.device_twin, &mut values),
        edge_stream: services::edge_stream(modules.edge_stream, &mut values),
        service_bus: service_bus::convert(modules.service_bus, &mut values),
        task_manager: services::task_manager(&modules.task_manager, &mut values),
        edge_mesh: edge_mesh::convert(modules.edge_mesh, &mut values),
        require_authorization: requires_authorization,
    }
}

/// Returns the socket of the agent's state, by default beside the database.
fn status_socket(file: Status, database: &Path, values: &mut Values<'_>) -> StatusSocket {
    let written = values.optional_path("status.socket", file.socket);
    StatusSocket {
        socket: written.unwrap_or_else(|| database.with_file_name(STATUS_SOCKET)),
        group: (!file.group.is_empty()).then_some(file.group),
    }
}

fn database_keys(file: String, keyring: String, values: &mut Values<'_>) -> Option<DatabaseKeys> {
    if !file.is_empty() && !keyring.is_empty() {
        values.error(
            "database.keyring",
            "is set together with database.keyFile; remove one of them",
        );
    }
    match values.optional_path("database.keyFile", file) {
        Some(file) => Some(DatabaseKeys::File(file)),
        None => (!keyring.is_empty()).then_some(DatabaseKeys::Keyring(keyring)),
    }
}

/// Returns whether MetaServer authenticates callers, the only feature gate that is used.
fn feature_gates(written: &BTreeMap<String, bool>, values: &mut Values<'_>) -> bool {
    for (name, is_on) in written {
        if UNUSED_GATES.contains(&name.as_str()) {
            if *is_on {
                values.warn_unused(format!("featureGates.{name}"));
            }
        } else if name != REQUIRE_AUTHORIZATION {
            values.unknown(format!("featureGates.{name}"), REQUIRE_AUTHORIZATION);
        }
    }
    written
        .get(REQUIRE_AUTHORIZATION)
        .copied()
        .unwrap_or_default()
}

fn identify(api_version: &str, kind: &str, values: &mut Values<'_>) {
    if kind != KIND {
        values.error(
            "kind",
            format!("is {kind:?}, but must be {KIND}; this is another program's file"),
        );
    }
    if api_version == "edgecore.config.kubeedge.io/v1alpha1" {
        let cure = "move the settings into a new file from `edge-agent --minconfig`";
        values.error(
            "apiVersion",
            format!("is the form of KubeEdge before 1.12; {cure}"),
        );
    } else if api_version != API_VERSION {
        values.error(
            "apiVersion",
            format!("is {api_version:?}, but must be {API_VERSION}"),
        );
    }
}
