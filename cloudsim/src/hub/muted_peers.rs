//! A UDP socket that drops all packets of some peers: a half-open link for QUIC, whose keepalives are below its messages.

use std::{
    io::{self, IoSliceMut},
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use clock::HashSet;
use parking_lot::RwLock;
use quinn::{
    AsyncUdpSocket, UdpPoller,
    udp::{RecvMeta, Transmit},
};

/// The peers whose packets are dropped; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct MutedPeers(Arc<RwLock<HashSet<SocketAddr>>>);

impl MutedPeers {
    /// Sets whether this peer's packets are dropped.
    pub(super) fn set(&self, peer: SocketAddr, mute: bool) {
        let mut peers = self.0.write();
        if mute {
            peers.insert(peer);
        } else {
            peers.remove(&peer);
        }
    }

    fn has(&self, peer: &SocketAddr) -> bool {
        let peers = self.0.read();
        !peers.is_empty() && peers.contains(peer)
    }
}

/// A UDP socket with muted peers.
#[derive(Debug)]
pub(super) struct FilteredSocket {
    pub(super) inner: Arc<dyn AsyncUdpSocket>,
    pub(super) mute: MutedPeers,
}

impl AsyncUdpSocket for FilteredSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        self.inner.clone().create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        if self.mute.has(&transmit.destination) {
            Ok(())
        } else {
            self.inner.try_send(transmit)
        }
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let received = self.inner.poll_recv(cx, buffers, meta);
        if let Poll::Ready(Ok(count)) = received {
            // QUIC ignores an empty datagram
            meta.iter_mut()
                .take(count)
                .filter(|meta| self.mute.has(&meta.addr))
                .for_each(|meta| meta.len = 0);
        }
        received
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.inner.max_transmit_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}
