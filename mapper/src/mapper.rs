//! The mapper as a program: its socket, its registration and its shutdown.

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

/// The directory in which `EdgeCore` and `edge-agent` have their sockets by default.
const DIRECTORY: &str = "/etc/kubeedge";
/// The first pause after a failed attempt to reach the agent; each further one is twice as long.
const SOON: Duration = Duration::from_millis(100);
/// The longest pause after a failed attempt to reach the agent.
const LATE: Duration = Duration::from_secs(5);
/// The interval of checks whether the agent is still the same one. A mapper that the agent does not know registers again.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// The identity of a mapper and its sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The mapper's name.
    pub name: String,
    /// The mapper's version.
    pub version: String,
    /// The protocol of its devices, as in `spec.protocol.protocolName`.
    pub protocol: String,
    /// The socket on which it serves. The agent dials this path, so it must mean the same to both.
    pub socket: PathBuf,
    /// The agent's socket.
    pub agent: PathBuf,
}

impl Config {
    /// Creates a configuration with sockets in `/etc/kubeedge`, or at the paths in the variables `MAPPER_SOCKET` and `DMI_SOCKET`.
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

/// Why a mapper cannot run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Its socket is in use by another program, or its directory is not writable.
    #[error("the mapper cannot serve on {path}; choose another socket with MAPPER_SOCKET")]
    Bind {
        /// The socket's path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The agent refuses the registration.
    #[error("the agent refuses the registration: {0}")]
    Refused(String),
    /// The mapper's server has failed.
    #[error("the mapper's server has failed")]
    Serve(#[from] tonic::transport::Error),
}

/// A mapper of one protocol.
pub struct Mapper<P> {
    config: Config,
    keeper: Keeper<P>,
    agent: Agent,
    listener: UnixListener,
}

impl<P: Protocol> Mapper<P> {
    /// Binds the mapper's socket, and replaces the one that a dead mapper left behind. It must be called within a runtime.
    pub fn bind(config: Config, protocol: P) -> Result<Self, RunError> {
        let listener = bind(&config.socket).map_err(|source| RunError::Bind {
            path: config.socket.clone(),
            source,
        })?;
        let agent = Agent::new(&config.agent);
        Ok(Self {
            keeper: Keeper::new(protocol, agent.clone()),
            config,
            agent,
            listener,
        })
    }

    /// Registers as soon as there is an agent, and serves its devices until `shutdown`.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), RunError> {
        let Self {
            config,
            keeper,
            agent,
            listener,
        } = self;
        let service = DeviceMapperServiceServer::new(Service(keeper.clone()));
        let server = Server::builder().add_service(service);
        let serving = server.serve_with_incoming_shutdown(
            connections(listener),
            shutdown.clone().cancelled_owned(),
        );
        let ended = tokio::select! {
            // cancel-safe: connections end with the program
            served = serving => served.map_err(RunError::from),
            // cancel-safe: a registration without an answer is repeated by the next mapper
            refused = register(&config, &keeper, &agent) => Err(refused),
            // cancel-safe: a cancelled token stays cancelled
            () = shutdown.cancelled() => Ok(()),
        };
        let _ = fs::remove_file(&config.socket);
        ended
    }
}

/// Registers, and registers again when the agent is a new one. Returns only if the agent refuses.
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
                info!(
                    devices = answer.device_list.len(),
                    "registered with the agent"
                );
                keeper.begin(answer, before);
                wait = SOON;
                until_gone(&config.agent).await;
            }
            Err(status) if is_refusal(&status) => {
                return RunError::Refused(status.message().to_owned());
            }
            Err(status) => {
                warn!(error = status.message(), retry_in = ?wait, "failed to register with the agent; retrying");
                sleep(wait).await;
                wait = (wait * 2).min(LATE);
            }
        }
    }
}

fn is_refusal(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::InvalidArgument | Code::Unimplemented | Code::PermissionDenied
    )
}

/// Waits until the agent's socket is no longer the same file: the agent has ended, or a new one has taken its place.
async fn until_gone(socket: &Path) {
    let begun = identity(socket);
    loop {
        sleep(CHECK_INTERVAL).await;
        if identity(socket) != begun {
            return;
        }
    }
}

/// Returns what distinguishes a file from another one with the same name.
fn identity(path: &Path) -> Option<(u64, i64, i64)> {
    let found = fs::symlink_metadata(path).ok()?;
    Some((found.ino(), found.ctime(), found.ctime_nsec()))
}

fn bind(path: &Path) -> io::Result<UnixListener> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        Ok(_) if UnixStream::connect(path).is_ok() => return Err(io::ErrorKind::AddrInUse.into()),
        Ok(_) => fs::remove_file(path)?,
        Err(_) => {}
    }
    UnixListener::bind(path)
}
