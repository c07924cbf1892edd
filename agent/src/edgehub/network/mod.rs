//! Word of the kernel that the network has changed: an address, a route or a carrier came or went (rtnetlink(7)).
//!
//! Only a hint: a dial that waits is made at once, and a connection that stands is asked for a sign of life. Without it both
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
const GROUPS: u32 = 0x1 | 0x10 | 0x40 | 0x100 | 0x400;
/// A datagram of notices; longer ones are cut, which loses nothing that is needed.
const DATAGRAM: usize = 16 * 1024;
/// Changes come in bursts (an address, its routes): one hint for each burst.
const SETTLE: Duration = Duration::from_millis(50);

/// Hints; each reader has its own.
#[derive(Clone, Debug)]
pub(super) struct Network(watch::Receiver<u64>);

impl Network {
    /// A reader of changes that come from now on.
    pub(super) fn later(&self) -> Self {
        let mut changes = self.0.clone();
        changes.mark_unchanged();
        Self(changes)
    }

    /// The next change after the last call. Cancel-safe. Never, where the kernel cannot be asked.
    pub(super) async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending().await
        }
    }
}

/// The socket on which the kernel tells.
#[derive(Debug)]
pub(super) struct Watcher {
    hints: watch::Sender<u64>,
}

impl Watcher {
    pub(super) fn new() -> (Self, Network) {
        let (hints, changes) = watch::channel(0);
        (Self { hints }, Network(changes))
    }

    /// Runs for ever.
    pub(super) async fn run(self) {
        let error = match open().and_then(UnixDatagram::from_std) {
            Ok(socket) => self.follow(socket).await,
            Err(error) => error,
        };
        warn!(%error, "changes of the network are not told; connections are found dead a little later");
        std::future::pending().await
    }

    /// Until the socket fails.
    async fn follow(&self, socket: UnixDatagram) -> io::Error {
        let mut datagram = vec![0; DATAGRAM];
        let mut notices = Notices::default();
        loop {
            match notices.receive(socket.recv(&mut datagram).await, &datagram) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(error) => return error,
            }
            sleep(SETTLE).await;
            // all that came meanwhile is said by the same hint
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

    /// Tells all readers.
    pub(super) fn hint(&self) {
        trace!("the network has changed");
        self.hints.send_modify(|count| *count += 1);
    }
}

impl Notices {
    /// Whether what was received may matter.
    fn receive(&mut self, received: io::Result<usize>, datagram: &[u8]) -> io::Result<bool> {
        match received {
            Ok(size) => Ok(self.matter(datagram.get(..size).unwrap_or_default())),
            // more was to be told than fits: it may have mattered
            Err(error) if error.raw_os_error() == Some(Errno::ENOBUFS as i32) => {
                self.missed();
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }
}

/// The socket is handled as a socket of datagrams, which it is: nothing but `recv` is called on it.
fn open() -> io::Result<StdDatagram> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute)?;
    bind(socket.as_raw_fd(), &NetlinkAddr::new(0, GROUPS))?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests;
