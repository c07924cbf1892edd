//! logind on a D-Bus of its own: a shutdown is announced by the test, and begins when nobody holds a lock any more.

use std::{
    fs::{self, File},
    io::Read,
    os::fd::OwnedFd,
    path::Path,
    process::Command,
    sync::{Arc, Mutex},
};

use anyhow::{Context, ensure};
use e2e::{Process, until};
use nix::{fcntl::OFlag, unistd::pipe2};
use tokio::runtime;
use zbus::{connection::Builder, interface};

const PATH: &str = "/org/freedesktop/login1";

/// A running bus with logind.
pub(crate) struct Logind {
    /// The address of the bus.
    pub(crate) address: String,
    locks: Arc<Mutex<Vec<Lock>>>,
    connection: zbus::Connection,
    runtime: runtime::Runtime,
    _bus: Process,
}

/// A lock that was given to a program: readable when the program has closed its end.
pub(crate) struct Lock {
    pub(crate) request: [String; 4],
    end: File,
}

struct Manager {
    locks: Arc<Mutex<Vec<Lock>>>,
}

#[interface(name = "org.freedesktop.login1.Manager")]
impl Manager {
    fn inhibit(
        &self,
        what: String,
        who: String,
        why: String,
        mode: String,
    ) -> zbus::fdo::Result<zbus::OwnedFd> {
        let failed = |error: nix::Error| zbus::fdo::Error::IOError(error.to_string());
        let (end, held): (OwnedFd, OwnedFd) =
            pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).map_err(failed)?;
        if let Ok(mut locks) = self.locks.lock() {
            locks.push(Lock {
                request: [what, who, why, mode],
                end: end.into(),
            });
        }
        Ok(held.into())
    }

    #[zbus(property, name = "InhibitDelayMaxUSec")]
    fn inhibit_delay_max(&self) -> u64 {
        60_000_000
    }

    #[zbus(property)]
    fn preparing_for_shutdown(&self) -> bool {
        false
    }
}

impl Logind {
    /// Starts a bus below `directory`, and logind on it.
    pub(crate) fn start(directory: &Path) -> anyhow::Result<Self> {
        let socket = directory.join("bus.sock");
        let address = format!("unix:path={}", socket.display());
        let config = directory.join("bus.conf");
        fs::write(
            &config,
            format!(
                "<busconfig><type>system</type><listen>{address}</listen><auth>EXTERNAL</auth>\
                 <policy context=\"default\"><allow send_destination=\"*\"/><allow eavesdrop=\"true\"/>\
                 <allow own=\"*\"/><allow user=\"*\"/></policy></busconfig>"
            ),
        )?;
        let mut command = Command::new("dbus-daemon");
        command
            .arg(format!("--config-file={}", config.display()))
            .args(["--nofork", "--nopidfile"]);
        let bus = Process::start("dbus-daemon", command, directory)?;
        until("the bus", || {
            std::os::unix::net::UnixStream::connect(&socket)
        })?;
        let locks = Arc::<Mutex<Vec<Lock>>>::default();
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let manager = Manager {
            locks: locks.clone(),
        };
        let connection = runtime.block_on(
            Builder::address(address.as_str())
                .name("org.freedesktop.login1")
                .serve_at(PATH, manager)
                .build(),
        )?;
        Ok(Self {
            address,
            locks,
            connection,
            runtime,
            _bus: bus,
        })
    }

    /// Announces that a shutdown begins, or that it was cancelled.
    pub(crate) fn announce(&self, begins: bool) -> anyhow::Result<()> {
        let (interface, body) = ("org.freedesktop.login1.Manager", (begins,));
        let sent =
            self.connection
                .emit_signal(None::<&str>, PATH, interface, "PrepareForShutdown", &body);
        Ok(self.runtime.block_on(sent)?)
    }

    /// Returns the number of locks that are held, and how the first of all was requested.
    pub(crate) fn locks(&self) -> anyhow::Result<(usize, [String; 4])> {
        let mut locks = self.locks.lock().ok().context("poisoned")?;
        let first = locks.first().context("no lock was requested")?;
        let request = first.request.clone();
        let held = locks.iter_mut().filter_map(|lock| {
            // an end of file means that the other end is closed
            lock.end.read(&mut [0]).err()
        });
        Ok((held.count(), request))
    }

    /// Waits until this number of locks is held.
    pub(crate) fn wait_held(&self, count: usize) -> anyhow::Result<()> {
        until("locks", || {
            let (held, _) = self.locks()?;
            ensure!(held == count, "{held} are held");
            Ok(())
        })
    }
}
