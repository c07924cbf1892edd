//! Notifications of the kernel that the network has changed: an address, route or carrier came or went (rtnetlink(7)).
//!
//! A notification is only a hint: a waiting dial starts at once, and an established connection is pinged. Without it both
//! happen a little later.

mod notice;

use std::{
    io,
    os::{fd::AsRawFd, unix::net::UnixDatagram as StdDatagram},
    time::Duration,
};

use nix::{
    errno::Errno,
    sys::socket::{AddressFamily, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, socket},
};
use tokio::{net::UnixDatagram, sync::watch, time::sleep};
use tracing::{trace, warn};

use self::notice::Notices;

/// `RTMGRP_LINK`, `RTMGRP_IPV4_IFADDR`, `RTMGRP_IPV4_ROUTE`, `RTMGRP_IPV6_IFADDR`, `RTMGRP_IPV6_ROUTE` of `linux/rtnetlink.h`.
const NOTIFICATION_GROUPS: u32 = 0x1 | 0x10 | 0x40 | 0x100 | 0x400;
/// The largest datagram of notices, bytes; longer ones are cut, which loses nothing that is needed.
const MAX_DATAGRAM_BYTES: usize = 16 * 1024;
/// Changes come in bursts (an address, its routes): one hint is sent for each burst.
const DEBOUNCE_PERIOD: Duration = Duration::from_millis(50);

/// The changes; each reader has its own receiver.
#[derive(Clone, Debug)]
pub(super) struct NetworkChanges(watch::Receiver<u64>);

impl NetworkChanges {
    /// Returns a reader of changes from now on.
    pub(super) fn subscribe(&self) -> Self {
        let mut changes = self.0.clone();
        changes.mark_unchanged();
        Self(changes)
    }

    /// Waits for the next change after the last call; for ever if the kernel cannot be asked. Cancel-safe.
    pub(super) async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending().await
        }
    }
}

/// Watches the kernel's notices.
#[derive(Debug)]
pub(super) struct Watcher {
    hints: watch::Sender<u64>,
}

impl Watcher {
    pub(super) fn new() -> (Self, NetworkChanges) {
        let (hints, changes) = watch::channel(0);
        (Self { hints }, NetworkChanges(changes))
    }

    /// Runs for ever.
    pub(super) async fn run(self) {
        let error = match open().and_then(UnixDatagram::from_std) {
            Ok(socket) => self.follow(socket).await,
            Err(error) => error,
        };
        warn!(%error, "cannot watch network changes; lost connections are detected later");
        std::future::pending().await
    }

    /// Reads until the socket fails.
    async fn follow(&self, socket: UnixDatagram) -> io::Error {
        let mut datagram = vec![0; MAX_DATAGRAM_BYTES];
        let mut notices = Notices::default();
        loop {
            match notices.receive(socket.recv(&mut datagram).await, &datagram) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(error) => return error,
            }
            sleep(DEBOUNCE_PERIOD).await;
            // the same hint covers everything that came meanwhile
            loop {
                match socket.try_recv(&mut datagram) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    received => {
                        if let Err(error) = notices.receive(received, &datagram) {
                            return error;
                        }
                    }
                }
            }
            self.hint();
        }
    }

    /// Notifies all readers.
    pub(super) fn hint(&self) {
        trace!("the network has changed");
        self.hints.send_modify(|count| *count += 1);
    }
}

impl Notices {
    /// Reports whether a received datagram may be relevant.
    fn receive(&mut self, received: io::Result<usize>, datagram: &[u8]) -> io::Result<bool> {
        match received {
            Ok(size) => Ok(self.is_relevant(datagram.get(..size).unwrap_or_default())),
            // notices were dropped: they may have been relevant
            Err(error) if error.raw_os_error() == Some(Errno::ENOBUFS as i32) => {
                self.forget();
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }
}

/// Opens the socket as a datagram socket, which it is: only `recv` is called on it.
fn open() -> io::Result<StdDatagram> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        flags,
        SockProtocol::NetlinkRoute,
    )?;
    bind(
        socket.as_raw_fd(),
        &NetlinkAddr::new(0, NOTIFICATION_GROUPS),
    )?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests;
