//! DMI, the Device Mapper Interface v1beta1: mappers register here, report, and get their devices.
//!
//! In: calls of mappers on the unix socket; devices and models of [`DeviceTwin`]. Out: calls to the mappers' own sockets;
//! reports to [`DeviceTwin`]. A mapper may register before its devices exist or after. The registry is on disk, so mappers go
//! on after a restart of the agent.
//!
//! | part | what |
//! |---|---|
//! | `convert`, `database`, `report` | conversion of objects for mappers, and of their reports; pure |
//! | `plan` | the calls that a mapper still needs; pure |
//! | `registry` | the mappers, on disk |
//! | `server`, `socket` | the service that mappers call |
//! | `mapper_sync`, `gather`, `client` | one for each mapper: sends it its devices |
//! | `presence` | one for each mapper: the state of devices whose mapper does not run |
//!
//! Source: KubeEdge's `edge/pkg/devicetwin/dmiserver` and `dmiclient`. Differences: calls are not limited to one a second; a
//! mapper that registers without data gets its devices by calls; a failed call is repeated.

mod calls;
mod client;
mod convert;
mod database;
mod gather;
mod mapper;
mod mapper_sync;
mod plan;
mod presence;
mod registry;
mod report;
mod server;
mod socket;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use componentbase::{Heartbeat, Metric, Part, PartError};
use objectstore::{Store, StoreError};
use tokio::{
    task::{JoinError, JoinSet},
    time::sleep,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tracing::warn;
use wire::{dmi, topic::DeviceId};

use self::{
    client::Client, mapper_sync::MapperSync, registry::Registry, server::DeviceManager,
    socket::Socket,
};
use super::DeviceTwin;

/// The file name of the socket.
const SOCKET_NAME: &str = "dmi.sock";
/// The wait after the socket could not be bound.
const BIND_RETRY_DELAY: Duration = Duration::from_secs(30);

/// What DMI needs.
#[derive(Debug)]
pub struct Config {
    /// The directory of the socket (`dmiSockPath`).
    pub directory: PathBuf,
    /// The store of the registry.
    pub store: Arc<dyn Store>,
    /// DeviceTwin, which has the devices.
    pub twin: DeviceTwin,
}

/// Why mappers are served no longer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The registry cannot be read.
    #[error("cannot read the registered mappers")]
    Store(#[from] StoreError),
    /// The server ended.
    #[error("the server for mappers has failed")]
    Serve(#[from] tonic::transport::Error),
    /// The task that sends mappers their devices has panicked: a defect of this program.
    #[error("the task that sends devices to mappers has ended; please report this with the log")]
    MapperSync(#[source] JoinError),
}

/// The handle; cheap to clone.
#[derive(Clone, Debug)]
pub struct Dmi {
    registry: Registry,
}

/// A registered mapper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapperView {
    /// The mapper's name.
    pub name: String,
    /// The mapper's version.
    pub version: String,
    /// The protocol of its devices.
    pub protocol: String,
    /// The path of its socket.
    pub socket: PathBuf,
}

impl Dmi {
    /// Returns the registered mappers.
    pub fn mappers(&self) -> Vec<MapperView> {
        let mappers = self.registry.mappers().borrow().clone();
        let view = |mapper: &mapper::Mapper| MapperView {
            name: mapper.name.clone(),
            version: mapper.version.clone(),
            protocol: mapper.protocol.clone(),
            socket: mapper.socket.clone(),
        };
        mappers
            .values()
            .map(|registered| view(&registered.mapper))
            .collect()
    }

    /// Returns metrics of the mappers and of the calls between them and this node.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        let mappers = self.registry.mappers().borrow().len() as u64;
        let registered = Metric::gauge("dmi_mappers", "Mappers registered over DMI.");
        vec![registered.of(mappers), self.registry.calls.metric()]
    }

    /// Returns a device as the mapper of a protocol knows it; `None` if there is no such mapper, it does not answer, or does
    /// not know the device.
    pub async fn get_device(&self, protocol: &str, device: &DeviceId) -> Option<dmi::Device> {
        let socket = self
            .registry
            .mappers()
            .borrow()
            .get(protocol)?
            .mapper
            .socket
            .clone();
        Client::new(&socket, self.registry.calls.clone())
            .get(device)
            .await
            .ok()
            .flatten()
    }
}

/// Serves mappers, and synchronizes each with its devices.
#[derive(Debug)]
pub struct Task {
    registry: Registry,
    twin: DeviceTwin,
    path: PathBuf,
    /// `None` if it could not be bound yet.
    socket: Option<Socket>,
}

/// Binds the socket; mappers are served from [`Task::run`] on. If the socket cannot be bound, the task tries again: a node runs
/// its pods all the same.
pub fn new(config: Config) -> (Dmi, Task) {
    let Config {
        directory,
        store,
        twin,
    } = config;
    let path = directory.join(SOCKET_NAME);
    let socket = bind(&path);
    let registry = Registry::new(store);
    (
        Dmi {
            registry: registry.clone(),
        },
        Task {
            registry,
            twin,
            path,
            socket,
        },
    )
}

fn bind(path: &Path) -> Option<Socket> {
    let failed = |error: &io::Error| {
        warn!(
            path = %path.display(),
            %error,
            "cannot listen for mappers; stop the other listener or set modules.deviceTwin.dmiSockPath to a \
             writable directory"
        );
    };
    Socket::bind(path).inspect_err(failed).ok()
}

impl Task {
    /// Runs until `shutdown`.
    pub async fn run(mut self, shutdown: CancellationToken) -> Result<(), Error> {
        self.run_restartable(&Heartbeat::unmonitored(), shutdown)
            .await
    }

    /// Runs until `shutdown`. The future may be dropped at any point and the method called again.
    async fn run_restartable(
        &mut self,
        heartbeat: &Heartbeat,
        shutdown: CancellationToken,
    ) -> Result<(), Error> {
        let Self {
            registry,
            twin,
            path,
            socket,
        } = self;
        heartbeat.beat();
        registry.load().await?;
        drop(heartbeat.idle());
        let manager = DeviceManager {
            twin: twin.clone(),
            registry: registry.clone(),
        };
        let syncing = componentbase::spawn(sync_mappers(
            registry.clone(),
            twin.clone(),
            heartbeat.for_loop("couriers"),
        ));
        let mut syncing = AbortOnDropHandle::new(syncing);
        let rest = heartbeat.idle();
        let bound = async {
            loop {
                match socket.take().or_else(|| bind(path)) {
                    Some(socket) => return socket,
                    None => sleep(BIND_RETRY_DELAY).await,
                }
            }
        };
        let serve = async {
            match shutdown.run_until_cancelled(bound).await {
                Some(socket) => Ok(socket.serve(manager, shutdown.clone()).await?),
                None => Ok(()),
            }
        };
        let ended = clock::select! {
            // cancel-safe: mappers call again, and get their calls again
            ended = serve => ended,
            ended = &mut syncing => match ended {
                // DeviceTwin has ended, too
                Ok(()) => {
                    shutdown.cancelled().await;
                    Ok(())
                }
                Err(error) => Err(Error::MapperSync(error)),
            },
        };
        drop(rest);
        ended
    }
}

impl Part for Task {
    async fn run(
        &mut self,
        heartbeat: Heartbeat,
        shutdown: CancellationToken,
    ) -> Result<(), PartError> {
        Ok(self.run_restartable(&heartbeat, shutdown).await?)
    }
}

/// Runs a synchronizer for each registration; a newer registration ends the one of the older registration.
async fn sync_mappers(registry: Registry, twin: DeviceTwin, heartbeat: Heartbeat) {
    let mut mappers = registry.mappers();
    let (mut running, mut registrations) = (JoinSet::new(), BTreeMap::new());
    loop {
        let newest = mappers.borrow_and_update().clone();
        registrations.retain(
            |protocol: &String, (_, mapper_sync): &mut (u64, tokio::task::AbortHandle)| {
                let stays = newest.contains_key(protocol);
                if !stays {
                    mapper_sync.abort();
                }
                stays
            },
        );
        for (protocol, registered) in newest.iter() {
            let known = registrations
                .get(protocol)
                .map(|(number, _): &(u64, tokio::task::AbortHandle)| *number);
            if known == Some(registered.number) {
                continue;
            }
            let mapper_sync = MapperSync::new(registered.clone(), registry.clone(), &twin);
            let presence = presence::watch(registered.mapper.clone(), twin.clone());
            let syncing = mapper_sync.run(heartbeat.for_loop("courier"));
            let handle = running.spawn(componentbase::in_span(async move {
                clock::select! {
                    // cancel-safe: the mapper or DeviceTwin is gone
                    () = syncing => {}
                    () = presence => {}
                }
            }));
            if let Some((_, older)) =
                registrations.insert(protocol.clone(), (registered.number, handle))
            {
                older.abort();
            }
        }
        let _rest = heartbeat.idle();
        clock::select! {
            // cancel-safe: a change that was not seen stays
            changed = mappers.changed() => if changed.is_err() { return },
            // cancel-safe: a finished task stays in the set until it is returned
            Some(ended) = running.join_next() => mapper_sync::check_end(ended),
        }
    }
}
