//! logind over D-Bus: the lock that delays a shutdown, and the signal that announces one.
//!
//! Source: <https://systemd.io/INHIBITOR_LOCKS/>.

use std::{io, os::fd::OwnedFd, path::Path, time::Duration};

use componentbase::replace_file;
use futures::{Stream, StreamExt};
use tokio::time::timeout;
use zbus::{Connection, Proxy, connection::Builder, proxy};

/// How long a call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// The file by which the kubelet, too, changes the maximum delay of logind.
const OVERRIDE: &str = "/etc/systemd/logind.conf.d/99-kubelet.conf";
/// Mode of this file.
const OVERRIDE_MODE: u32 = 0o644;
/// SIGHUP, with which logind reads its configuration again.
const HANGUP: i32 = 1;

/// Why the shutdown cannot be delayed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The system's bus or logind does not answer.
    #[error("cannot reach logind over D-Bus")]
    Bus(#[from] zbus::Error),
    /// They hang.
    #[error("logind does not answer")]
    Timeout,
    /// The maximum delay of logind cannot be changed.
    #[error("cannot write {OVERRIDE}")]
    Override(#[source] io::Error),
    /// The changed delay has no effect.
    #[error(
        "the shutdown takes up to {wanted:?}, but logind delays it only for {allowed:?}: set InhibitDelayMaxSec in logind.conf"
    )]
    TooShort { wanted: Duration, allowed: Duration },
}

/// A connection to logind.
pub(super) struct Logind {
    connection: Connection,
    manager: Proxy<'static>,
}

/// The lock that delays a shutdown until it is dropped.
pub(super) struct InhibitLock {
    _file: OwnedFd,
}

impl Logind {
    /// Connects to the system's bus.
    pub(super) async fn connect() -> Result<Self, Error> {
        let connecting = async {
            let bus = Builder::system().method_timeout(CALL_TIMEOUT);
            let connection = bus.build().await?;
            let manager = proxy::Builder::new(&connection)
                .destination("org.freedesktop.login1")
                .path("/org/freedesktop/login1")
                .interface("org.freedesktop.login1.Manager")
                .cache_properties(proxy::CacheProperties::No)
                .build()
                .await?;
            Ok(Self {
                connection,
                manager,
            })
        };
        timeout(CALL_TIMEOUT, connecting)
            .await
            .map_err(|_| Error::Timeout)?
    }

    /// Makes sure that logind delays a shutdown for as long as the periods take, as the kubelet does.
    pub(super) async fn allow_delay(&self, wanted: Duration) -> Result<(), Error> {
        if self.allowed_delay().await? >= wanted {
            return Ok(());
        }
        let text = override_text(wanted);
        let written = componentbase::spawn_blocking(move || {
            replace_file(Path::new(OVERRIDE), text.as_bytes(), OVERRIDE_MODE)
        });
        let written = written.await.unwrap_or_else(|error| Err(error.into()));
        written.map_err(Error::Override)?;
        let systemd = "org.freedesktop.systemd1";
        let systemd = Proxy::new(
            &self.connection,
            systemd,
            "/org/freedesktop/systemd1",
            "org.freedesktop.systemd1.Manager",
        );
        let hangup = ("systemd-logind.service", "all", HANGUP);
        let _: () = systemd.await?.call("KillUnit", &hangup).await?;
        let allowed = self.allowed_delay().await?;
        if allowed >= wanted {
            Ok(())
        } else {
            Err(Error::TooShort { wanted, allowed })
        }
    }

    async fn allowed_delay(&self) -> Result<Duration, Error> {
        let microseconds: u64 = self.manager.get_property("InhibitDelayMaxUSec").await?;
        Ok(Duration::from_micros(microseconds))
    }

    /// Takes the lock.
    pub(super) async fn inhibit(&self) -> Result<InhibitLock, Error> {
        let request = (
            "shutdown",
            "edge-agent",
            "edge-agent needs time to end the pods of this node",
            "delay",
        );
        let file: zbus::OwnedFd = self.manager.call("Inhibit", &request).await?;
        Ok(InhibitLock { _file: file.into() })
    }

    /// Reports whether the machine is shutting down now.
    pub(super) async fn is_shutting_down(&self) -> Result<bool, Error> {
        Ok(self.manager.get_property("PreparingForShutdown").await?)
    }

    /// Returns the announcements: `true` when a shutdown begins, `false` when it was cancelled. Ends with the connection.
    pub(super) async fn announcements(
        &self,
    ) -> Result<impl Stream<Item = bool> + Unpin + use<>, Error> {
        let signals = self.manager.receive_signal("PrepareForShutdown").await?;
        let announced = signals.filter_map(|signal| {
            std::future::ready(signal.body().deserialize::<(bool,)>().ok().map(|one| one.0))
        });
        Ok(Box::pin(announced))
    }
}

/// Returns the file that allows this delay.
fn override_text(wanted: Duration) -> String {
    format!(
        "# Kubelet logind override\n[Login]\nInhibitDelayMaxSec={}\n",
        wanted.as_secs()
    )
}
