//! DMI, the Device Mapper Interface v1beta1: mappers register here and report, and are told of their devices.
//!
//! In: calls of mappers on the unix socket; devices and models of [`DeviceTwin`]. Out: calls of the mappers' own sockets; reports
//! for [`DeviceTwin`]. A mapper may come before its devices or after them; the registry is on disk, so that neither has to begin
//! anew when the agent does.
//!
//! | part | what |
//! |---|---|
//! | `convert`, `database`, `report` | objects as mappers get them, reports as they give them; pure |
//! | `plan` | what a mapper has yet to be told; pure |
//! | `registry` | the mappers, on disk |
//! | `server`, `socket` | what mappers call |
//! | `courier`, `gather`, `client` | one mapper each: tells it of its devices |
//!
//! Source: KubeEdge's `edge/pkg/devicetwin/dmiserver` and `dmiclient`. Differences: no limit of one call a second; a mapper that
//! registers without data is told of its devices by calls; a call that failed is made again.

mod calls;
mod client;
mod convert;
mod courier;
mod database;
mod gather;
mod mapper;
mod plan;
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

use kubeapi::store::{Store, StoreError};
use tokio::{
    task::{JoinError, JoinSet},
    time::sleep,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tracing::warn;
use wire::{dmi, topic::DeviceId};

use self::{client::Client, courier::Courier, registry::Registry, server::Manager, socket::Socket};
use super::DeviceTwin;
use crate::rt::{Heart, Metric, Part, PartError};

/// The name of the socket in its directory.
const SOCKET: &str = "dmi.sock";
/// After the socket could not be bound.
const BIND_AGAIN: Duration = Duration::from_secs(30);

/// What the interface needs.
#[derive(Debug)]
pub struct Config {
    /// The directory of the socket (`dmiSockPath`).
    pub directory: PathBuf,
    /// Where the registry is kept.
    pub store: Arc<dyn Store>,
    /// The devices.
    pub twin: DeviceTwin,
}

/// Why mappers are served no longer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The registry cannot be read.
    #[error("the mappers that were registered cannot be read")]
    Store(#[from] StoreError),
    /// The server ended.
    #[error("the server for mappers has failed")]
    Serve(#[from] tonic::transport::Error),
    /// What tells mappers of their devices has panicked: a defect of this program.
    #[error("mappers are not told of their devices any more; please report this with the log")]
    Couriers(#[source] JoinError),
}

/// The handle; cheap to clone.
#[derive(Clone, Debug)]
pub struct Dmi {
    registry: Registry,
}

/// A mapper, for whoever asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapperView {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The protocol of its devices.
    pub protocol: String,
    /// Its socket.
    pub socket: PathBuf,
}

impl Dmi {
    /// The registered mappers.
    pub fn mappers(&self) -> Vec<MapperView> {
        let mappers = self.registry.mappers().borrow().clone();
        let view = |mapper: &mapper::Mapper| MapperView {
            name: mapper.name.clone(),
            version: mapper.version.clone(),
            protocol: mapper.protocol.clone(),
            socket: mapper.socket.clone(),
        };
        mappers.values().map(|registered| view(&registered.mapper)).collect()
    }

    /// The mappers and the calls between them and this node, as figures.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        let mappers = self.registry.mappers().borrow().len() as u64;
        let registered =
            Metric::gauge("dmi_mappers", "Mappers that have registered over the Device Mapper Interface.");
        vec![registered.of(mappers), self.registry.calls.metric()]
    }

    /// What the mapper of a protocol knows of a device; `None` where there is no such mapper, it does not answer, or it knows
    /// nothing.
    pub async fn ask(&self, protocol: &str, device: &DeviceId) -> Option<dmi::Device> {
        let socket = self.registry.mappers().borrow().get(protocol)?.mapper.socket.clone();
        Client::new(&socket, self.registry.calls.clone()).get(device).await.ok().flatten()
    }
}

/// The task: it serves mappers, and keeps a courier for each.
#[derive(Debug)]
pub struct Task {
    registry: Registry,
    twin: DeviceTwin,
    path: PathBuf,
    /// `None`: it could not be bound yet.
    socket: Option<Socket>,
}

/// Binds the socket; mappers are served from [`Task::run`] on. Where the socket cannot be bound, the task tries again: a node
/// runs its pods all the same.
pub fn new(config: Config) -> (Dmi, Task) {
    let Config { directory, store, twin } = config;
    let path = directory.join(SOCKET);
    let socket = bind(&path);
    let registry = Registry::new(store);
    (Dmi { registry: registry.clone() }, Task { registry, twin, path, socket })
}

fn bind(path: &Path) -> Option<Socket> {
    let failed = |error: &io::Error| {
        warn!(
            path = %path.display(),
            %error,
            "mappers cannot be served; stop whoever listens there, or set modules.deviceTwin.dmiSockPath to a directory that \
             the agent may write to"
        );
    };
    Socket::bind(path).inspect_err(failed).ok()
}

impl Task {
    /// Runs until `shutdown`.
    pub async fn run(mut self, shutdown: CancellationToken) -> Result<(), Error> {
        self.run_again(&Heart::unheard(), shutdown).await
    }

    /// The same for whoever may drop it in its middle, and call it again.
    async fn run_again(&mut self, heart: &Heart, shutdown: CancellationToken) -> Result<(), Error> {
        let Self { registry, twin, path, socket } = self;
        heart.beat();
        registry.load().await?;
        drop(heart.rest());
        let manager = Manager { twin: twin.clone(), registry: registry.clone() };
        let couriers = tokio::spawn(couriers(registry.clone(), twin.clone(), heart.another("couriers")));
        let mut couriers = AbortOnDropHandle::new(couriers);
        let rest = heart.rest();
        let bound = async {
            loop {
                match socket.take().or_else(|| bind(path)) {
                    Some(socket) => return socket,
                    None => sleep(BIND_AGAIN).await,
                }
            }
        };
        let serve = async {
            match shutdown.run_until_cancelled(bound).await {
                Some(socket) => Ok(socket.serve(manager, shutdown.clone()).await?),
                None => Ok(()),
            }
        };
        let ended = tokio::select! {
            // cancel-safe, both: mappers call again, and are told again
            ended = serve => ended,
            couriers = &mut couriers => match couriers {
                // with DeviceTwin
                Ok(()) => {
                    shutdown.cancelled().await;
                    Ok(())
                }
                Err(error) => Err(Error::Couriers(error)),
            },
        };
        drop(rest);
        ended
    }
}

impl Part for Task {
    async fn run(&mut self, heart: Heart, shutdown: CancellationToken) -> Result<(), PartError> {
        Ok(self.run_again(&heart, shutdown).await?)
    }
}

/// One courier for each registration; a newer registration ends the courier of the older one.
async fn couriers(registry: Registry, twin: DeviceTwin, heart: Heart) {
    let mut mappers = registry.mappers();
    let (mut running, mut turns) = (JoinSet::new(), BTreeMap::new());
    loop {
        let newest = mappers.borrow_and_update().clone();
        turns.retain(|protocol: &String, (_, courier): &mut (u64, tokio::task::AbortHandle)| {
            let stays = newest.contains_key(protocol);
            if !stays {
                courier.abort();
            }
            stays
        });
        for (protocol, registered) in newest.iter() {
            let known = turns.get(protocol).map(|(turn, _): &(u64, tokio::task::AbortHandle)| *turn);
            if known == Some(registered.turn) {
                continue;
            }
            let courier = Courier::new(registered.clone(), registry.clone(), &twin);
            let handle = running.spawn(courier.run(heart.another("courier")));
            if let Some((_, older)) = turns.insert(protocol.clone(), (registered.turn, handle)) {
                older.abort();
            }
        }
        let _rest = heart.rest();
        tokio::select! {
            // cancel-safe: a change that was not seen stays
            changed = mappers.changed() => if changed.is_err() { return },
            // cancel-safe: what has ended stays in the set until it is returned
            Some(ended) = running.join_next() => courier::ended(ended),
        }
    }
}
