//! The mapper as a program: its socket, its registration, its end.

use std::{
    env, fs, io,
    os::unix::{
        fs::{FileTypeExt, MetadataExt},
        net::UnixStream,
    },
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::{net::UnixListener, time::sleep};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status, transport::Server};
use tracing::{info, warn};
use unixsocket::connections;
use wire::dmi::{MapperInfo, device_mapper_service_server::DeviceMapperServiceServer};

use crate::{Protocol, agent::Agent, keeper::Keeper, server::Service};

/// Where EdgeCore and `edge-agent` have their sockets unless they are told otherwise.
const DIRECTORY: &str = "/etc/kubeedge";
/// The first wait after the agent was not there; each is twice the one before it.
const SOON: Duration = Duration::from_millis(100);
/// The longest.
const LATE: Duration = Duration::from_secs(5);
/// How often the agent is asked whether it is still the same one. A mapper that it does not know registers again.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// Who a mapper is, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The protocol of its devices: `spec.protocol.protocolName`.
    pub protocol: String,
    /// The socket on which it serves. The agent dials it by this path, which has to mean the same to both.
    pub socket: PathBuf,
    /// The agent's socket.
    pub agent: PathBuf,
}

impl Config {
    /// Sockets in `/etc/kubeedge`, or where the variables `MAPPER_SOCKET` and `DMI_SOCKET` say.
    pub fn new(name: &str, protocol: &str) -> Self {
        let path = |variable: &str, file: String| {
            env::var_os(variable).map_or_else(|| Path::new(DIRECTORY).join(file), PathBuf::from)
        };
        Self {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            protocol: protocol.to_owned(),
            socket: path("MAPPER_SOCKET", format!("{name}.sock")),
            agent: path("DMI_SOCKET", "dmi.sock".to_owned()),
        }
    }
}

/// Why a mapper does not run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Its socket is another's, or its directory may not be written.
    #[error("the mapper cannot serve on {path}; choose another socket with MAPPER_SOCKET")]
    Bind {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The agent does not want it.
    #[error("the agent refuses the registration: {0}")]
    Refused(String),
    /// Its server has failed.
    #[error("the mapper's server has failed")]
    Serve(#[from] tonic::transport::Error),
}

/// A mapper of a protocol.
pub struct Mapper<P> {
    config: Config,
    keeper: Keeper<P>,
    agent: Agent,
    listener: UnixListener,
}

impl<P: Protocol> Mapper<P> {
    /// Binds the mapper's socket; what a mapper that is dead left behind is replaced. To be called within a runtime.
    pub fn bind(config: Config, protocol: P) -> Result<Self, RunError> {
        let listener =
            bind(&config.socket).map_err(|source| RunError::Bind { path: config.socket.clone(), source })?;
        let agent = Agent::new(&config.agent);
        Ok(Self { keeper: Keeper::new(protocol, agent.clone()), config, agent, listener })
    }

    /// Registers, as soon as there is an agent, and serves its devices until `shutdown`.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), RunError> {
        let Self { config, keeper, agent, listener } = self;
        let service = DeviceMapperServiceServer::new(Service(keeper.clone()));
        let server = Server::builder().add_service(service);
        let serving =
            server.serve_with_incoming_shutdown(connections(listener), shutdown.clone().cancelled_owned());
        let ended = tokio::select! {
            // cancel-safe: connections end with the program
            served = serving => served.map_err(RunError::from),
            // cancel-safe: an agent that was asked and not heard is asked by the next mapper
            refused = register(&config, &keeper, &agent) => Err(refused),
            // cancel-safe: a cancelled token stays cancelled
            () = shutdown.cancelled() => Ok(()),
        };
        let _ = fs::remove_file(&config.socket);
        ended
    }
}

/// Registers, and registers again when the agent is another one. Answers only when it is refused.
async fn register<P: Protocol>(config: &Config, keeper: &Keeper<P>, agent: &Agent) -> RunError {
    let info = || MapperInfo {
        name: config.name.clone(),
        version: config.version.clone(),
        api_version: "v1beta1".to_owned(),
        protocol: config.protocol.clone(),
        address: config.socket.to_string_lossy().into_owned().into(),
        state: "OK".to_owned(),
    };
    let mut wait = SOON;
    loop {
        let before = keeper.names();
        match agent.register(info()).await {
            Ok(answer) => {
                info!(devices = answer.device_list.len(), "the agent has taken the registration");
                keeper.begin(answer, before);
                wait = SOON;
                until_gone(&config.agent).await;
            }
            Err(status) if is_refusal(&status) => return RunError::Refused(status.message().to_owned()),
            Err(status) => {
                warn!(reason = status.message(), again_in = ?wait, "there is no agent");
                sleep(wait).await;
                wait = (wait * 2).min(LATE);
            }
        }
    }
}

fn is_refusal(status: &Status) -> bool {
    matches!(status.code(), Code::InvalidArgument | Code::Unimplemented | Code::PermissionDenied)
}

/// Waits until the agent's socket is no longer the one that it was: the agent has ended, or another has taken its place.
async fn until_gone(socket: &Path) {
    let begun = identity(socket);
    loop {
        sleep(CHECK_INTERVAL).await;
        if identity(socket) != begun {
            return;
        }
    }
}

/// What tells a file from another one under the same name.
fn identity(path: &Path) -> Option<(u64, i64, i64)> {
    let found = fs::symlink_metadata(path).ok()?;
    Some((found.ino(), found.ctime(), found.ctime_nsec()))
}

fn bind(path: &Path) -> io::Result<UnixListener> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => return Err(io::ErrorKind::AlreadyExists.into()),
        Ok(_) if UnixStream::connect(path).is_ok() => return Err(io::ErrorKind::AddrInUse.into()),
        Ok(_) => fs::remove_file(path)?,
        Err(_) => {}
    }
    UnixListener::bind(path)
}
