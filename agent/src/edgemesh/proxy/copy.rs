//! Bytes between the two ends of a connection.

use std::{io, os::fd::AsRawFd};

use nix::{
    errno::Errno,
    sys::socket::{Shutdown, shutdown},
};
use tokio::{io::Interest, net::TcpStream, pin, task::coop::consume_budget};

/// Bytes that are on their way in each direction of a connection.
const BUFFER: usize = 16 * 1024;

/// Hands on what each end sends, and that it has ended, until both have. An end that has ended and is then gone altogether, as a
/// program that was killed, is found out though nothing is sent to it: by its reset, or by keepalive.
///
/// # Errors
/// One end has broken off.
pub(super) async fn both_ways(client: &TcpStream, server: &TcpStream) -> io::Result<()> {
    let (there, back) = (one_way(client, server), one_way(server, client));
    pin!(there, back);
    tokio::select! {
        // cancel-safe, all: what is broken off is not gone on with
        ended = &mut there => {
            ended?;
            tokio::select! {
                ended = &mut back => ended,
                gone = gone(client) => gone,
            }
        }
        ended = &mut back => {
            ended?;
            tokio::select! {
                ended = &mut there => ended,
                gone = gone(server) => gone,
            }
        }
    }
}

async fn one_way(from: &TcpStream, to: &TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        consume_budget().await;
        from.readable().await?;
        let read = match from.try_read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        };
        let mut rest = &buffer[..read];
        while !rest.is_empty() {
            to.writable().await?;
            match to.try_write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
    match shutdown(to.as_raw_fd(), Shutdown::Write) {
        // it is gone, which the other direction tells
        Ok(()) | Err(Errno::ENOTCONN) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Waits until an end that sends nothing more is gone.
async fn gone(stream: &TcpStream) -> io::Result<()> {
    stream.ready(Interest::ERROR).await?;
    Err(stream.take_error()?.unwrap_or_else(|| io::ErrorKind::ConnectionReset.into()))
}
