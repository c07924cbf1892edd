//! TCP keepalive: the kernel finds out that the other end of a connection has vanished, although nothing is sent.

use std::{io, os::fd::AsFd, time::Duration};

use nix::sys::socket::{
    setsockopt,
    sockopt::{KeepAlive, TcpKeepCount, TcpKeepIdle, TcpKeepInterval},
};

/// How long a connection may be silent before it is probed.
pub const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
/// The time between two probes.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// The number of probes without an answer after which the connection ends.
pub const KEEPALIVE_RETRIES: u32 = 4;

/// Lets the kernel probe the other end of a TCP connection that is silent, and end the connection two minutes after the last answer.
///
/// # Errors
/// The socket is no TCP socket, or was closed.
pub fn set_keepalive(socket: &impl AsFd) -> io::Result<()> {
    setsockopt(socket, KeepAlive, &true)?;
    setsockopt(socket, TcpKeepIdle, &(KEEPALIVE_IDLE.as_secs() as u32))?;
    setsockopt(
        socket,
        TcpKeepInterval,
        &(KEEPALIVE_INTERVAL.as_secs() as u32),
    )?;
    Ok(setsockopt(socket, TcpKeepCount, &KEEPALIVE_RETRIES)?)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use nix::sys::socket::getsockopt;

    use super::*;

    #[test]
    fn a_silent_connection_is_probed_after_a_minute() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(!getsockopt(&stream, KeepAlive).unwrap());
        set_keepalive(&stream).unwrap();
        assert!(getsockopt(&stream, KeepAlive).unwrap());
        let set = (
            getsockopt(&stream, TcpKeepIdle),
            getsockopt(&stream, TcpKeepInterval),
        );
        assert_eq!(set, (Ok(60), Ok(15)));
    }
}
