//! The kernel's send buffer of a UDP server that answers whatever address a packet has.

use std::{io, os::fd::AsFd};

use nix::sys::socket::{
    setsockopt,
    sockopt::{SndBuf, SndBufForce},
};

/// The size of the buffer, bytes; the kernel allocates twice as much. Packets for a neighbour that does not resolve take 208 KiB at most
/// and are dropped after three seconds, so some thirty such neighbours leave room for others.
const SEND_BUFFER: usize = 8 * 1024 * 1024;

/// Enlarges the send buffer of a UDP socket, so that packets for neighbours that nobody is, to which forged sources lead, do not fill it.
/// Without the capability `CAP_NET_ADMIN` the kernel's limit `net.core.wmem_max` applies.
///
/// # Errors
/// The kernel refuses any other size.
pub fn enlarge_send_buffer(socket: &impl AsFd) -> io::Result<()> {
    if setsockopt(socket, SndBufForce, &SEND_BUFFER).is_err() {
        setsockopt(socket, SndBuf, &SEND_BUFFER)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use nix::sys::socket::getsockopt;

    use super::*;

    #[test]
    fn a_socket_gets_more_room_than_by_default() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let before = getsockopt(&socket, SndBuf).unwrap();
        enlarge_send_buffer(&socket).unwrap();
        assert!(getsockopt(&socket, SndBuf).unwrap() > before);
    }
}
