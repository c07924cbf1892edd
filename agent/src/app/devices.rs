//! Starts EventBus, DeviceTwin and DMI.

use std::sync::Arc;

use componentbase::Supervisor;
use objectstore::Store;
use tokio_util::sync::CancellationToken;

use super::{BROKER_DATABASE, Error};
use crate::{
    config::{self, Config, MqttMode},
    devicetwin::{
        self, DeviceTwin,
        dmi::{self, Dmi},
    },
    edgehub::EdgeHub,
    eventbus::{self, Bus, External, Internal, Requests},
    metamanager::{CloudMessages, DeviceObjects, RouterMessages},
};

/// The parts of the agent that DeviceTwin, DMI and EventBus are built from.
pub(super) struct Deps {
    pub(super) store: Arc<dyn Store>,
    pub(super) objects: DeviceObjects,
    pub(super) hub: EdgeHub,
    pub(super) device_messages: CloudMessages,
    pub(super) topic_messages: RouterMessages,
    /// Whether DMI runs.
    pub(super) serves_mappers: bool,
}

/// Starts those of them that are enabled.
pub(super) fn start(
    config: &Config,
    deps: Deps,
    supervisor: &mut Supervisor,
    shutdown: &CancellationToken,
) -> Result<(Option<DeviceTwin>, Option<Dmi>, Bus), Error> {
    let Deps {
        store,
        objects,
        hub,
        device_messages,
        topic_messages,
        serves_mappers,
    } = deps;
    let (bus, requests) = match &config.event_bus {
        None => (Bus::disabled(), Requests::none()),
        Some(wanted) => {
            let (internal, external) = brokers(config, wanted);
            let (store, hub) = (store.clone(), hub.clone());
            let (bus, requests, task) = eventbus::new(eventbus::Config {
                internal,
                external,
                store,
                hub,
                messages: topic_messages,
            })?;
            let task = if config.device_twin.is_some() {
                task
            } else {
                task.without_devices()
            };
            supervisor.supervise_optional("eventbus", task, shutdown);
            (bus, requests)
        }
    };
    let Some(wanted) = &config.device_twin else {
        return Ok((None, None, bus));
    };
    let (devices, task) = devicetwin::new(devicetwin::Config {
        node_name: config.node.name.clone(),
        store: store.clone(),
        objects,
        messages: device_messages,
        hub,
        bus: bus.clone(),
        requests,
    });
    supervisor.supervise_optional("devicetwin", task, shutdown);
    if !serves_mappers {
        return Ok((Some(devices), None, bus));
    }
    let directory = wanted.dmi_socket_dir.clone();
    let (dmi, mappers) = dmi::new(dmi::Config {
        directory,
        store,
        twin: devices.clone(),
    });
    supervisor.supervise_optional("dmi", mappers, shutdown);
    Ok((Some(devices), Some(dmi), bus))
}

pub(super) fn brokers(
    config: &Config,
    wanted: &config::EventBus,
) -> (Option<Internal>, Option<External>) {
    let internal = (wanted.mode != MqttMode::External).then(|| Internal {
        address: wanted.internal_server,
        tls: wanted.tls.clone().filter(|_| wanted.internal_tls),
        access: wanted.internal_access.clone(),
        database: Some(config.database.with_file_name(BROKER_DATABASE)),
        session_queue: usize::try_from(wanted.session_queue_size).unwrap_or(usize::MAX),
        qos: wanted.qos,
        retain: wanted.retain,
    });
    let external = (wanted.mode != MqttMode::Internal).then(|| External {
        server: wanted.external_server.clone(),
        tls: wanted.tls.clone(),
        client_id: wanted
            .client_id
            .clone()
            .unwrap_or_else(|| format!("edge-agent-{}", config.node.name)),
        username: wanted.username.clone(),
        password: wanted.password.clone(),
        // with retries, a lost answer would not be noticed
        qos: wanted.qos.max(1),
    });
    (internal, external)
}
